"""Sums over clusters of requests: all that means, shares, rates and their intervals need."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jaxsim._status import RequestStatus
from jaxsim.metrics.intervals import Estimate
from jaxsim.metrics.lane_totals import LaneTotals
from jaxsim.metrics.per_request import meets_slo
from jaxsim.metrics.request_table import RequestTable

BATCHES = 20
"""Batches of consecutive requests in a run; 10 to 30 lose little precision and are long enough (Schmeiser 1982)."""


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Sums of R seeds, each one cluster (B = 1) or cut into B = 20 batches; *measured* means after warm-up.

    Attributes:
        seed: int64 `[R]`.
        num_requests: int64 `[R]`, warm-up included, as in all the following `[R]`.
        statuses: int64 `[R, 4]`, requests by `RequestStatus`.
        preemptions: int64 `[R]`.
        recomputed_tokens: int64 `[R]`.
        needed_tokens: int64 `[R]`, tokens that completed requests had computed at least once.
        iterations: int64 `[R]`.
        lane_status: int32 `[R]`.
        arrival_rate_per_s: float64 `[R]`.
        measured: float64 `[R, B]`, measured requests, completed or not.
        completed: float64 `[R, B]`, measured requests that completed: those the following are about.
        good: float64 `[R, B]`, those that met the SLO.
        tokens: float64 `[R, B]`, output tokens.
        measured_preemptions: float64 `[R, B]`, of all measured requests.
        preempted: float64 `[R, B]`, measured requests that were preempted.
        gaps: float64 `[R, B]`, gaps between tokens.
        gap_s: float64 `[R, B]`, seconds of all gaps.
        latency_count: float64 `[R, B, K]`, requests that have a value, by metric.
        latency_s: float64 `[R, B, K]`, sums of the values.
        completions_per_s: float64 `[R, B]`, completions over the makespan; batches are by completion from here on, and
            of all requests.
        tokens_per_s: float64 `[R, B]`, their output tokens over the makespan.
        span: float64 `[R, B]`, share of the makespan from one batch's last completion to the next's.
        kv_token_seconds: float64 `[R, B]`, KV residency; that of a run is dealt out to its batches by tokens x time.
        kv_capacity_token_seconds: float64 `[R, B]`, nan: unlimited.
    """

    seed: np.ndarray
    num_requests: np.ndarray
    statuses: np.ndarray
    preemptions: np.ndarray
    recomputed_tokens: np.ndarray
    needed_tokens: np.ndarray
    iterations: np.ndarray
    lane_status: np.ndarray
    arrival_rate_per_s: np.ndarray
    measured: np.ndarray
    completed: np.ndarray
    good: np.ndarray
    tokens: np.ndarray
    measured_preemptions: np.ndarray
    preempted: np.ndarray
    gaps: np.ndarray
    gap_s: np.ndarray
    latency_count: np.ndarray
    latency_s: np.ndarray
    completions_per_s: np.ndarray
    tokens_per_s: np.ndarray
    span: np.ndarray
    kv_token_seconds: np.ndarray
    kv_capacity_token_seconds: np.ndarray

    @classmethod
    def concatenate(cls, chunks: Sequence["ClusterSums"]) -> "ClusterSums":
        """The sums of all chunks, in order of seed whatever the order of the chunks."""
        order = np.argsort(np.concatenate([chunk.seed for chunk in chunks]), kind="stable")
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: np.concatenate([getattr(chunk, name) for chunk in chunks])[order] for name in names})


class Clusters:
    """The sums of all seeds by cluster: by seed, by group of seeds, or by batch with the same batch of all seeds.

    Clusters without measured requests are left out. `copies` is how many times each cluster holds the same requests.
    """

    def __init__(self, sums: ClusterSums, batches: bool, seeds_per_cluster: int = 1) -> None:
        self._sums = sums
        self._batches = batches
        self._starts = (
            np.flatnonzero(np.diff(sums.seed // seeds_per_cluster, prepend=-1)) if seeds_per_cluster > 1 else None
        )
        self._here = self._by_cluster(sums.measured) > 0
        self.copies = len(sums.seed) if batches else 1

    def __len__(self) -> int:
        return int(np.count_nonzero(self._here))

    def __getitem__(self, name: str) -> np.ndarray:
        """A sum over measured requests, float64 `[C]` or `[C, K]`."""
        return self._by_cluster(getattr(self._sums, name))[self._here]

    @property
    def good_rate(self) -> np.ndarray:
        """Good requests x the arrival rate of their seed, float64 `[C]`."""
        return self._by_cluster(self._sums.good * self._sums.arrival_rate_per_s[:, None])[self._here]

    def service(self, numerator: str, denominator: str) -> Estimate:
        """A ratio of the sums that are about all requests and the makespan."""
        above, below = (self._by_cluster(getattr(self._sums, name)) for name in (numerator, denominator))
        here = (self._by_cluster(self._sums.span) > 0) | (above > 0)  # a batch may complete in no time
        return Estimate.ratio(above[here], below[here])

    def _by_cluster(self, values: np.ndarray) -> np.ndarray:
        if self._batches:
            return values.sum(axis=0)
        return values[:, 0] if self._starts is None else np.add.reduceat(values[:, 0], self._starts, axis=0)


def batch_starts(count: int) -> np.ndarray:
    """First index of each of (at most) 20 batches of consecutive things, all equally large up to one."""
    batches = min(BATCHES, count)
    return np.arange(batches) * count // max(batches, 1)


def arrival_rates(arrival_s: np.ndarray, makespan_s: np.ndarray, nominal_per_s: float = math.nan) -> np.ndarray:
    """Arrival rate of each seed in requests/s, float64 `[R]`.

    The nominal rate of the workload if it has one, else `(n - 1) / (last - first)`, else (all at once) `n / makespan`.

    Args:
        arrival_s: float64 `[R, N]`, not decreasing along N.
        makespan_s: float64 `[R]`.
        nominal_per_s: requests/s; nan: none.
    """
    if math.isfinite(nominal_per_s):
        return np.full(len(arrival_s), float(nominal_per_s))
    span_s = arrival_s[:, -1] - arrival_s[:, 0]
    spread = span_s > 0
    count = np.where(spread, arrival_s.shape[1] - 1, arrival_s.shape[1])
    seconds = np.where(spread, span_s, makespan_s)
    return np.divide(count, seconds, out=np.full(len(seconds), math.nan), where=np.greater(seconds, 0))


def cluster_sums(
    table: RequestTable,
    totals: LaneTotals,
    latencies_s: dict[str, np.ndarray],
    thresholds_s: Mapping[str, float | np.ndarray],
    warmup: int,
    rate_per_s: float,
    batches: bool,
    among: np.ndarray | None = None,
) -> ClusterSums:
    """The sums of some seeds.

    Args:
        table: all requests of the seeds.
        totals: totals of the same seeds.
        latencies_s: those of `latencies` that are summed up, of the measured requests.
        thresholds_s: what counts as good, as in `meets_slo`.
        warmup: requests at the start of each seed that are not measured.
        rate_per_s: nominal arrival rate, nan: none.
        batches: cut each seed into batches.
        among: bool `[R, M]`, the measured requests that count (those of one class); all by default. What is about all
            requests and the makespan stays about all.
    """
    measured = table.block(requests=slice(warmup, None))
    starts = batch_starts(measured.num_requests) if batches else np.zeros(1, np.int64)
    width = BATCHES if batches else 1
    among = np.ones(measured.arrival_s.shape, bool) if among is None else among
    completed = measured.completed & among

    def batched(values: np.ndarray) -> np.ndarray:
        sums = np.zeros((len(values), width))
        if batches:
            sums[:, : len(starts)] = np.add.reduceat(values, starts, axis=1, dtype=np.float64)
        else:
            np.sum(values, axis=1, out=sums[:, 0])
        return sums

    tokens = np.where(completed, measured.output_tokens, 0)
    gap_s = np.where(completed & (tokens > 1), measured.finish_s - measured.first_token_s, 0.0)
    present = {metric: ~np.isnan(values) for metric, values in latencies_s.items()}
    return ClusterSums(
        seed=table.seed,
        num_requests=np.full(table.num_seeds, table.num_requests),
        statuses=np.stack([np.count_nonzero(table.status == status, axis=1) for status in RequestStatus], axis=1),
        preemptions=table.preemptions.sum(axis=1, dtype=np.int64),
        recomputed_tokens=totals.recomputed_tokens,
        needed_tokens=_needed_tokens(table),
        iterations=totals.iterations,
        lane_status=totals.status,
        arrival_rate_per_s=arrival_rates(table.arrival_s, totals.makespan_s, rate_per_s) * among.mean(axis=1),
        measured=batched(among),
        completed=batched(completed),
        good=batched(meets_slo(completed, latencies_s, thresholds_s)),
        tokens=batched(tokens),
        measured_preemptions=batched(measured.preemptions * among),
        preempted=batched((measured.preemptions > 0) & among),
        gaps=batched(np.maximum(tokens - 1, 0)),
        gap_s=batched(gap_s),
        latency_count=np.stack([batched(present[metric]) for metric in latencies_s], axis=2),
        latency_s=np.stack(
            [batched(np.where(present[metric], values, 0.0)) for metric, values in latencies_s.items()], axis=2
        ),
        **(_service_by_batch if batches else _service)(table, totals),
    )


def _needed_tokens(table: RequestTable) -> np.ndarray:
    """Tokens of completed requests, int64 `[R]`: the last one is emitted, but never computed."""
    tokens = table.prompt_tokens.astype(np.int64) + table.output_tokens - 1
    return np.sum(tokens, axis=1, where=table.completed)


def _service(table: RequestTable, totals: LaneTotals) -> dict[str, np.ndarray]:
    """Rates and KV use of whole seeds, `[R, 1]`."""
    completed = table.completed
    tokens = np.sum(table.output_tokens, axis=1, where=completed, dtype=np.float64)
    makespan = totals.makespan_s
    return {
        "completions_per_s": _per_s(np.count_nonzero(completed, axis=1), makespan)[:, None],
        "tokens_per_s": _per_s(tokens, makespan)[:, None],
        "span": np.ones((len(makespan), 1)),
        "kv_token_seconds": totals.kv_token_seconds[:, None],
        "kv_capacity_token_seconds": totals.kv_capacity_token_seconds[:, None],
    }


def _service_by_batch(table: RequestTable, totals: LaneTotals) -> dict[str, np.ndarray]:
    """Rates and KV use of seeds cut into batches of consecutive completions, `[R, 20]`; they add up to `_service`."""
    shape = (table.num_seeds, BATCHES)
    names = ("completions_per_s", "tokens_per_s", "span", "kv_token_seconds", "kv_capacity_token_seconds")
    sums = {name: np.zeros(shape) for name in names}
    for row, makespan_s in enumerate(totals.makespan_s):
        done = np.flatnonzero(table.completed[row])
        done = done[np.argsort(table.finish_s[row, done], kind="stable")]
        starts = batch_starts(len(done)) if len(done) else np.zeros(1, np.int64)
        ends = np.append(starts[1:], len(done))
        tokens = table.output_tokens[row, done].astype(np.float64)
        resident = table.prompt_tokens[row, done] + tokens / 2
        held = resident * (table.finish_s[row, done] - table.first_scheduled_s[row, done])
        span = _shares(np.diff(table.finish_s[row, done][ends - 1], prepend=0.0)) if len(done) else np.ones(1)
        here = slice(len(starts))
        sums["completions_per_s"][row, here] = _per_s(ends - starts, makespan_s)
        sums["tokens_per_s"][row, here] = _per_s(_segments(tokens, starts), makespan_s)
        sums["span"][row, here] = span
        sums["kv_token_seconds"][row, here] = totals.kv_token_seconds[row] * _shares(_segments(held, starts))
        sums["kv_capacity_token_seconds"][row, here] = totals.kv_capacity_token_seconds[row] * span
    return sums


def _segments(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return np.add.reduceat(values, starts) if len(values) else np.zeros(len(starts))


def _shares(parts: np.ndarray) -> np.ndarray:
    whole = parts.sum()
    return parts / whole if whole > 0 else np.full(len(parts), 1 / len(parts))


def _per_s(count: ArrayLike, seconds: ArrayLike) -> np.ndarray:
    return np.divide(count, seconds, out=np.zeros(np.shape(count)), where=np.greater(seconds, 0))
