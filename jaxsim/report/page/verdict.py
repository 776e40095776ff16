"""The answer first: is the SLO kept, how sure is that, and the figures everybody asks for."""

from collections.abc import Iterator, Mapping
from typing import Any

from jaxsim.report.figures import figure, percent, span, time_unit
from jaxsim.report.html import Markup, tag
from jaxsim.report.page.context import NAMES, PROMISED_NAMES, Context
from jaxsim.specs.slo import quantile_of


def heading(run: Context) -> Markup:
    """The answer in one sentence, what was simulated, and the most important figures."""
    mood, sentence, more = _answer(run.summary)
    return tag(
        "header",
        tag("p", run.scenario["name"], class_="name"),
        tag("h1", sentence, class_=mood),
        tag("p", more, class_="lead") if more else None,
        tag("ul", [tag("li", line) for line in described(run)], class_="facts"),
        tag("div", [_tile(*facts) for facts in _tiles(run.summary)], class_="tiles"),
        warnings(run.summary),
    )


def promises(run: Context) -> Markup | None:
    """Every promise with its measured value on a scale."""
    verdicts = _verdicts(run.summary)
    if not verdicts:
        return None
    return tag(
        "section",
        tag("h2", "What was promised"),
        tag("div", [_promise(verdict) for verdict in verdicts], class_="promises"),
        tag("p", "The dot is the value, the bar its interval, the line the limit.", class_="note"),
    )


def warnings(summary: Mapping[str, Any]) -> Markup | None:
    """What to know before trusting it."""
    if not summary["warnings"]:
        return None
    return tag("ul", [tag("li", sentence) for sentence in summary["warnings"]], class_="warnings")


def promise_name(verdict: Mapping[str, Any]) -> str:
    """Such as `TTFT P99`, after the class it was promised to."""
    of = f"{verdict['class']}: " if "class" in verdict else ""
    if verdict["metric"] == "slo_attainment":
        return f"{of}Attainment"
    return f"{of}{PROMISED_NAMES[verdict['metric']]} {statistic_name(verdict['statistic'])}"


def _verdicts(summary: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """On all requests, then on each class."""
    by_class = [
        {**verdict, "class": name} for name, of in summary.get("classes", {}).items() for verdict in of["slo_verdicts"]
    ]
    return [*summary["slo_verdicts"], *by_class]


def statistic_name(statistic: str) -> str:
    """`P99`, or `mean`."""
    return statistic if quantile_of(statistic) is None else statistic.upper()


def seconds(value: float | None) -> str:
    """A time in a unit that fits."""
    if value is None:
        return "-"
    scale, unit = time_unit(value)
    return f"{figure(value / scale)} {unit}"


def interval(ends: Any, value: float | None) -> str:
    """The ends of an interval in the unit of its value."""
    return span(ends, time_unit(value)[0])


def described(run: Context) -> Iterator[str]:
    """What arrived, and what served it."""
    summary, scenario = run.summary, run.scenario
    lengths = ""
    if run.measured is not None and run.measured.prompt_tokens.size:
        prompts, outputs = (f"{getattr(run.measured, name).mean():,.0f}" for name in ("prompt_tokens", "output_tokens"))
        lengths = f", {prompts} prompt and {outputs} output tokens on average"
    count = f"{summary['num_measured']:,} measured requests"
    seeds = f" of {summary['seeds']:,} seeds" if summary["seeds"] > 1 else ""
    yield f"{figure(summary['arrival_rate_per_s'], 3)} requests/s{lengths}; {count}{seeds}"
    for group in scenario["cluster"]["instances"]:
        role = "" if group.get("role", "unified") == "unified" else f" for {group['role']}"
        yield f"{group['count']} × {_clock(group['latency'])}{role}, {_scheduler(group['scheduler'])}"


def _clock(latency: Mapping[str, Any]) -> str:
    if isinstance(latency.get("model"), Mapping):
        devices = latency.get("tensor_parallel", 1) * latency.get("pipeline_parallel", 1)
        several = f"{devices} " if devices > 1 else ""
        return f"{latency['model']['name']} on {several}{latency['hardware']['name']}"
    return f"{latency['kind']} clock"


def _scheduler(scheduler: Mapping[str, Any]) -> str:
    limits = [
        f"{scheduler[name]:,} {unit}"
        for name, unit in (("max_num_batched_tokens", "tokens"), ("max_num_seqs", "requests"))
        if isinstance(scheduler.get(name), int)
    ]
    return scheduler["kind"] + (f" with at most {' and '.join(limits)} in a batch" if limits else "")


def _answer(summary: Mapping[str, Any]) -> tuple[str, str, str]:
    """Mood, sentence, and what else to say."""
    verdicts = [verdict for verdict in _verdicts(summary) if verdict["met"] is not None]
    if summary["seeds_incomplete"]:
        of = f"{summary['seeds_incomplete']:,} of {summary['seeds']:,} seeds stopped early"
        return "bad", "The simulation did not finish.", f"{of}: see the warnings below."
    if not summary["num_completed"]:
        return "bad", "No request completed.", ""
    if not verdicts:
        p99 = summary["ttft_s"]["p99"]
        ends = interval(summary["ttft_s"]["p99_ci"], p99)
        more = f"Its interval is {ends}; nothing was promised." if ends else "Nothing was promised."
        return "", f"The P99 of TTFT is {seconds(p99)}.", more
    missed = [verdict for verdict in verdicts if not verdict["met"]]
    unsure = [verdict for verdict in missed or verdicts if not verdict["certain"]]
    if missed:
        sentence = "The SLO is missed." if len(unsure) < len(missed) else "The SLO seems to be missed."
        return "bad", sentence, _told(missed)
    if unsure:
        return "unsure", "The SLO seems to be kept.", f"Not certain: {_told(unsure)} More seeds would tell."
    closest = max(verdicts, key=_use)
    others = f"All {len(verdicts)} promises are kept. The closest: " if len(verdicts) > 2 else ""
    return "good", "The SLO is kept.", others + _told([closest] if others else verdicts)


def _told(verdicts: list[Mapping[str, Any]]) -> str:
    return "; ".join(map(_measured, verdicts)) + "."


def _use(verdict: Mapping[str, Any]) -> float:
    """How much of a promise is used up."""
    if verdict["metric"] == "slo_attainment":
        return (1 - verdict["value"]) / max(1 - verdict["limit"], 1e-9)
    return verdict["value"] / verdict["limit"]


def _measured(verdict: Mapping[str, Any]) -> str:
    return f"{promise_name(verdict)} is {_value(verdict)}, promised {_limit(verdict)}"


def _value(verdict: Mapping[str, Any]) -> str:
    if verdict["value"] is None:
        return "unbounded (too many requests did not complete)"
    return percent(verdict["value"]) if verdict["metric"] == "slo_attainment" else seconds(verdict["value"])


def _limit(verdict: Mapping[str, Any]) -> str:
    if verdict["metric"] == "slo_attainment":
        return f"at least {verdict['limit'] * 100:g} %"
    scale, unit = time_unit(verdict["limit"])
    return f"at most {verdict['limit'] / scale:g} {unit}"


def _tiles(summary: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Label, figure and interval."""
    for metric, statistic in (("ttft_s", "p99"), ("tpot_s", "mean"), ("e2e_s", "p99")):
        of = summary[metric]
        ends = interval(of[f"{statistic}_ci"], of[statistic])
        yield f"{NAMES[metric]} {statistic_name(statistic)}", seconds(of[statistic]), ends
    throughput, ends = summary["throughput_tokens_per_s"], summary["throughput_tokens_per_s_ci"]
    yield "Throughput", f"{figure(throughput)} tokens/s", span(ends)
    if summary["slo_attainment"] is not None:
        share = summary["slo_attainment"]
        yield "Attainment", percent(share), span(summary["slo_attainment_ci"], 0.01)
        good, ends = summary["goodput_requests_per_s"], summary["goodput_requests_per_s_ci"]
        yield "Goodput", f"{figure(good)} requests/s", span(ends)
    if summary["kv_utilisation"] is not None:
        share = summary["kv_utilisation"]
        yield "KV memory used", percent(share), span(summary["kv_utilisation_ci"], 0.01)
    ends = span(summary["preemptions_ci"]) if summary["preemptions"] else ""
    yield "Preemptions", f"{summary['preemptions']:,}", ends


def _tile(label: str, value: str, ends: str) -> Markup:
    number, _, unit = value.partition(" ")
    return tag(
        "div",
        tag("span", label, class_="label"),
        tag("b", number, tag("small", f" {unit}") if unit else None),
        tag("span", ends, class_="ci") if ends else None,
        class_="tile",
    )


def _promise(verdict: Mapping[str, Any]) -> Markup:
    word, mood = _verdict_word(verdict)
    return tag(
        "div",
        tag("div", tag("b", promise_name(verdict)), tag("span", _limit(verdict), class_="limit-text")),
        _scale(verdict),
        tag("div", tag("b", _value(verdict)), tag("span", word, class_=f"badge {mood}"), class_="outcome"),
        class_="promise",
    )


def _verdict_word(verdict: Mapping[str, Any]) -> tuple[str, str]:
    if verdict["met"] is None:
        return "nothing measured", ""
    word = "kept" if verdict["met"] else "missed"
    if not verdict["certain"]:
        return f"{word}, not certain", "unsure"
    return word, "good" if verdict["met"] else "bad"


def _scale(verdict: Mapping[str, Any]) -> Markup:
    """A track with the interval, the value and the limit."""
    value, limit = verdict["value"], verdict["limit"]
    low, high = verdict["ci"] or (value, value)
    if verdict["metric"] == "slo_attainment":
        start, end = max(0.0, min(x for x in (value, low, limit) if x is not None) - 0.05), 1.0
    else:
        start, end = 0.0, 1.12 * max(x for x in (value, high, limit) if x is not None)

    def at(x: float) -> str:
        return f"{min(max((x - start) / (end - start), 0.0), 1.0) * 100:.2f}%"

    _, mood = _verdict_word(verdict)
    parts = []
    if value is not None and low is not None and high is not None:
        parts.append(tag("i", class_="span", style=f"left:{at(low)};right:calc(100% - {at(high)})"))
    if value is not None:
        parts.append(tag("i", class_="dot", style=f"left:{at(value)}"))
    parts.append(tag("i", class_="tick", style=f"left:{at(limit)}"))
    return tag("div", parts, class_=f"scale {mood}", aria_hidden="true")
