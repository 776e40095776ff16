"""A statistic of a run by name, read from its summary or estimated from its requests with each seed's influence."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jaxsim.config.errors import choices
from jaxsim.config.schema import Scenario
from jaxsim.engine.record import itl_bin_edges
from jaxsim.job import FEWEST_CLUSTERS
from jaxsim.metrics.cluster_sums import BATCHES, arrival_rates
from jaxsim.metrics.exact_pool import ExactPool
from jaxsim.metrics.intervals import Estimate, Pool, quantile_estimate
from jaxsim.metrics.per_request import HANDOVER_METRICS, METRICS, latencies, meets_slo, metrics_of
from jaxsim.metrics.per_token import gap_pool, mean_gap
from jaxsim.metrics.summary import Percentiles
from jaxsim.result import Result
from jaxsim.specs.slo import quantile_of
from jaxsim.workload.random import STRATA

_LATENCIES = (*METRICS, "itl_s", *HANDOVER_METRICS)
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
_PAIRED = (*_LATENCIES, "slo_attainment", "goodput_requests_per_s")
_NO_HANDOVER = "needs prefill instances, which hand requests over"
UNPAIRED = "cannot be paired; valid: latencies, slo_attainment, goodput"
"""What to say of a statistic that cannot."""


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
        metric: `ttft_s`, `tpot_s`, `itl_s`, `e2e_s`, `queue_s`, one of `HANDOVER_METRICS` where requests are handed
            over, or a rate or share of the whole run.
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
        if self.metric in HANDOVER_METRICS:
            return f"{part} {self.metric.removesuffix('_s').replace('_', ' ').replace('ttft', 'TTFT')}"
        return f"{part} {self.metric.removesuffix('_s').replace('itl', 'ITL').upper()}".replace("QUEUE", "queueing")

    @property
    def is_latency(self) -> bool:
        """Whether it is in seconds and smaller is better."""
        return bool(self.part)

    @property
    def can_be_paired(self) -> bool:
        """Whether `estimate` knows it, so that runs can be compared seed by seed."""
        return self.metric in _PAIRED

    @property
    def can_be_cut(self) -> bool:
        """Whether `estimate` knows it of a part of a run, too: gaps between tokens are counted for whole seeds."""
        return self.can_be_paired and (self.metric != "itl_s" or self.part == "mean")

    @property
    def percentiles(self) -> Percentiles:
        """What a run has to be asked for, to have it in its summary."""
        return {} if quantile_of(self.part) is None else {self.metric: [self.part]}

    def of(self, result: Result, scenario: Scenario | None = None) -> Measured:
        """Its value and 95 % interval in a result; from the requests where the summary lacks the percentile.

        Raises:
            ValueError: the run does not have it: no SLO for an attainment, or no requests for an unusual percentile.
        """
        if self.metric in HANDOVER_METRICS and self.metric not in result.summary:
            raise ValueError(f"{self.name} {_NO_HANDOVER}")
        of = result.summary[self.metric] if self.part else result.summary
        key = self.part or self.metric
        if key in of:
            interval = of[f"{key}_ci"] or (None, None)
            if of[key] is None and self.metric.startswith(("slo_", "goodput_")):
                raise ValueError(f"{self.name} needs an slo with a limit on ttft_s, tpot_s or e2e_s")
            return Measured(of[key], *interval)
        if result.requests is None or scenario is None or not self.can_be_paired:
            raise ValueError(f"{self.name} is not in the summary of this run")
        return self.measure(Sample.of(result, scenario))

    def measure(self, sample: "Sample") -> Measured:
        """Its value and 95 % interval over a sample."""
        share = quantile_of(self.part)
        if share is None:
            estimate = self.estimate(sample)
            return Measured(estimate.value, *(estimate.interval(0.95) or (None, None)))
        found = quantile_estimate(self._pool(sample), share, 0.95)
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
        share = quantile_of(self.part)
        if share is not None:
            return quantile(self._pool(sample), share)
        if self.metric == "itl_s":
            return mean_gap(sample.gap_s.sum(axis=1), sample.gaps.sum(axis=1))
        values = self._values(sample)
        present = ~np.isnan(values)
        return Estimate.ratio(np.where(present, values, 0.0).sum(axis=1), present.sum(axis=1).astype(float))

    def _values(self, sample: "Sample") -> np.ndarray:
        """A latency of every request.

        Raises:
            ValueError: no request is handed over.
        """
        if self.metric not in sample.values:
            raise ValueError(f"{self.name} {_NO_HANDOVER}")
        return sample.values[self.metric]

    def _pool(self, sample: "Sample") -> Pool:
        """All values of a latency by cluster.

        Raises:
            ValueError: the gaps between tokens were not counted for these clusters.
        """
        if self.metric != "itl_s":
            return ExactPool([self._values(sample)])
        if sample.gap_counts is None:
            raise ValueError(f"{self.name} of parts of one run is not known: it takes several seeds, and whole ones")
        return gap_pool(sample.gap_counts, itl_bin_edges())


def percentiles_of(statistics: Iterable[Statistic]) -> Percentiles:
    """What runs have to be asked for, to have the statistics in their summaries."""
    found: dict[str, list[str]] = {}
    for statistic in statistics:
        for metric, names in statistic.percentiles.items():
            found.setdefault(metric, []).extend(names)
    return found


def quantile(pool: Pool, share: float) -> Estimate:
    """A pooled quantile with the influence of each cluster; `share` is in (0, 1)."""
    found = quantile_estimate(pool, share, 0.95)
    below, counts = pool.up_to(found.value)
    total = counts.sum()
    if found.interval is None:
        return Estimate(found.value, np.full(len(counts), np.nan))
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
        gap_s: float64 `[C, M]`, seconds from a request's first token to its last; 0 if it did not complete.
        gaps: float64 `[C, M]`, how many gaps between tokens those are.
        gap_counts: whole numbers `[C, BINS]`, gaps of all requests of a seed by length; None where they are not known.
    """

    values: Mapping[str, np.ndarray]
    good: np.ndarray
    rate_per_s: np.ndarray
    gap_s: np.ndarray
    gaps: np.ndarray
    gap_counts: np.ndarray | None

    @classmethod
    def of(cls, run: Result, scenario: Scenario, warmup: int | None = None, grouped: bool = True) -> "Sample":
        """The sample in a run that kept its requests.

        Args:
            run: of `scenario`.
            scenario: says what is good, and whether the seeds are copies of one run.
            warmup: requests at the start of each seed to leave out; by default the scenario's.
            grouped: make one cluster of seeds that share out their draws, if there are enough.
        """
        assert run.requests is not None
        table, gap_counts = run.requests, run.gap_counts
        warmup = scenario.monte_carlo.warmup_requests if warmup is None else warmup
        if is_one_run(scenario):
            table, gap_counts = table.block(seeds=slice(0, 1)), None
        measured = table.block(requests=slice(warmup, None))
        promised = scenario.slo.ttft_includes_transfer
        values = latencies(measured, metrics_of(table.kv_asked_s is not None, promised))
        good = meets_slo(measured.completed, values, scenario.slo.thresholds)
        makespan_s = np.nanmax(np.where(table.completed, table.finish_s, 0.0), axis=1)
        nominal = float(getattr(getattr(scenario.workload, "arrivals", None), "rate_per_s", np.nan))
        rate = arrival_rates(table.arrival_s, makespan_s, nominal)
        gaps = np.where(measured.completed, np.maximum(measured.output_tokens - 1.0, 0.0), 0.0)
        gap_s = np.where(gaps > 0, measured.finish_s - measured.first_token_s, 0.0)
        if is_one_run(scenario):
            size = measured.num_requests // BATCHES or 1
            start = measured.num_requests % size if size > 1 else 0

            def batched(column: np.ndarray) -> np.ndarray:
                return column[0, start:].reshape(-1, size)

            values = {name: batched(column) for name, column in values.items()}
            good, gap_s, gaps = batched(good), batched(gap_s), batched(gaps)
            rate = np.full(len(good), rate[0])
        sample = cls(values, good, rate, gap_s, gaps, gap_counts)
        return sample.grouped(seeds_per_cluster(scenario)) if grouped and not is_one_run(scenario) else sample

    def grouped(self, size: int) -> "Sample":
        """The same with every `size` clusters taken together, if they can be shared out evenly; by time of arrival."""
        count = len(self.good)
        if size == 1 or count % size:
            return self

        def together(column: np.ndarray) -> np.ndarray:
            return column.reshape(count // size, size, -1).transpose(0, 2, 1).reshape(count // size, -1)

        gap_counts = None if self.gap_counts is None else self.gap_counts.reshape(count // size, size, -1).sum(axis=1)
        return Sample(
            {name: together(column) for name, column in self.values.items()},
            together(self.good),
            self.rate_per_s.reshape(count // size, size).mean(axis=1),
            together(self.gap_s),
            together(self.gaps),
            gap_counts,
        )

    @property
    def counts(self) -> np.ndarray:
        """Measured requests of each cluster, float64 `[C]`."""
        return np.full(len(self.good), float(self.good.shape[1]))

    def part(self, start: float, end: float) -> "Sample":
        """The requests from one share of the run to another."""
        size = self.good.shape[1]
        here = slice(int(start * size), max(int(end * size), int(start * size) + 1))
        values = {name: column[:, here] for name, column in self.values.items()}
        return Sample(values, self.good[:, here], self.rate_per_s, self.gap_s[:, here], self.gaps[:, here], None)

    @classmethod
    def concatenate(cls, samples: Sequence["Sample"]) -> "Sample":
        """One sample of the clusters of all, which must have equally many requests each."""
        counts = [sample.gap_counts for sample in samples if sample.gap_counts is not None]
        names = ("good", "rate_per_s", "gap_s", "gaps")
        return cls(
            values={name: np.concatenate([sample.values[name] for sample in samples]) for name in samples[0].values},
            gap_counts=np.concatenate(counts) if len(counts) == len(samples) else None,
            **{name: np.concatenate([getattr(sample, name) for sample in samples]) for name in names},
        )


def seeds_per_cluster(scenario: Scenario) -> int:
    """As `Job.seeds_per_cluster`, where the seeds begin with a group."""
    settings = scenario.monte_carlo
    groups = settings.draws == "stratified" and settings.first_seed % STRATA == 0
    return STRATA if groups and settings.seeds >= FEWEST_CLUSTERS * STRATA else 1


def is_one_run(scenario: Scenario) -> bool:
    """Whether the seeds are not independent replications: one seed, or copies of one trace."""
    return scenario.monte_carlo.seeds == 1 or not scenario.workload.differs_by_seed
