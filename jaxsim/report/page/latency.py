"""How long requests took, and in which phases."""

from collections.abc import Iterator, Mapping
from typing import Any

from jaxsim.metrics.breakdown import PHASES, Group, breakdown
from jaxsim.metrics.percentile_curve import percentile_curve
from jaxsim.report.figures import figure, span, time_unit
from jaxsim.report.html import Markup, tag
from jaxsim.report.page.context import LONG_NAMES, NAMES, Context
from jaxsim.report.page.verdict import interval, seconds, statistic_name
from jaxsim.report.svg import Curve, Mark, percentile_chart, seconds_text

_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
_MARKED = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def latencies(run: Context) -> Markup:
    """Statistics with intervals, and the distributions."""
    return tag(
        "section",
        tag("h2", "Latencies"),
        _table(run.summary),
        tag("p", _method(run.summary), class_="note"),
        tag("div", list(_charts(run)), class_="charts"),
        _chart_note(run),
    )


def phases(run: Context) -> Markup | None:
    """Queue, prefill and decode of fast and slow requests."""
    if run.table is None or not run.summary["num_completed"]:
        return None
    first, whole = (breakdown(run.table, metric, run.warmup) for metric in ("ttft_s", "e2e_s"))
    if not first:
        return None
    names = tuple(name for name in PHASES if name != "handover" or any(group.handover_s for group in whole))
    more = " Hand-over: waiting for memory and link, the KV transfer, and the queue at the decode instance."
    return tag(
        "section",
        tag("h2", "Where the time goes"),
        tag("p", _phase_sentence(first), class_="lead"),
        tag(
            "div",
            _bars("Until the first token", first, ("queue", "prefill")),
            _bars("Until the last token", whole, names),
            class_="charts",
        ),
        tag(
            "p",
            [tag("span", name, class_=f"key {name}") for name in names],
            " Means of the requests in each group; a preempted request spends its second wait in the phase it was in.",
            more if "handover" in names else None,
            class_="note",
        ),
    )


def classes(run: Context) -> Markup | None:
    """Each class of requests against its own promise."""
    if not run.summary.get("classes"):
        return None
    rows = []
    for name, of in run.summary["classes"].items():
        attained = of["slo_attainment"]
        cells = [
            ("Share", f"{of['num_measured'] / max(run.summary['num_measured'], 1) * 100:.3g} %", ""),
            (
                "Attainment",
                "-" if attained is None else f"{figure(attained * 100)} %",
                span(of["slo_attainment_ci"], 0.01),
            ),
            *(
                (f"{NAMES[metric]} P99", seconds(of[metric]["p99"]), interval(of[metric]["p99_ci"], of[metric]["p99"]))
                for metric in ("ttft_s", "tpot_s", "e2e_s")
            ),
        ]
        rows.append((name, cells))
    return tag("section", tag("h2", "Classes"), stacked_table("Class", rows))


def stacked_table(corner: str, rows: list[tuple[str, list[tuple[str, str, str]]]]) -> Markup:
    """A table that becomes one card for each row on a narrow screen.

    Args:
        corner: heading of the first column.
        rows: name of each, and label, value and small print of its cells.
    """
    head = tag("tr", tag("th", corner), [tag("th", label, scope="col") for label, _, _ in rows[0][1]])
    body = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            [
                tag("td", tag("b", value), tag("span", small, class_="ci") if small else None, data_label=label)
                for label, value, small in cells
            ],
        )
        for name, cells in rows
    ]
    return tag("table", tag("thead", head), tag("tbody", body), class_="stacked")


def _table(summary: Mapping[str, Any]) -> Markup:
    rows = []
    for metric, name in NAMES.items():
        of = summary[metric]
        scale, unit = time_unit(of["mean"])
        cells = [
            (
                statistic_name(statistic),
                "-" if of[statistic] is None else figure(of[statistic] / scale),
                span(of[f"{statistic}_ci"], scale),
            )
            for statistic in _STATISTICS
        ]
        rows.append((f"{name}, {unit}" if of["count"] else name, cells))
    return stacked_table("", rows)


def _method(summary: Mapping[str, Any]) -> str:
    if summary["ci_clusters"] < 2:
        return "There are no confidence intervals: they need more than one seed, or more requests."
    kind = "seeds" if summary["ci_method"] == "replications" else "batches of consecutive requests"
    confidence = f"{summary['ci_confidence'] * 100:g} %"
    return f"In small print: {confidence} confidence intervals, from {summary['ci_clusters']:,} {kind}."


def _charts(run: Context) -> Iterator[Markup]:
    for metric, values in run.latencies.items():
        curve = percentile_curve(values, batches=run.batches, confidence=run.summary["ci_confidence"])
        if not len(curve.share) or not curve.value.max() > 0:
            continue
        of = run.summary[metric]
        marks = [
            Mark(share, of[name], f"{name.upper()} {seconds(of[name])} ({interval(of[f'{name}_ci'], of[name])})")
            for name, share in _MARKED.items()
        ]
        limits = [verdict for verdict in run.summary["slo_verdicts"] if verdict["metric"] == metric]
        limit = max(limits, key=lambda verdict: verdict["limit"]) if limits else None
        chart = percentile_chart(
            Curve(curve.share, curve.value, curve.low, curve.high),
            marks,
            f"{LONG_NAMES[metric]} by percentile: P50 {seconds(of['p50'])}, P99 {seconds(of['p99'])}",
            limit and limit["limit"],
            f"{statistic_name(limit['statistic'])} ≤ {seconds_text(limit['limit'])}" if limit else "",
        )
        yield tag("figure", tag("figcaption", f"{LONG_NAMES[metric]} ({NAMES[metric]})"), chart)


def _chart_note(run: Context) -> Markup | None:
    if run.table is None:
        return tag("p", "The run kept no table of requests, so there are no distributions.", class_="note")
    return tag(
        "p",
        "Every request that completed, from the fastest to the slowest; each step to the right leaves a tenth of the "
        "requests. The band is the confidence interval, a dashed line a promise.",
        class_="note",
    )


def _phase_sentence(groups: list[Group]) -> str:
    slow, all_ = groups[-1], _mean(groups)
    more = slow.queue_s + slow.prefill_s - all_.queue_s - all_.prefill_s
    if more <= 0:
        return "All requests take equally long to their first token."
    queueing = slow.queue_s - all_.queue_s
    return (
        f"The slowest {_percent(1 - slow.low)} wait {seconds(more)} longer than the average for their first token: "
        f"{_signed(queueing)} in the queue, {_signed(more - queueing)} in prefill."
    )


def _signed(value: float) -> str:
    return f"{seconds(abs(value))} {'more' if value >= 0 else 'less'}"


def _mean(groups: list[Group]) -> Group:
    count = sum(group.count for group in groups)
    parts = [sum(group.count * getattr(group, f"{name}_s") for group in groups) / count for name in PHASES]
    return Group(0.0, 1.0, count, *parts)


def _bars(title: str, groups: list[Group], names: tuple[str, ...]) -> Markup:
    totals = [sum(getattr(group, f"{name}_s") for name in names) for group in groups]
    longest = max(totals) or 1.0
    rows = []
    for group, total in zip(groups, totals, strict=True):
        parts = [
            tag(
                "i",
                class_=name,
                style=f"width:{getattr(group, f'{name}_s') / longest * 100:.2f}%",
                title=f"{name}: {seconds(getattr(group, f'{name}_s'))}",
            )
            for name in names
        ]
        told = ", ".join(f"{name} {seconds(getattr(group, f'{name}_s'))}" for name in names)
        rows.append(
            tag(
                "div",
                tag("span", _group_name(group), class_="who"),
                tag("span", seconds(total), class_="total"),
                tag("div", parts, class_="bar-track"),
                tag("span", told, class_="ci"),
                class_="bar-row",
            )
        )
    return tag("figure", tag("figcaption", title), rows)


def _group_name(group: Group) -> str:
    if group.low == 0:
        return f"Fastest {_percent(group.high)}"
    if group.high == 1:
        return f"Slowest {_percent(1 - group.low)}"
    return f"P{group.low * 100:g} to P{group.high * 100:g}"


def _percent(share: float) -> str:
    return f"{share * 100:.3g} %"
