"""Measured requests against simulated ones: how far off is a scenario?"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.config.schema import Scenario
from jaxsim.result import Result
from jaxsim.simulate import run
from jaxsim.workload import Requests, Trace
from jaxsim.workload.trace import Rows
from jaxsim.workload.trace.files import read_content
from jaxsim.workload.trace.rows import take

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRICS = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
STATISTICS = ("mean", "p50", "p90", "p99")

_PER_REQUEST = ("ttft_s", "tpot_s", "e2e_s")
_VLLM_METRICS = {"ttft_s": "ttft", "tpot_s": "tpot", "itl_s": "itl", "e2e_s": "e2el"}
_LABELS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "E2E"}

Statistics = Mapping[str, Mapping[str, float]]
"""Seconds by metric and statistic; nan: not known."""


@dataclass(frozen=True, eq=False)
class ValidationAnswer(Answer):
    """Latencies as measured and as simulated.

    Attributes:
        measured: seconds by metric and statistic, nan where the measurement does not say.
        simulated: the same of the simulation.
        requests: how many were compared; 0 if only statistics were measured.
        per_request: median over requests of |simulated / measured - 1|, by metric; empty if other requests were
            simulated than measured.
        values: latencies of single requests in seconds, measured and simulated, by metric, for the picture.
        incomplete: the simulation stopped early.
    """

    question: ClassVar[str] = "validate"

    measured: Statistics
    simulated: Statistics
    requests: int
    per_request: Mapping[str, float]
    values: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(repr=False)
    warnings: tuple[str, ...] = ()
    incomplete: bool = False

    def error(self, metric: str, statistic: str) -> float:
        """Simulated / measured - 1; nan if one of them is not known."""
        measured, simulated = self.measured[metric][statistic], self.simulated[metric][statistic]
        return simulated / measured - 1 if measured > 0 else math.nan

    @property
    def sentences(self) -> Sequence[str]:
        errors = {
            (metric, statistic): error
            for metric in METRICS
            for statistic in STATISTICS
            if not math.isnan(error := self.error(metric, statistic))
        }
        (metric, statistic), worst = max(errors.items(), key=lambda item: abs(item[1]))
        found = [
            f"The largest error is {worst:+.1%}, of {_name(metric, statistic)}; "
            f"the mean of all {len(errors)} is {np.mean(np.abs(list(errors.values()))):.1%}."
        ]
        for metric in METRICS:
            shown = [f"{_heading(s)} {errors[metric, s]:+.1%}" for s in STATISTICS if (metric, s) in errors]
            if shown:
                found.append(f"{_LABELS[metric]}: {', '.join(shown)}.")
        if self.per_request:
            shown = [f"{_LABELS[metric]} {error:.1%}" for metric, error in self.per_request.items()]
            found.append(f"Half of the {self.requests:,} requests are within: {', '.join(shown)}.")
        return found

    @property
    def facts(self) -> Mapping[str, Any]:
        return {
            "requests": self.requests,
            "measured": {metric: dict(of) for metric, of in self.measured.items()},
            "simulated": {metric: dict(of) for metric, of in self.simulated.items()},
            "per_request_error": dict(self.per_request),
        }

    @property
    def rows(self) -> Sequence[Row]:
        return [
            {
                "metric": _LABELS[metric],
                "statistic": _heading(statistic),
                "measured_s": _known(self.measured[metric][statistic]),
                "simulated_s": _known(self.simulated[metric][statistic]),
                "relative_error": _known(self.error(metric, statistic)),
            }
            for metric in METRICS
            for statistic in STATISTICS
        ]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the distributions of TTFT, TPOT and E2E over each other: measured as lines, simulated dashed."""
        ax = new_axes(ax, 7.5, 4.5)
        for place, (metric, pair) in enumerate(self.values.items()):
            for values, style, label in zip(pair, ("-", "--"), ("measured", "simulated"), strict=True):
                values = np.sort(values[~np.isnan(values)])
                share = np.arange(1, len(values) + 1) / max(len(values), 1)
                ax.plot(values, share, style, color=f"C{place}", label=f"{_LABELS[metric]} {label}")
        if not self.values:
            for place, metric in enumerate(METRICS):
                for of, marker in ((self.measured, "o"), (self.simulated, "x")):
                    ax.plot([of[metric][s] for s in STATISTICS], [0.5, 0.5, 0.9, 0.99], marker, color=f"C{place}")
        ax.set(xscale="log", xlabel="seconds", ylabel="share of requests", title=self.sentences[0])
        if self.values:
            ax.legend(frameon=False, fontsize="small")
        return ax


def validate(
    scenario: Scenario,
    measured: Trace,
    *,
    arrival_stamp: Literal["client", "queued"] = "client",
    warmup_requests: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> ValidationAnswer:
    """Simulate what was measured and compare.

    The measured requests are replayed on the scenario's fleet: their arrivals and lengths replace its workload. Where
    the file has only statistics, or does not say when requests arrived, the scenario's own workload is simulated.

    Args:
        scenario: the fleet.
        measured: measured requests in any trace format that has latencies, or the statistics of `vllm bench serve`.
        arrival_stamp: what counts as arrival, in both: when the client sent the request, or when the engine took it in
            (`queued_s`).
        warmup_requests: requests at the start that are simulated but not compared; by default those of the scenario.
        progress: called with the share of the simulation that is done.

    Raises:
        ValueError: the file cannot be used, or has no latencies.
        ScenarioError: the scenario cannot be simulated.
    """
    warmup = scenario.monte_carlo.warmup_requests if warmup_requests is None else warmup_requests
    sizes = dataclasses.replace(scenario.monte_carlo, warmup_requests=warmup)
    statistics = _bench_statistics(measured.path)
    if statistics is not None:
        result = run(dataclasses.replace(scenario, monte_carlo=sizes), keep_requests=False, progress=progress)
        why = f"{measured.path} has no requests, only statistics: {_OWN}"
        return _answer(statistics, result, 0, {}, {}, [why])
    rows = measured.read(timeless=True)
    if rows.measured is None or np.isnan(rows.measured.finish_s).all():
        raise ValueError(
            f"{measured.path}: no measured latencies; a file of requests needs first_token_s and finish_s (or the "
            "report of a benchmark)"
        )
    count = len(rows.row)
    if warmup >= count:
        raise ValueError(f"warmup_requests ({warmup}) must be less than the number of measured requests ({count})")
    warnings = list(rows.notices)
    replayed = rows.arrival_s is not None
    if replayed:
        rows = _stamped(rows, arrival_stamp, measured.path)
        alone = dataclasses.replace(scenario, monte_carlo=dataclasses.replace(sizes, seeds=1))
        result = run(alone, requests=_requests(rows), keep_requests=True, progress=progress)
    else:
        warnings.append(f"{measured.path} does not say when requests arrived: {_OWN}")
        result = run(dataclasses.replace(scenario, monte_carlo=sizes), keep_requests=True, progress=progress)
        rows = dataclasses.replace(rows, arrival_s=np.zeros(count))  # its stamps are durations then
    rows = take(rows, slice(warmup, None))
    values = _latencies(rows)
    lost = int(np.count_nonzero(np.isnan(values["e2e_s"])))
    if lost:
        warnings.append(f"{lost:,} of {count - warmup:,} measured requests have no end: they are in no statistic")
    table = result.requests
    assert table is not None  # it was asked for
    simulated = {metric: getattr(table, metric)[:, warmup:].ravel() for metric in _PER_REQUEST}
    pairs = {metric: (values[metric], simulated[metric]) for metric in _PER_REQUEST}
    closeness = {metric: _median_error(*pair) for metric, pair in pairs.items()} if replayed else {}
    return _answer(_statistics(rows, values), result, count - warmup, closeness, pairs, warnings)


_OWN = "the scenario's own workload was simulated"


def _requests(rows: Rows) -> Requests:
    """Measured requests, in order of arrival, as a workload."""
    assert rows.arrival_s is not None
    return Requests.from_arrays(rows.arrival_s - rows.arrival_s[0], rows.prompt_tokens, rows.output_tokens)


def _median_error(measured: np.ndarray, simulated: np.ndarray) -> float:
    known = ~np.isnan(measured) & ~np.isnan(simulated) & (measured > 0)
    return float(np.median(np.abs(simulated[known] / measured[known] - 1))) if known.any() else math.nan


def _answer(
    measured: Statistics,
    result: Result,
    requests: int,
    per_request: Mapping[str, float],
    values: Mapping[str, tuple[np.ndarray, np.ndarray]],
    warnings: Sequence[str],
) -> ValidationAnswer:
    def of(metric: str, statistic: str) -> float:
        value = result.summary[metric][statistic]
        return math.nan if value is None else value

    incomplete = bool(result.summary["seeds_incomplete"])
    lost = result.summary["num_requests"] - result.summary["num_completed"]
    more = [f"{lost:,} simulated requests did not complete"] if lost else []
    return ValidationAnswer(
        measured=measured,
        simulated={metric: {statistic: of(metric, statistic) for statistic in STATISTICS} for metric in METRICS},
        requests=requests,
        per_request=per_request,
        values=values,
        warnings=(*warnings, *more),
        incomplete=incomplete,
    )


def _stamped(rows: Rows, arrival_stamp: str, path: str) -> Rows:
    """The rows in order of the stamp that counts as their arrival."""
    if arrival_stamp == "client" or rows.measured is None:
        return rows  # which `Trace.read` has put in order
    queued_s = rows.measured.queued_s
    if np.isnan(queued_s).any():
        raise ValueError(f"{path}: no queued_s in at least one row; use --arrival-stamp client")
    return take(dataclasses.replace(rows, arrival_s=queued_s), np.argsort(queued_s, kind="stable"))


def _latencies(rows: Rows) -> dict[str, np.ndarray]:
    """Measured latencies of requests, nan where they are not known."""
    assert rows.measured is not None and rows.arrival_s is not None
    first_s, finish_s = rows.measured.first_token_s, rows.measured.finish_s
    gaps = rows.output_tokens - 1.0
    gaps[gaps <= 0] = np.nan
    return {
        "ttft_s": first_s - rows.arrival_s,
        "tpot_s": (finish_s - first_s) / gaps,
        "e2e_s": finish_s - rows.arrival_s,
    }


def _statistics(rows: Rows, values: Mapping[str, np.ndarray]) -> Statistics:
    """Statistics of measured requests; of gaps between tokens only the mean where single gaps are not known."""
    assert rows.measured is not None
    found = {metric: _of(values[metric]) for metric in _PER_REQUEST}
    if rows.measured.gaps_s is not None:
        found["itl_s"] = _of(np.concatenate([np.asarray(gaps, float) for gaps in rows.measured.gaps_s]))
    else:
        counts, known = rows.output_tokens - 1.0, ~np.isnan(values["tpot_s"])
        mean = np.average(values["tpot_s"][known], weights=counts[known]) if known.any() else math.nan
        found["itl_s"] = {**dict.fromkeys(STATISTICS, math.nan), "mean": float(mean)}
    return found


def _of(values: np.ndarray) -> dict[str, float]:
    values = values[~np.isnan(values)]
    if not len(values):
        return dict.fromkeys(STATISTICS, math.nan)
    percentiles = np.percentile(values, [50, 90, 99])
    return dict(zip(STATISTICS, map(float, [values.mean(), *percentiles]), strict=True))


def _bench_statistics(path: str) -> Statistics | None:
    """The statistics in a result of `vllm bench serve` without its requests; None: the file is something else."""
    document = read_content(path).document
    if not (isinstance(document, dict) and "mean_ttft_ms" in document and "input_lens" not in document):
        return None

    def known(metric: str, statistic: str) -> float:
        names = ("median", "p50") if statistic == "p50" else (statistic,)
        given = [document[key] for name in names if (key := f"{name}_{_VLLM_METRICS[metric]}_ms") in document]
        return float(given[0]) / 1000 if given else math.nan

    return {metric: {statistic: known(metric, statistic) for statistic in STATISTICS} for metric in METRICS}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _heading(statistic: str) -> str:
    return statistic if statistic == "mean" else statistic.upper()


def _name(metric: str, statistic: str) -> str:
    return f"{_heading(statistic)} {_LABELS[metric]}"
