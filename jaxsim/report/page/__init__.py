"""A run as one self-contained page: readable on a phone, printed, light or dark, and without a network."""

import os
from pathlib import Path

from jaxsim.analysis.compare import Difference
from jaxsim.metrics.events import Events
from jaxsim.report.html import Markup, tag
from jaxsim.report.page import fleet, latency, made, outages, tail, verdict
from jaxsim.report.page.context import Context
from jaxsim.result import Result, replacing

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing is loaded and nothing is executed, even if some text should slip through as markup."""


def html_report(result: Result, events: Events | None = None, cost: tuple[Difference, ...] = ()) -> str:
    """The report of a run as one HTML page.

    Without a table of requests it has the summary only. Every text that comes from a file is escaped; the page loads
    nothing and runs no script.

    Args:
        result: what `jaxsim.run` or `jaxsim.load_result` returned.
        events: batches of the first seed, if they were recorded: memory and batches over time.
        cost: of outages (`jaxsim.analysis.outages`), if there were any.
    """
    run = Context(result.summary, result.requests, result.manifest, events, cost)
    sections = [
        verdict.promises(run),
        latency.latencies(run),
        latency.phases(run),
        outages.cost(run),
        tail.origins(run),
        tail.slowest(run),
        latency.classes(run),
        fleet.over_time(run),
        fleet.instances(run),
        fleet.workload(run),
        made.manifest(run),
    ]
    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{run.scenario['name']}: jaxsim report"),
        tag("style", Markup(style)),
    )
    versions = f"jaxsim {run.manifest['versions']['jaxsim']}"
    body = tag("body", tag("main", verdict.heading(run), sections), tag("footer", f"Made by {versions}."))
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def write_report(
    result: Result,
    path: str | os.PathLike[str],
    events: Events | None = None,
    cost: tuple[Difference, ...] = (),
) -> None:
    """Write `html_report` to a file, which is replaced when the page is whole.

    Raises:
        OSError: the file cannot be written.
    """
    page = html_report(result, events, cost)
    with replacing(Path(path)) as partial:
        partial.write_text(page, encoding="utf-8")
