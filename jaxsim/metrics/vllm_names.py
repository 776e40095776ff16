"""The metrics of a run under the names that vLLM's server exports to Prometheus, so that its dashboards read both.

Histograms have the buckets of vLLM 0.33 and hold the measured requests of all seeds; counters are their sums; gauges,
which a server samples, are averages over time. The label `engine` is the number of the instance; a request that was
handed over counts where it was prefilled. There is no `vllm:inter_token_latency_seconds`: single gaps between tokens
are not part of the table of requests.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from jaxsim._status import RequestStatus
from jaxsim.metrics.occupancy import by_instance
from jaxsim.metrics.per_request import latencies
from jaxsim.metrics.request_table import RequestTable

SCHEMA_VERSION = 1

_TTFT = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
    *(160.0, 640.0, 2560.0),
)
_PER_TOKEN = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_REQUEST = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0),
    *(1920.0, 7680.0),
)


@dataclass(frozen=True)
class Sample:
    """One number of a metric.

    Attributes:
        suffix: what follows the name of the metric, such as `_bucket`.
        labels: by name.
        value: the number.
    """

    suffix: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Family:
    """One metric.

    Attributes:
        name: as vLLM calls it.
        kind: as Prometheus calls it.
        help: what it is, with its unit.
        samples: its numbers.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: tuple[Sample, ...]


def families(
    table: RequestTable, summary: Mapping[str, Any], scenario: Mapping[str, Any], warmup: int = 0
) -> list[Family]:
    """The metrics of a run.

    Args:
        table: its requests.
        summary: as in `summary.json`.
        scenario: as in `manifest.json`: names of models.
        warmup: requests at the start of each seed that are not measured.
    """
    measured = table.block(requests=slice(warmup, None))
    values = latencies(measured)
    done = measured.completed
    rows = {row.instance: row for row in by_instance(table, warmup)}
    here = {number: measured.instance == number for number in rows}
    labels = {number: {"model_name": _model(scenario, number), "engine": str(number)} for number in here}

    def histogram(name: str, help: str, column: np.ndarray, bounds: tuple[float, ...]) -> Family:
        samples = [
            sample
            for number, own in here.items()
            for sample in _histogram(column[own & ~np.isnan(column)], bounds, labels[number])
        ]
        return Family(f"vllm:{name}", "histogram", help, tuple(samples))

    def counter(name: str, help: str, column: np.ndarray) -> Family:
        samples = (Sample("", labels[number], float(column[own].sum())) for number, own in here.items())
        return Family(f"vllm:{name}_total", "counter", help, tuple(samples))

    def gauge(name: str, help: str, by_number: Mapping[int, float]) -> Family:
        return Family(
            f"vllm:{name}", "gauge", help, tuple(Sample("", labels[number], by_number[number]) for number in here)
        )

    tokens = _one_two_five(int(max(table.prompt_tokens.max(initial=1), table.output_tokens.max(initial=1))))
    completed = {name: np.where(done, getattr(measured, name).astype(float), np.nan) for name in _LENGTHS}
    prefill = measured.first_token_s - measured.first_scheduled_s
    decode = measured.finish_s - measured.first_token_s
    found = [
        histogram("time_to_first_token_seconds", "Time to first token in seconds", values["ttft_s"], _TTFT),
        histogram(
            "request_time_per_output_token_seconds",
            "Time per output token after the first of a request, in seconds",
            values["tpot_s"],
            _PER_TOKEN,
        ),
        histogram("e2e_request_latency_seconds", "Latency of a request in seconds", values["e2e_s"], _REQUEST),
        histogram("request_queue_time_seconds", "Time in the queue in seconds", values["queue_s"], _REQUEST),
        histogram(
            "request_prefill_time_seconds", "Time in prefill in seconds", np.where(done, prefill, np.nan), _REQUEST
        ),
        histogram("request_decode_time_seconds", "Time in decode in seconds", np.where(done, decode, np.nan), _REQUEST),
        histogram(
            "request_inference_time_seconds",
            "Time in prefill and decode in seconds",
            np.where(done, prefill + decode, np.nan),
            _REQUEST,
        ),
        histogram("request_prompt_tokens", "Prompt tokens of a request", completed["prompt_tokens"], tokens),
        histogram("request_generation_tokens", "Output tokens of a request", completed["output_tokens"], tokens),
        counter("prompt_tokens", "Prompt tokens", np.where(done, measured.prompt_tokens, 0)),
        counter("generation_tokens", "Output tokens", measured.output_tokens),
        counter("num_preemptions", "Preemptions", measured.preemptions),
        counter("request_success", "Requests that completed", (measured.status == RequestStatus.COMPLETED).astype(int)),
        gauge(
            "num_requests_running",
            "Requests begun and not finished, averaged over time",
            {number: row.running for number, row in rows.items()},
        ),
        gauge(
            "num_requests_waiting",
            "Requests in the queue, averaged over time",
            {number: row.waiting for number, row in rows.items()},
        ),
    ]
    if summary["kv_utilisation"] is not None:
        share = Sample("", {"model_name": _model(scenario, 0)}, summary["kv_utilisation"])
        help = "KV memory in use, 1 is all of it, averaged over time and the fleet"
        found.append(Family("vllm:kv_cache_usage_perc", "gauge", help, (share,)))
    return found


_LENGTHS = ("prompt_tokens", "output_tokens")


def prometheus_text(metrics: list[Family]) -> str:
    """Metrics in Prometheus' text format (version 0.0.4)."""
    lines = []
    for family in metrics:
        lines += [f"# HELP {family.name} {_escaped(family.help)}", f"# TYPE {family.name} {family.kind}"]
        for sample in family.samples:
            labels = ",".join(f'{name}="{_escaped(value, quotes=True)}"' for name, value in sample.labels.items())
            lines.append(f"{family.name}{sample.suffix}{{{labels}}} {_number(sample.value)}")
    return "\n".join(lines) + "\n"


def plain(metrics: list[Family]) -> dict[str, Any]:
    """Metrics as plain data for JSON: bounds of buckets are text (`+Inf`), counts of buckets cumulative."""
    return {
        "schema_version": SCHEMA_VERSION,
        "metrics": [
            {
                "name": family.name,
                "type": family.kind,
                "help": family.help,
                "samples": [
                    {"name": family.name + sample.suffix, "labels": dict(sample.labels), "value": sample.value}
                    for sample in family.samples
                ],
            }
            for family in metrics
        ],
    }


def _histogram(values: np.ndarray, bounds: tuple[float, ...], labels: Mapping[str, str]) -> list[Sample]:
    counts = np.searchsorted(np.sort(values), bounds, side="right").tolist()
    buckets = zip([*map(_number, bounds), "+Inf"], [*counts, len(values)], strict=True)
    return [
        *(Sample("_bucket", {**labels, "le": bound}, float(count)) for bound, count in buckets),
        Sample("_sum", labels, math.fsum(values.tolist())),
        Sample("_count", labels, float(len(values))),
    ]


def _one_two_five(most: int) -> tuple[float, ...]:
    """1, 2, 5, 10 ... up to `most`."""
    steps = [step * 10.0**power for power in range(len(str(most))) for step in (1, 2, 5)]
    return tuple(step for step in steps if step <= max(most, 1))


def _model(scenario: Mapping[str, Any], number: int) -> str:
    """The model of an instance, or the name of the scenario where its clock has none."""
    for group in scenario["cluster"]["instances"]:
        if number < group["count"]:
            model = group["latency"].get("model")
            return str(model["name"] if isinstance(model, Mapping) else scenario["name"])
        number -= group["count"]
    return str(scenario["name"])


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 and not isinstance(value, str) else repr(value)


def _escaped(text: str, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text
