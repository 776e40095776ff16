"""The summary of a run as a table in the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jaxsim.metrics.request_table import BREAKDOWN
from jaxsim.report.figures import bracketed, figure, percent, span, time_unit
from jaxsim.specs.slo import quantile_of

_METRICS = {
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "itl_s": "ITL",
    "e2e_s": "E2E",
    "queue_s": "Queue",
    "ttft_with_transfer_s": "TTFT with transfer",
    "queue_prefill_s": "  queue for prefill",
    "prefill_s": "  prefill",
    "wait_memory_s": "  wait for memory",
    "wait_link_s": "  wait for the link",
    "transfer_s": "  transfer",
    "queue_decode_s": "  queue for decode",
}
_MANY = 1000
"""Columns, more than any table here needs."""


def print_summary(summary: Mapping[str, Any], console: Console | None = None) -> None:
    """Print latencies, rates, SLO verdicts and warnings, each with its confidence interval.

    Args:
        summary: as in `summary.json`.
        console: where to; standard output by default, in colour only if that is a terminal.
    """
    console = console or Console(highlight=False)
    wide = _wide_latencies(summary)
    needed = console.measure(wide, options=console.options.update(max_width=_MANY)).maximum
    console.print(wide if needed <= console.width else _narrow_latencies(summary))
    console.print()
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for label, fact in _facts(summary):
        facts.add_row(label, fact)
    console.print(facts)
    for warning in summary["warnings"]:
        console.print(Text(f"! {warning}", style="yellow"))


def _wide_latencies(summary: Mapping[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("")
    statistics = _statistics(summary)
    for statistic in statistics:
        table.add_column(_heading(statistic), justify="right", no_wrap=True)
    for metric, of in _latencies(summary):
        scale, unit = time_unit(of["mean"])
        label = Text(f"{_METRICS[metric]} ({unit})" if of["count"] else f"{_METRICS[metric]}")
        table.add_row(label, *(_cell(of, statistic, scale) for statistic in statistics))
    return table


def _narrow_latencies(summary: Mapping[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right", overflow="fold")
    table.add_column(justify="right", style="dim", overflow="fold")
    for metric, of in _latencies(summary):
        scale, unit = time_unit(of["mean"])
        for statistic in ("mean", "p99") if metric in BREAKDOWN else _statistics(summary):
            value = "-" if of[statistic] is None else f"{figure(of[statistic] / scale)} {unit}"
            table.add_row(f"{_METRICS[metric]} {_heading(statistic)}", value, span(of[f"{statistic}_ci"], scale))
    return table


def _latencies(summary: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return ((metric, summary[metric]) for metric in _METRICS if metric in summary)


def _statistics(summary: Mapping[str, Any]) -> list[str]:
    """The mean, and the percentiles that every latency has, ascending as in the summary."""
    first, *others = [of for _, of in _latencies(summary)]
    return ["mean", *(name for name in first if quantile_of(name) and all(name in of for of in others))]


def _cell(of: Mapping[str, Any], statistic: str, scale: float) -> Text:
    if of[statistic] is None:
        return Text("-")
    text = Text(figure(of[statistic] / scale), style="bold")
    return text.append(f"\n{span(of[f'{statistic}_ci'], scale)}", style="not bold dim")


def _heading(statistic: str) -> str:
    return statistic if quantile_of(statistic) is None else statistic.upper()


def _facts(summary: Mapping[str, Any]) -> Iterator[tuple[str, Text | str]]:
    """The lines below the table."""
    yield "Throughput", _rates(summary, "throughput")
    yield "Arrivals", f"{figure(summary['arrival_rate_per_s'])} requests/s"
    for place, verdict in enumerate(summary["slo_verdicts"]):
        yield "" if place else "SLO", _verdict(verdict)
    if summary["slo_attainment"] is not None:
        yield "Attainment", percent(summary["slo_attainment"], summary["slo_attainment_ci"])
        yield "Goodput", _rates(summary, "goodput")
    for place, (name, of) in enumerate(summary.get("classes", {}).items()):
        yield "" if place else "Classes", _class(name, of, summary["num_measured"])
    yield "Preemptions", _preemptions(summary)
    if summary["preemption"]["explanation"] is not None:
        yield "", summary["preemption"]["explanation"]
    if summary["kv_utilisation"] is None:
        yield "KV cache", "unlimited"
    else:
        yield "KV cache", f"{percent(summary['kv_utilisation'], summary['kv_utilisation_ci'])} used"
    yield "Requests", _counts(summary)
    yield "Intervals", _method(summary)


def _preemptions(summary: Mapping[str, Any]) -> str:
    if not summary["preemptions"]:
        return "0"
    lost = summary["preemption"]
    requests = percent(lost["requests_share"], lost["requests_share_ci"])
    return (
        f"{summary['preemptions']:,}{bracketed(span(summary['preemptions_ci']))}, of {requests} of the requests; "
        f"{percent(lost['recomputed_share'])} of tokens computed again"
    )


def _rates(summary: Mapping[str, Any], name: str) -> str:
    requests, tokens = (f"{name}_{unit}_per_s" for unit in ("requests", "tokens"))
    return (
        f"{figure(summary[requests])} requests/s{bracketed(span(summary[f'{requests}_ci']))}, "
        f"{figure(summary[tokens])} tokens/s{bracketed(span(summary[f'{tokens}_ci']))}"
    )


def _verdict(verdict: Mapping[str, Any]) -> Text:
    if verdict["metric"] == "slo_attainment":
        promise = f"Attainment ≥ {verdict['limit'] * 100:g} %"
        value, interval = percent(verdict["value"]), span(verdict["ci"], 0.01)
    else:
        scale, unit = time_unit(verdict["limit"])
        promise = (
            f"{_METRICS[verdict['metric']]} {_heading(verdict['statistic'])} ≤ {verdict['limit'] / scale:g} {unit}"
        )
        scale, unit = time_unit(verdict["value"])
        value = "-" if verdict["value"] is None else f"{figure(verdict['value'] / scale)} {unit}"
        interval = span(verdict["ci"], scale)
    if verdict["met"] is None:
        return Text(f"{promise}: nothing measured")
    word, style = ("met", "green") if verdict["met"] else ("missed", "red")
    if verdict["value"] is None:
        value = "too many requests did not complete"
    text = Text(f"{promise}: ").append(word, style=f"bold {style}")
    if not verdict["certain"]:
        text.append(", not certain", style="yellow")
    return text.append(f": {value}{bracketed(interval)}")


def _class(name: str, of: Mapping[str, Any], measured: int) -> Text:
    """Share, attainment and tail of one class; attainment in red where its own promise is missed."""
    text = Text(f"{name}: {percent(of['num_measured'] / measured)} of requests")
    if of["slo_attainment"] is not None:
        kept = all(verdict["met"] is not False for verdict in of["slo_verdicts"])
        text.append(", attainment ").append(
            percent(of["slo_attainment"], of["slo_attainment_ci"]), style="green" if kept else "red"
        )
    for metric in ("ttft_s", "tpot_s"):
        if of[metric]["p99"] is not None:
            scale, unit = time_unit(of[metric]["p99"])
            text.append(f", {_METRICS[metric]} P99 {figure(of[metric]['p99'] / scale)} {unit}")
    return text


def _counts(summary: Mapping[str, Any]) -> str:
    parts = [f"{count:,} {status}" for status, count in summary["status_counts"].items() if count]
    if (warmup := summary["num_requests"] - summary["num_measured"]) > 0:
        parts.append(f"{warmup:,} of warm-up not measured")
    return f"{summary['num_requests']:,}: {', '.join(parts)}"


def _method(summary: Mapping[str, Any]) -> str:
    kind = "seeds" if summary["ci_method"] == "replications" else "batches of consecutive requests"
    if summary["ci_clusters"] < 2:
        return "none"
    return f"{summary['ci_confidence'] * 100:g} %, from {summary['ci_clusters']:,} {kind}"
