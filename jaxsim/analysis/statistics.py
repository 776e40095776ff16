"""A statistic of a run by name, read from its summary or estimated from its requests with each seed's influence."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from jaxsim.config.errors import choices
from jaxsim.config.schema import Scenario
from jaxsim.metrics.cluster_sums import BATCHES, arrival_rates
from jaxsim.metrics.exact_pool import ExactPool
from jaxsim.metrics.intervals import Estimate, quantile_estimate
from jaxsim.metrics.per_request import METRICS, latencies, meets_slo
from jaxsim.metrics.request_table import RequestTable
from jaxsim.result import Result
from jaxsim.specs.slo import quantile_of
from jaxsim.workload import Trace

_LATENCIES = (*METRICS, "itl_s")
_RATES = (
    "throughput_requests_per_s",
    "throughput_tokens_per_s",
    "goodput_requests_per_s",
    "goodput_tokens_per_s",
)
_SHARES = ("slo_attainment", "kv_utilisation")
_SHORT = {
    "attainment": "slo_attainment",
    "goodput": "goodput_requests_per_s",
    "throughput": "throughput_requests_per_s",
} | {name.removesuffix("_s"): name for name in _LATENCIES}
_PAIRED = (*METRICS, "slo_attainment", "goodput_requests_per_s")


class Measured(NamedTuple):
    """A value with its interval; None where there is none."""

    value: float | None
    low: float | None
    high: float | None

    @property
    def half_width_share(self) -> float | None:
        """Half the width of the interval over the value."""
        if not self.value or self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2 / abs(self.value)


@dataclass(frozen=True)
class Statistic:
    """One number of a summary.

    Attributes:
        metric: `ttft_s`, `tpot_s`, `itl_s`, `e2e_s`, `queue_s`, or a rate or share of the whole run.
        part: `mean` or `p99` ... of a latency; empty otherwise.
    """

    metric: str
    part: str = ""

    @classmethod
    def parse(cls, text: "str | Statistic") -> "Statistic":
        """The statistic that `ttft_s.p99` (or `p99 ttft`, `goodput`) names.

        Raises:
            ValueError: there is no such statistic; the message lists what there is.
        """
        if isinstance(text, Statistic):
            return text
        words = [word for word in re.split(r"\s+|(?<=[a-z])\.|\.(?=[a-z])", text.strip().lower()) if word]
        names = [_SHORT.get(word, word) for word in words]
        metrics = [name for name in names if name in (*_LATENCIES, *_RATES, *_SHARES)]
        parts = [name for name in names if name == "mean" or quantile_of(name) is not None]
        unknown = [name for name in names if name not in (*metrics, *parts)]
        if len(metrics) == 1 and not unknown and len(parts) == (metrics[0] in _LATENCIES):
            return cls(metrics[0], *parts)
        if metrics and not unknown and metrics[0] in _LATENCIES:
            raise ValueError(f"statistic {text!r}: say which of {metrics[0]}, such as {metrics[0]}.p99 or .mean")
        valid = [*(f"{name}.p99" for name in _LATENCIES), *_RATES, *_SHARES]
        raise ValueError(f"unknown statistic {text!r}; {choices(text, valid)}")

    @property
    def name(self) -> str:
        """`ttft_s.p99`."""
        return f"{self.metric}.{self.part}" if self.part else self.metric

    @property
    def label(self) -> str:
        """`P99 TTFT`, `goodput`."""
        if not self.part:
            return self.metric.removesuffix("_requests_per_s").replace("_", " ").replace("slo", "SLO")
        part = self.part if self.part == "mean" else self.part.upper()
        return f"{part} {self.metric.removesuffix('_s').replace('itl', 'ITL').upper()}".replace("QUEUE", "queueing")

    @property
    def is_latency(self) -> bool:
        """Whether it is in seconds and smaller is better."""
        return bool(self.part)

    @property
    def can_be_paired(self) -> bool:
        """Whether `estimate` knows it, so that runs can be compared seed by seed."""
        return self.metric in _PAIRED

    def of(self, result: Result, scenario: Scenario | None = None) -> Measured:
        """Its value and 95 % interval in a result; from the requests where the summary lacks the percentile.

        Raises:
            ValueError: the run does not have it: no SLO for an attainment, or no requests for an unusual percentile.
        """
        of = result.summary[self.metric] if self.part else result.summary
        key = self.part or self.metric
        if key in of:
            interval = of[f"{key}_ci"] or (None, None)
            if of[key] is None and self.metric.startswith(("slo_", "goodput_")):
                raise ValueError(f"{self.name} needs an slo with a limit on ttft_s, tpot_s or e2e_s")
            return Measured(of[key], *interval)
        if result.requests is None or scenario is None or not self.can_be_paired:
            raise ValueError(f"{self.name} is not in the summary of this run")
        return self.measure(Sample.of(result.requests, scenario))

    def measure(self, sample: "Sample") -> Measured:
        """Its value and 95 % interval over a sample."""
        share = quantile_of(self.part)
        if share is None:
            estimate = self.estimate(sample)
            return Measured(estimate.value, *(estimate.interval(0.95) or (None, None)))
        found = quantile_estimate(ExactPool([sample.values[self.metric]]), share, 0.95)
        return Measured(found.value, *(found.interval or (None, None)))

    def estimate(self, sample: "Sample") -> Estimate:
        """Its value over all clusters of a sample, with the influence of each.

        A quantile is linearised (Bahadur 1966): a cluster that has fewer values below the quantile than its share
        moves it up by the difference, times the slope of the pooled quantiles around it.
        """
        if self.metric == "slo_attainment":
            return Estimate.ratio(sample.good.sum(axis=1).astype(float), sample.counts)
        if self.metric == "goodput_requests_per_s":
            return Estimate.ratio(sample.good.sum(axis=1) * sample.rate_per_s, sample.counts)
        values = sample.values[self.metric]
        share = quantile_of(self.part)
        if share is None:
            present = ~np.isnan(values)
            return Estimate.ratio(np.where(present, values, 0.0).sum(axis=1), present.sum(axis=1).astype(float))
        return quantile(values, share)


def quantile(values: np.ndarray, share: float) -> Estimate:
    """A pooled quantile with the influence of each cluster.

    Args:
        values: float64 `[C, M]`, nan where there is none.
        share: in (0, 1).
    """
    pool = ExactPool([values])
    found = quantile_estimate(pool, share, 0.95)
    below, counts = pool.up_to(found.value)
    total = counts.sum()
    if found.interval is None:
        return Estimate(found.value, np.full(len(values), np.nan))
    half = 2 * np.sqrt(found.design_effect * share * (1 - share) / total)
    low, high = max(share - half, 0.0), min(share + half, 1.0)
    slope = (pool.quantile(high) - pool.quantile(low)) / (high - low)
    influence = (share * counts - below) / total * slope
    return Estimate(found.value, influence - influence.mean())


@dataclass(frozen=True, eq=False)
class Sample:
    """The measured requests of independent clusters, aligned by order of arrival.

    Clusters are the seeds, or 20 batches of consecutive requests of one run.

    Attributes:
        values: float64 `[C, M]` by latency metric; nan where a request did not complete or has none.
        good: bool `[C, M]`, requests that met the SLO.
        rate_per_s: float64 `[C]`, arrival rate.
    """

    values: Mapping[str, np.ndarray]
    good: np.ndarray
    rate_per_s: np.ndarray

    @classmethod
    def of(cls, table: RequestTable, scenario: Scenario, warmup: int | None = None) -> "Sample":
        """The sample in a run's requests.

        Args:
            table: of a run of `scenario`.
            scenario: says what is good, and whether the seeds are copies of one run.
            warmup: requests at the start of each seed to leave out; by default the scenario's.
        """
        warmup = scenario.monte_carlo.warmup_requests if warmup is None else warmup
        if is_one_run(scenario):
            table = table.block(seeds=slice(0, 1))
        measured = table.block(requests=slice(warmup, None))
        values = latencies(measured)
        good = meets_slo(measured.completed, values, scenario.slo.thresholds)
        makespan_s = np.nanmax(np.where(table.completed, table.finish_s, 0.0), axis=1)
        nominal = float(getattr(getattr(scenario.workload, "arrivals", None), "rate_per_s", np.nan))
        rate = arrival_rates(table.arrival_s, makespan_s, nominal)
        if is_one_run(scenario):
            size = measured.num_requests // BATCHES or 1
            start = measured.num_requests % size if size > 1 else 0

            def batched(column: np.ndarray) -> np.ndarray:
                return column[0, start:].reshape(-1, size)

            values = {name: batched(column) for name, column in values.items()}
            good = batched(good)
            rate = np.full(len(good), rate[0])
        return cls(values, good, rate)

    @property
    def counts(self) -> np.ndarray:
        """Measured requests of each cluster, float64 `[C]`."""
        return np.full(len(self.good), float(self.good.shape[1]))

    def part(self, start: float, end: float) -> "Sample":
        """The requests from one share of the run to another."""
        size = self.good.shape[1]
        here = slice(int(start * size), max(int(end * size), int(start * size) + 1))
        values = {name: column[:, here] for name, column in self.values.items()}
        return Sample(values, self.good[:, here], self.rate_per_s)

    @classmethod
    def concatenate(cls, samples: Sequence["Sample"]) -> "Sample":
        """One sample of the clusters of all, which must have equally many requests each."""
        names = samples[0].values
        return cls(
            {name: np.concatenate([sample.values[name] for sample in samples]) for name in names},
            np.concatenate([sample.good for sample in samples]),
            np.concatenate([sample.rate_per_s for sample in samples]),
        )


def is_one_run(scenario: Scenario) -> bool:
    """Whether the seeds are not independent replications: one seed, or copies of one trace."""
    workload: Any = scenario.workload
    drawn = getattr(workload, "arrivals", None) is not None
    replayed = isinstance(workload, Trace) and workload.resample == "none" and not drawn
    return scenario.monte_carlo.seeds == 1 or replayed
