"""From chunks of simulated seeds to the summary of a run, in bounded memory."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from jaxsim.metrics.lane_totals import LaneTotals
from jaxsim.metrics.per_request import latencies, metrics_of
from jaxsim.metrics.per_token import gap_error, gap_pool
from jaxsim.metrics.quantile_sketch import RELATIVE_ERROR
from jaxsim.metrics.request_table import RequestTable
from jaxsim.metrics.service_class import ServiceClass, thresholds_by_class
from jaxsim.metrics.summary import NO_MORE, Percentiles, summarise, summarise_class
from jaxsim.metrics.view import SEED_GROUPS, View
from jaxsim.specs.slo import TTFT_WITH_TRANSFER, Slo

EXACT_LIMIT = 20_000_000
"""Latencies kept for exact percentiles (160 MB); a run with more switches to sketches."""

_BLOCK_REQUESTS = 1 << 15
"""Requests worked on at a time: their temporary columns (256 kB each) stay in the cache."""


class Accumulator:
    """Adds up chunks of seeds and summarises them; the order of chunks does not matter.

    Percentiles are exact as long as at most `exact_limit` latencies were added (each request has 4, or 11 in fleets
    that hand requests over, and as many more for each class there is), then within 0.2 % (`quantile_sketch`). Memory:
    `exact_limit` x 8 bytes, or 130 MB of sketches for 4 latencies, and 300 bytes a seed; the last two again for each
    class.

    Args:
        slo: what counts as served well.
        warmup_requests: requests at the start of each seed that are not measured.
        itl_edges_s: float64 `[BINS + 1]`, edges in seconds of the bins of `LaneTotals.itl_counts`.
        itl_credited_error: relative distance between a gap and the value it was counted at, if it was rounded before.
        units: what is independent. `seeds`: every seed is a replication. `batches`: the seeds are one run or copies of
            it (a single seed, a trace that is not resampled), so batches of consecutive requests are.
        rate_per_s: nominal arrival rate in requests/s; nan: none, take it from the arrivals.
        classes: what `RequestTable.class_index` counts: each is held to its own SLO, and summarised beside the whole.
        exact_limit: latencies to keep before sketching.
        handover: the fleet hands requests over from one instance to another.
        seeds_per_cluster: the seeds k n to k n + n - 1 are one replication, where units are seeds.
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
        classes: Sequence[ServiceClass] = (),
        exact_limit: int = EXACT_LIMIT,
        handover: bool = False,
        seeds_per_cluster: int = 1,
    ) -> None:
        self._slo = Slo() if slo is None else slo
        self._classes = tuple(classes)
        self._warmup = warmup_requests
        self._edges = itl_edges_s
        self._credited_error = itl_credited_error
        self._batches = units == "batches"
        self._gap_counts = np.zeros((1 if self._batches else SEED_GROUPS, len(itl_edges_s) - 1), np.int64)
        self._seeds_per_cluster = 1 if self._batches else seeds_per_cluster
        limit = exact_limit // (1 + len(self._classes))
        slos = [self._slo, *(one.slo for one in self._classes)]
        self.metrics = metrics_of(handover, any(one.ttft_includes_transfer for one in slos))
        self._whole, *self._parts = (
            View(warmup_requests, self._batches, rate_per_s, limit, self.metrics, self._seeds_per_cluster) for _ in slos
        )

    @property
    def num_seeds(self) -> int:
        """Seeds added so far."""
        return self._whole.num_seeds

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
        if TTFT_WITH_TRANSFER in self.metrics and table.kv_asked_s is None and np.any(table.decode_instance >= 0):
            raise ValueError("slo.ttft_includes_transfer needs to know when decodes started, which this table lacks")
        rows = max(1, _BLOCK_REQUESTS // table.num_requests)
        for start in range(0, table.num_seeds, rows):
            here = slice(start, start + rows)
            self._add_block(table.block(here), totals.block(here))

    def _add_block(self, table: RequestTable, totals: LaneTotals) -> None:
        measured = table.block(requests=slice(self._warmup, None))
        values = latencies(measured, self.metrics)
        by_request = thresholds_by_class(self._classes, measured.class_index)
        self._whole.add(table, totals, values, by_request if self._classes else self._slo.thresholds)
        for place, (one, part) in enumerate(zip(self._classes, self._parts, strict=True)):
            part.add(table, totals, values, one.slo.thresholds, among=measured.class_index == place)
        cluster = table.seed // self._seeds_per_cluster
        for group, counts in zip(cluster % len(self._gap_counts), totals.itl_counts, strict=True):
            self._gap_counts[group] += counts

    def merge(self, other: "Accumulator") -> None:
        """Add everything another accumulator with the same settings has seen."""
        self._gap_counts += other._gap_counts
        for mine, others in zip([self._whole, *self._parts], [other._whole, *other._parts], strict=True):
            mine.merge(others)

    def state(self) -> dict[str, np.ndarray]:
        """Everything added so far as plain arrays by name, to be kept in a file: what `add_state` of another one takes.

        All seeds must have equally many requests. While percentiles are exact this holds all latencies (32 bytes a
        request, and as much for each class); then the counts of the sketches that are not zero.
        """
        arrays = {"gap_counts": self._gap_counts}
        for place, view in enumerate([self._whole, *self._parts]):
            arrays |= {f"{place}.{name}": values for name, values in view.state().items()}
        return arrays

    def add_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Add what `state` of an accumulator with the same settings gave."""
        self._gap_counts += arrays["gap_counts"]
        for place, view in enumerate([self._whole, *self._parts]):
            mine = f"{place}."
            view.add_state({name.removeprefix(mine): arrays[name] for name in arrays if name.startswith(mine)})

    def summary(self, confidence: float = 0.95, percentiles: Percentiles = NO_MORE) -> dict[str, Any]:
        """The summary of everything added, ready for JSON: `summary.json`.

        Args:
            confidence: level of all intervals, in (0, 1).
            percentiles: to report beside the usual ones.

        Raises:
            ValueError: nothing was added, or a confidence level that is none.
        """
        if not self.num_seeds:
            raise ValueError("there is nothing to summarise: no seed has finished")
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be between 0 and 1, not {confidence!r}")
        settings: dict[str, Any] = {
            "batches": self._batches,
            "seeds_per_cluster": self._seeds_per_cluster,
            "confidence": confidence,
            "more": percentiles,
        }
        found = summarise(
            self._whole.sums,
            self._whole.pools,
            gap_pool(self._gap_counts, self._edges),
            self._slo,
            promised=any(one.slo.thresholds for one in self._classes) or bool(self._slo.thresholds),
            pool_error=_pool_error(self._whole),
            gap_error=gap_error(self._edges, self._credited_error),
            **settings,
        )
        if self._classes:
            found["classes"] = {
                one.name: summarise_class(part.sums, part.pools, one.slo, pool_error=_pool_error(part), **settings)
                for one, part in zip(self._classes, self._parts, strict=True)
            }
        return found


def _pool_error(view: View) -> float:
    return 0.0 if view.is_exact else RELATIVE_ERROR
