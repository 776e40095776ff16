"""How the result was made, so that it can be made again."""

from jaxsim.config.text import dump_yaml
from jaxsim.report.figures import figure
from jaxsim.report.html import Markup, tag
from jaxsim.report.page.context import Context


def manifest(run: Context) -> Markup:
    """Versions, seeds, times, hashes, notices, and the scenario itself."""
    of = run.manifest
    facts = [
        ("Seeds", f"{of['seeds']['count']:,}, from {of['seeds']['first']}"),
        ("Requests", _counts(run)),
        ("Simulated in", f"{figure(of['run_seconds'], 3)} s, {of['iterations']:,} iterations of the engines"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in of["versions"].items())),
        ("Device", f"{of['device']['kind']}, {of['device']['workers']} workers"),
        *((f"SHA-256 of {name}", digest) for name, digest in of["input_hashes"].items()),
        *(("Note", notice) for notice in of["notices"]),
    ]
    if of.get("interrupted"):
        facts.insert(0, ("Interrupted", "the run was stopped; this covers the seeds that had finished"))
    return tag(
        "section",
        tag("h2", "How this was made"),
        tag("dl", [(tag("dt", name), tag("dd", text)) for name, text in facts]),
        tag(
            "details",
            tag("summary", "The scenario with every key; kept in a file, jaxsim run makes this report again"),
            tag("pre", dump_yaml(dict(of["scenario"]))),
        ),
    )


def _counts(run: Context) -> str:
    parts = [f"{count:,} {status}" for status, count in run.summary["status_counts"].items() if count]
    if warmup := run.summary["num_requests"] - run.summary["num_measured"]:
        parts.append(f"{warmup:,} of warm-up not measured")
    return ", ".join(parts)
