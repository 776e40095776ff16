"""From chunks of simulated seeds to the summary of a run, in bounded memory."""

import math
from typing import Any, Literal

import numpy as np

from jaxsim.metrics.cluster_sums import BATCHES, ClusterSums, batch_starts, cluster_sums
from jaxsim.metrics.exact_pool import ExactPool
from jaxsim.metrics.intervals import Pool
from jaxsim.metrics.lane_totals import LaneTotals
from jaxsim.metrics.per_request import METRICS, latencies
from jaxsim.metrics.per_token import gap_error, gap_pool
from jaxsim.metrics.quantile_sketch import RELATIVE_ERROR, QuantileSketch
from jaxsim.metrics.request_table import RequestTable
from jaxsim.metrics.summary import summarise
from jaxsim.specs.slo import Slo

EXACT_LIMIT = 20_000_000
"""Latencies kept for exact percentiles (160 MB); a run with more switches to sketches."""

SEED_GROUPS = 128
"""Groups of seeds (by seed number) that sketches and gap counts are kept for, so that memory stays flat. With up to 128
consecutive seeds every seed is a group; with more, groups are as independent as seeds and enough for a variance."""

_BLOCK_REQUESTS = 1 << 15
"""Requests worked on at a time: their temporary columns (256 kB each) stay in the cache."""


class Accumulator:
    """Adds up chunks of seeds and summarises them; the order of chunks does not matter.

    Percentiles are exact as long as at most `exact_limit` latencies were added (each request has 4), then within 0.2 %
    (`quantile_sketch`). Memory: `exact_limit` x 8 bytes, or 130 MB of sketches, and 300 bytes a seed.

    Args:
        slo: what counts as served well.
        warmup_requests: requests at the start of each seed that are not measured.
        itl_edges_s: float64 `[BINS + 1]`, edges in seconds of the bins of `LaneTotals.itl_counts`.
        itl_credited_error: relative distance between a gap and the value it was counted at, if it was rounded before.
        units: what is independent. `seeds`: every seed is a replication. `batches`: the seeds are one run or copies of
            it (a single seed, a trace that is not resampled), so batches of consecutive requests are.
        rate_per_s: nominal arrival rate in requests/s; nan: none, take it from the arrivals.
        exact_limit: latencies to keep before sketching.
    """

    def __init__(
        self,
        slo: Slo | None = None,
        warmup_requests: int = 0,
        *,
        itl_edges_s: np.ndarray,
        itl_credited_error: float = 0.0,
        units: Literal["seeds", "batches"] = "seeds",
        rate_per_s: float = math.nan,
        exact_limit: int = EXACT_LIMIT,
    ) -> None:
        self._slo = Slo() if slo is None else slo
        self._warmup = warmup_requests
        self._edges = itl_edges_s
        self._credited_error = itl_credited_error
        self._batches = units == "batches"
        self._rate_per_s = rate_per_s
        self._exact_limit = exact_limit
        self._groups = BATCHES if self._batches else SEED_GROUPS
        self._sums: list[ClusterSums] = []
        self._gap_counts = np.zeros((1 if self._batches else SEED_GROUPS, len(itl_edges_s) - 1), np.int64)
        self._kept: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []  # seeds and their latencies, while exact
        self._kept_values = 0
        self._sketches: dict[str, QuantileSketch] = {}  # once there is too much to keep

    @property
    def num_seeds(self) -> int:
        """Seeds added so far."""
        return sum(len(sums.seed) for sums in self._sums)

    def add(self, table: RequestTable, totals: LaneTotals) -> None:
        """Add some seeds.

        Args:
            table: all their requests, warm-up included.
            totals: totals of the same seeds in the same order.

        Raises:
            ValueError: nothing is left after warm-up.
        """
        if self._warmup >= table.num_requests:
            raise ValueError(
                f"warmup_requests ({self._warmup}) must be less than the number of requests ({table.num_requests})"
            )
        if self._slo.ttft_includes_transfer and np.any(table.decode_instance >= 0):
            raise ValueError("slo.ttft_includes_transfer needs the time of the second token, which this table lacks")
        rows = max(1, _BLOCK_REQUESTS // table.num_requests)
        for start in range(0, table.num_seeds, rows):
            here = slice(start, start + rows)
            self._add_block(table.block(here), totals.block(here))

    def _add_block(self, table: RequestTable, totals: LaneTotals) -> None:
        values = latencies(table.block(requests=slice(self._warmup, None)))
        self._sums.append(cluster_sums(table, totals, values, self._slo, self._warmup, self._rate_per_s, self._batches))
        for group, counts in zip(table.seed % len(self._gap_counts), totals.itl_counts, strict=True):
            self._gap_counts[group] += counts
        if self._sketches:
            self._sketch(table.seed, values)
            return
        self._kept.append((table.seed, values))
        self._kept_values += sum(column.size for column in values.values())
        if self._kept_values > self._exact_limit:
            self._sketch_kept()

    def merge(self, other: "Accumulator") -> None:
        """Add everything another accumulator with the same settings has seen."""
        self._sums += other._sums
        self._gap_counts += other._gap_counts
        self._kept += other._kept
        self._kept_values += other._kept_values
        if self._sketches or other._sketches or self._kept_values > self._exact_limit:
            self._sketch_kept()
        for metric, sketch in other._sketches.items():
            self._sketches[metric].merge(sketch)

    def _sketch_kept(self) -> None:
        if not self._sketches:
            self._sketches = {metric: QuantileSketch(self._groups) for metric in METRICS}
        for seed, values in self._kept:
            self._sketch(seed, values)
        self._kept, self._kept_values = [], 0

    def _sketch(self, seed: np.ndarray, values: dict[str, np.ndarray]) -> None:
        if self._batches:
            count = values["ttft_s"].shape[1]
            group = np.searchsorted(batch_starts(count), np.arange(count), side="right")[None, :] - 1
        else:
            group = seed[:, None] % self._groups
        for metric in METRICS:
            self._sketches[metric].add(values[metric], group)

    def _pool(self, metric: str) -> Pool:
        if self._sketches:
            return self._sketches[metric].pool()
        chunks = [values[metric] for _, values in self._kept]
        return ExactPool(chunks, [batch_starts(chunk.shape[1]) for chunk in chunks] if self._batches else None)

    def summary(self, confidence: float = 0.95) -> dict[str, Any]:
        """The summary of everything added, ready for JSON: `summary.json`.

        Args:
            confidence: level of all intervals, in (0, 1).

        Raises:
            ValueError: nothing was added, or a confidence level that is none.
        """
        if not self._sums:
            raise ValueError("there is nothing to summarise: no seed has finished")
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be between 0 and 1, not {confidence!r}")
        return summarise(
            ClusterSums.concatenate(self._sums),
            {metric: self._pool(metric) for metric in METRICS},
            gap_pool(self._gap_counts, self._edges),
            self._slo,
            batches=self._batches,
            confidence=confidence,
            pool_error=RELATIVE_ERROR if self._sketches else 0.0,
            gap_error=gap_error(self._edges, self._credited_error),
        )
