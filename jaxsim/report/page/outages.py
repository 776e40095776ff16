"""What the outages cost."""

from jaxsim.analysis.compare import Difference
from jaxsim.report.figures import percent
from jaxsim.report.html import Markup, tag
from jaxsim.report.page.context import Context
from jaxsim.report.page.latency import stacked_table
from jaxsim.report.page.verdict import seconds


def cost(run: Context) -> Markup | None:
    """Latencies without and with them, on the same requests."""
    if not run.outages:
        return None
    rows = [
        (
            found.statistic.label,
            [
                ("Always available", _value(found, found.a), ""),
                ("With the outages", _value(found, found.b), ""),
                ("Change", f"{found.change * 100:+.1f} %", _interval(found)),
            ],
        )
        for found in run.outages
    ]
    seeds = run.outages[0].seeds
    of = f"{seeds:,} seeds, each" if seeds > 1 else "One seed,"
    return tag(
        "section",
        tag("h2", "What the outages cost"),
        stacked_table("", rows),
        tag("p", f"{of} with the same requests; the 95 % interval is that of the change.", class_="note"),
    )


def _value(found: Difference, value: float) -> str:
    return seconds(value) if found.statistic.is_latency else percent(value)


def _interval(found: Difference) -> str:
    ends = found.change_interval
    return "" if ends is None else f"{ends.low * 100:+.1f} to {ends.high * 100:+.1f}"
