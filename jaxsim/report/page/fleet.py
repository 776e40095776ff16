"""What the fleet did over time, and each instance of it."""

import numpy as np

from jaxsim.metrics.events import Events
from jaxsim.metrics.occupancy import by_instance, occupancy
from jaxsim.report.figures import figure
from jaxsim.report.html import Markup, tag
from jaxsim.report.page.context import Context
from jaxsim.report.page.latency import stacked_table
from jaxsim.report.page.verdict import seconds
from jaxsim.report.svg import histogram_chart, series_chart

_PIXELS = 240
_MOST_INSTANCES = 64


def over_time(run: Context) -> Markup | None:
    """Waiting and running requests of the first seed; with events, memory and batches, too."""
    if run.table is None or not (run.table.instance[0] >= 0).any():
        return None
    found = occupancy(run.table)
    times = np.linspace(0, max(float(found.time_s[-1]), 1e-9), _PIXELS)
    waiting = _highest(found.time_s, found.waiting, times)
    running = _highest(found.time_s, found.running, times)
    seed = int(run.table.seed[0])
    charts = [
        tag("figure", tag("figcaption", "Running requests"), series_chart(times, [("prefill", running)], "Running")),
        tag("figure", tag("figcaption", "Waiting requests"), series_chart(times, [("queue", waiting)], "Waiting")),
    ]
    if run.events is not None and len(run.events):
        charts += _batches(run.events, times)
    told = f"Seed {seed}, the whole fleet; at each place the highest value in {seconds(float(times[1]))}."
    return tag("section", tag("h2", "Over time"), tag("div", charts, class_="charts"), tag("p", told, class_="note"))


def instances(run: Context) -> Markup | None:
    """One row for each instance."""
    if run.table is None:
        return None
    rows = by_instance(run.table, run.warmup)
    if not rows:
        return None
    names = _instance_names(run)
    told = [
        (
            names[row.instance],
            [
                ("Requests", f"{row.requests:,}", f"{row.share * 100:.3g} %"),
                ("Busy", f"{row.busy_share * 100:.3g} %", ""),
                ("Running, mean", figure(row.running, 3), ""),
                ("Waiting, mean", figure(row.waiting, 3), ""),
                ("TTFT mean", seconds(row.ttft_mean_s), ""),
                ("TTFT P99", seconds(row.ttft_p99_s), ""),
                ("TPOT mean", seconds(row.tpot_mean_s), ""),
                ("Preemptions", f"{row.preemptions:,}", ""),
            ],
        )
        for row in rows[:_MOST_INSTANCES]
    ]
    more = f" The first {_MOST_INSTANCES} of {len(rows):,} are shown." if len(rows) > _MOST_INSTANCES else ""
    return tag(
        "section",
        tag("h2", "Instances"),
        stacked_table("", told),
        tag("p", f"Over all seeds; busy is the share of time with a request that was begun.{more}", class_="note"),
    )


def workload(run: Context) -> Markup | None:
    """The lengths that were drawn."""
    if run.measured is None or not run.measured.prompt_tokens.size:
        return None
    charts = []
    for name, label in (("prompt_tokens", "Prompt tokens"), ("output_tokens", "Output tokens")):
        values = getattr(run.measured, name)
        p50, p90, p99 = np.quantile(values, (0.5, 0.9, 0.99))
        told = f"P50 {p50:,.0f}, P90 {p90:,.0f}, P99 {p99:,.0f}, longest {int(values.max()):,}"
        charts.append(
            tag(
                "figure",
                tag("figcaption", label),
                histogram_chart(values.ravel(), f"{label}: {told}"),
                tag("p", told, class_="note"),
            )
        )
    return tag("section", tag("h2", "What arrived"), tag("div", charts, class_="charts"))


def _instance_names(run: Context) -> dict[int, str]:
    """What each instance is called: its number, and the name of its group."""
    names: dict[int, str] = {}
    for group in run.scenario["cluster"]["instances"]:
        for _ in range(group["count"]):
            number = len(names)
            role = "" if group.get("role", "unified") == "unified" else f", {group['role']}"
            names[number] = f"{group.get('name') or 'Instance'} {number}{role}"
    return names


def _highest(time_s: np.ndarray, values: np.ndarray, at_s: np.ndarray) -> np.ndarray:
    """The highest value of a step function from each of some times until the next of them."""
    first = np.searchsorted(time_s, at_s, side="right") - 1
    peaks = np.maximum.reduceat(values, first)
    return np.maximum(peaks, values[np.minimum(np.append(first[1:], len(values) - 1), len(values) - 1)])


def _batches(events: Events, times: np.ndarray) -> list[Markup]:
    kv = np.zeros(len(times))
    prefill, decode = np.zeros(len(times)), np.zeros(len(times))
    width = times[1] - times[0]
    for instance in np.unique(events.instance).tolist():
        own = events.of(instance)
        place = np.searchsorted(own.start_s, times, side="right") - 1
        kv += np.where(place >= 0, own.kv_blocks[place], 0)
    middle = np.minimum(((events.start_s + events.end_s) / 2 / width).astype(int), len(times) - 1)
    np.add.at(prefill, middle, events.prefill_tokens)
    np.add.at(decode, middle, events.new_tokens - events.prefill_tokens)
    return [
        tag("figure", tag("figcaption", "KV blocks in use"), series_chart(times, [("decode", kv)], "KV blocks")),
        tag(
            "figure",
            tag("figcaption", "Tokens per second: prefill over decode"),
            series_chart(
                times, [("prefill", (prefill + decode) / width), ("decode", decode / width)], "Tokens per second"
            ),
        ),
    ]
