"""The measured requests of a run, or those of one class, added up chunk by chunk in bounded memory."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from jaxsim.metrics.cluster_sums import BATCHES, ClusterSums, batch_starts, cluster_sums
from jaxsim.metrics.exact_pool import ExactPool
from jaxsim.metrics.intervals import Pool
from jaxsim.metrics.lane_totals import LaneTotals
from jaxsim.metrics.per_request import METRICS
from jaxsim.metrics.quantile_sketch import QuantileSketch
from jaxsim.metrics.request_table import RequestTable

SEED_GROUPS = 128
"""Groups of seeds (by seed number) that sketches and gap counts are kept for, so that memory stays flat. With up to 128
consecutive seeds every seed is a group; with more, groups are as independent as seeds and enough for a variance."""


class View:
    """Sums over clusters and the latencies themselves: all of them up to a limit, then sketches.

    Args:
        warmup: requests at the start of each seed that are not measured.
        batches: clusters are batches of consecutive requests, rather than seeds.
        rate_per_s: nominal arrival rate of all requests; nan: none.
        exact_limit: latencies to keep before sketching.
        metrics: the latencies, in order.
        seeds_per_cluster: as in `Accumulator`.
    """

    def __init__(
        self,
        warmup: int,
        batches: bool,
        rate_per_s: float,
        exact_limit: int,
        metrics: Sequence[str] = METRICS,
        seeds_per_cluster: int = 1,
    ) -> None:
        self._warmup = warmup
        self._batches = batches
        self._rate_per_s = rate_per_s
        self._exact_limit = exact_limit
        self._metrics = tuple(metrics)
        self._seeds_per_cluster = seeds_per_cluster
        self._groups = BATCHES if batches else SEED_GROUPS
        self._sums: list[ClusterSums] = []
        self._kept: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []  # seeds and their latencies, while exact
        self._kept_values = 0
        self._sketches: dict[str, QuantileSketch] = {}  # once there is too much to keep

    @property
    def num_seeds(self) -> int:
        """Seeds added so far."""
        return sum(len(sums.seed) for sums in self._sums)

    @property
    def is_exact(self) -> bool:
        """Whether percentiles come from all values, rather than from sketches."""
        return not self._sketches

    @property
    def sums(self) -> ClusterSums:
        """The sums of all seeds."""
        return ClusterSums.concatenate(self._sums)

    @property
    def pools(self) -> Mapping[str, Pool]:
        """The pooled values of each metric."""
        return {metric: self._pool(metric) for metric in self._metrics}

    def add(
        self,
        table: RequestTable,
        totals: LaneTotals,
        latencies_s: dict[str, np.ndarray],
        thresholds_s: Mapping[str, float | np.ndarray],
        among: np.ndarray | None = None,
    ) -> None:
        """Add some seeds; the arguments are those of `cluster_sums`."""
        if among is not None:
            latencies_s = {metric: np.where(among, values, np.nan) for metric, values in latencies_s.items()}
        self._sums.append(
            cluster_sums(table, totals, latencies_s, thresholds_s, self._warmup, self._rate_per_s, self._batches, among)
        )
        self._add_latencies(table.seed, latencies_s)

    def merge(self, other: "View") -> None:
        """Add everything another view with the same settings has seen."""
        self._sums += other._sums
        self._kept += other._kept
        self._kept_values += other._kept_values
        if self._sketches or other._sketches or self._kept_values > self._exact_limit:
            self._sketch_kept()
        for metric, sketch in other._sketches.items():
            self._sketches[metric].merge(sketch)

    def state(self) -> dict[str, np.ndarray]:
        """Everything added so far, seeds of equal length, as plain arrays by name: for `add_state` of another view."""
        sums = self.sums
        arrays = {f"sums.{field.name}": getattr(sums, field.name) for field in dataclasses.fields(sums)}
        if self._kept:
            arrays["kept.seed"] = np.concatenate([seed for seed, _ in self._kept])
            for metric in self._metrics:
                arrays[f"kept.{metric}"] = np.concatenate([values[metric] for _, values in self._kept])
        for metric, sketch in self._sketches.items():
            arrays[f"bins.{metric}"], arrays[f"counts.{metric}"] = sketch.state()
        return arrays

    def add_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Add what `state` of a view with the same settings gave."""
        names = [field.name for field in dataclasses.fields(ClusterSums)]
        self._sums.append(ClusterSums(**{name: arrays[f"sums.{name}"] for name in names}))
        if "kept.seed" in arrays:
            self._add_latencies(arrays["kept.seed"], {metric: arrays[f"kept.{metric}"] for metric in self._metrics})
        else:
            self._sketch_kept()
            for metric, sketch in self._sketches.items():
                sketch.add_state(arrays[f"bins.{metric}"], arrays[f"counts.{metric}"])

    def _add_latencies(self, seed: np.ndarray, latencies_s: dict[str, np.ndarray]) -> None:
        if self._sketches:
            self._sketch(seed, latencies_s)
            return
        self._kept.append((seed, latencies_s))
        self._kept_values += sum(column.size for column in latencies_s.values())
        if self._kept_values > self._exact_limit:
            self._sketch_kept()

    def _sketch_kept(self) -> None:
        if not self._sketches:
            self._sketches = {metric: QuantileSketch(self._groups) for metric in self._metrics}
        for seed, values in self._kept:
            self._sketch(seed, values)
        self._kept, self._kept_values = [], 0

    def _sketch(self, seed: np.ndarray, values: dict[str, np.ndarray]) -> None:
        if self._batches:
            count = values["ttft_s"].shape[1]
            group = np.searchsorted(batch_starts(count), np.arange(count), side="right")[None, :] - 1
        else:
            group = seed[:, None] // self._seeds_per_cluster % self._groups
        for metric in self._metrics:
            self._sketches[metric].add(values[metric], group)

    def _pool(self, metric: str) -> Pool:
        if self._sketches:
            return self._sketches[metric].pool()
        chunks = [values[metric] for _, values in self._kept]
        if self._seeds_per_cluster > 1:
            return ExactPool(chunks, clusters=[seed // self._seeds_per_cluster for seed, _ in self._kept])
        return ExactPool(chunks, [batch_starts(chunk.shape[1]) for chunk in chunks] if self._batches else None)
