"""Where the tail comes from, and the requests in it."""

import numpy as np

from jaxsim._status import RequestStatus
from jaxsim.metrics.tail import CAUSES, Cause, Tail, TailMetric, tail
from jaxsim.report.html import Markup, tag
from jaxsim.report.page.context import LONG_NAMES, NAMES, Context
from jaxsim.report.page.verdict import seconds

_METRICS: tuple[TailMetric, ...] = ("ttft_s", "tpot_s")
_SLOWEST = 10
_TIMES = {1: "once", 2: "twice"}
_NOTABLE = 0.15
"""A difference of shares that is worth a sentence."""


def origins(run: Context) -> Markup | None:
    """What slow requests have more often than others."""
    if run.table is None or not run.summary["num_completed"]:
        return None
    parts = [_origin(tail(run.table, metric, run.warmup, 0, run.neighbours)) for metric in _METRICS]
    return tag(
        "section",
        tag("h2", "Where the tail comes from"),
        tag("div", parts, class_="charts"),
        tag(
            "p",
            tag("span", "share of the slow requests", class_="key slow"),
            tag("span", "share of all", class_="key all"),
            " Causes do not exclude each other. “Long” means longer than 90 % of all.",
            class_="note",
        ),
    )


def slowest(run: Context) -> Markup | None:
    """The requests that waited longest for their first token, with what happened to them."""
    if run.table is None or not run.summary["num_completed"]:
        return None
    found = tail(run.table, "ttft_s", run.warmup, _SLOWEST, run.neighbours)
    longest = max((float(run.table.ttft_s[place]) for place in _places(found)), default=0.0)
    items = [_request(run, place, longest) for place in _places(found)]
    return tag(
        "section",
        tag("h2", "The slowest requests"),
        tag("ol", items, class_="slowest"),
        tag(
            "p",
            [tag("span", name, class_=f"key {name}") for name in ("queue", "prefill")],
            " Any of them can be replayed alone: its seed gives the same requests in every run.",
            class_="note",
        ),
    )


def _origin(found: Tail) -> Markup:
    name = NAMES[found.metric]
    caption = tag("figcaption", f"{LONG_NAMES[found.metric]} ({name})")
    if not found.count:
        return tag("figure", caption, tag("p", "No request has one.", class_="note"))
    causes = [cause for cause in found.causes if cause.slow_share or cause.share]
    limit = f"slow is {name} of {seconds(found.limit_s)} or more"
    who = f"{found.count:,} of {found.measured:,} requests are slow: {limit}."
    return tag("figure", caption, tag("p", _sentence(causes), " ", who), [_cause(cause) for cause in causes])


def _sentence(causes: list[Cause]) -> str:
    notable = [cause for cause in causes if cause.slow_share - cause.share >= _NOTABLE][:2]
    if not notable:
        return "Nothing looked at sets the slow requests apart."
    told = [f"{_percent(cause.slow_share)} of them {CAUSES[cause.name]}" for cause in notable]
    return f"{', and '.join(told)}.".replace("of them", "of the slow ones", 1)


def _cause(cause: Cause) -> Markup:
    text = CAUSES[cause.name]
    return tag(
        "div",
        tag("span", text[0].upper() + text[1:], class_="who"),
        tag("span", _percent(cause.slow_share), class_="total"),
        tag("div", tag("i", class_="slow", style=f"width:{cause.slow_share * 100:.2f}%"), class_="bar-track"),
        tag("div", tag("i", class_="all", style=f"width:{cause.share * 100:.2f}%"), class_="bar-track thin"),
        tag("span", f"{_percent(cause.share)} of all requests", class_="ci"),
        class_="bar-row",
    )


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.1 or not share else f"{share * 100:.2g} %"


def _places(found: Tail) -> list[tuple[int, int]]:
    return [(int(seed), int(one)) for seed, one in zip(found.seed_index, found.request_index, strict=True)]


def _request(run: Context, place: tuple[int, int], longest: float) -> Markup:
    table = run.table
    assert table is not None
    queue = float(table.queue_s[place])
    prefill = float(table.ttft_s[place]) - queue
    parts = [
        tag("i", class_=name, style=f"width:{value / (longest or 1) * 100:.2f}%", title=f"{name}: {seconds(value)}")
        for name, value in (("queue", queue), ("prefill", prefill))
    ]
    facts = (
        f"{table.prompt_tokens[place]:,} prompt and {table.output_tokens[place]:,} output tokens, instance "
        f"{table.instance[place]}, arrived at {table.arrival_s[place]:,.2f} s, E2E {seconds(float(table.e2e_s[place]))}"
    )
    return tag(
        "li",
        tag("b", f"TTFT {seconds(queue + prefill)}"),
        tag("span", f"request {table.request[place]} of seed {table.seed[place[0]]}", class_="ci"),
        tag("div", parts, class_="bar-track"),
        tag("p", what_happened(run, place)),
        tag("p", facts, class_="ci"),
    )


def what_happened(run: Context, place: tuple[int, int]) -> str:
    """One request's way to its first token, in a sentence.

    Args:
        run: with a table.
        place: row and column of the request.
    """
    table, beside = run.table, run.neighbours
    assert table is not None and beside is not None
    if table.status[place] != RequestStatus.COMPLETED:
        return f"It {RequestStatus(int(table.status[place])).advice}."
    queue, ttft = float(table.queue_s[place]), float(table.ttft_s[place])
    ahead, others = int(beside.waiting[place]), int(beside.running[place])
    told = []
    if queue > 0.05 * ttft:
        behind = f" behind {_requests(ahead)}" if ahead else ""
        told.append(f"waited {seconds(queue)} in the queue{behind}")
    prefill = f"was prefilled in {seconds(ttft - queue)}"
    if others:
        prefill += f" with {_requests(others)} running when it arrived"
    told.append(prefill)
    if long := int(beside.long_prompts_beside[place]):
        told.append(f"had {long} long prompt{'s' if long > 1 else ''} of others in its way")
    if beside.long_prompt[place]:
        told.append(f"has a prompt longer than {_rank(table.prompt_tokens, place)} of all")
    if times := int(table.preemptions[place]):
        told.append(f"was preempted {_TIMES.get(times, f'{times} times')}")
    return f"It {', '.join(told[:-1])} and {told[-1]}." if len(told) > 1 else f"It {told[0]}."


def _requests(count: int) -> str:
    return f"{count:,} other{'s' if count > 1 else ''}"


def _rank(values: np.ndarray, place: tuple[int, int]) -> str:
    share = float(np.mean(values < values[place]))
    return f"{share * 100:.3g} %" if share < 0.9995 else "99.9 %"
