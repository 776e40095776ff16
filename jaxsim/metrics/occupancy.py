"""How many requests wait and run over time, and what each instance of a fleet did, from the times of requests."""

from dataclasses import dataclass

import numpy as np

from jaxsim.metrics.per_request import latencies
from jaxsim.metrics.request_table import RequestTable


@dataclass(frozen=True, eq=False)
class Occupancy:
    """Requests of one seed over time: step functions that change at `time_s`.

    Attributes:
        time_s: float64 `[T]`, ascending, from 0.
        waiting: int64 `[T]`, requests that have arrived and were never scheduled, from `time_s` until the next time.
        running: int64 `[T]`, requests that were scheduled and have not finished; preempted ones are among them.
    """

    time_s: np.ndarray
    waiting: np.ndarray
    running: np.ndarray

    def sampled(self, times_s: np.ndarray) -> "Occupancy":
        """The occupancy at other times, float64 `[S]`, ascending."""
        place = np.searchsorted(self.time_s, times_s, side="right") - 1
        return Occupancy(times_s, self.waiting[place], self.running[place])


def occupancy(table: RequestTable, seed_index: int = 0, instance: int | None = None) -> Occupancy:
    """Waiting and running requests of one seed.

    Args:
        table: the requests.
        seed_index: row of the table.
        instance: only requests of this instance; all by default.
    """
    routed = table.instance[seed_index] >= 0
    here = routed if instance is None else routed & (table.instance[seed_index] == instance)
    times = [getattr(table, name)[seed_index][here] for name in ("arrival_s", "first_scheduled_s", "finish_s")]
    times = [np.sort(time[~np.isnan(time)]) for time in times]
    when = np.unique(np.concatenate([[0.0], *times]))
    arrived, begun, done = (np.searchsorted(time, when, side="right") for time in times)
    return Occupancy(when, arrived - begun, begun - done)


@dataclass(frozen=True)
class InstanceRow:
    """What one instance of a fleet did, over all seeds.

    Attributes:
        instance: its number.
        requests: measured requests that it served.
        share: share of all measured requests.
        prompt_tokens: their prompt tokens.
        output_tokens: their output tokens.
        ttft_mean_s: their mean TTFT, seconds; None if none completed.
        ttft_p99_s: their P99 of TTFT, seconds.
        tpot_mean_s: their mean TPOT, seconds.
        preemptions: of these requests.
        running: requests that it had begun and not finished, on average over time, warm-up included.
        waiting: requests in its queue, on average over time.
        busy_share: share of the time in which it had a request that was begun and not finished.
    """

    instance: int
    requests: int
    share: float
    prompt_tokens: int
    output_tokens: int
    ttft_mean_s: float | None
    ttft_p99_s: float | None
    tpot_mean_s: float | None
    preemptions: int
    running: float
    waiting: float
    busy_share: float


def by_instance(table: RequestTable, warmup: int = 0) -> list[InstanceRow]:
    """One row for each instance that requests were sent to.

    Args:
        table: the requests.
        warmup: requests at the start of each seed that are not measured.
    """
    measured = table.block(requests=slice(warmup, None))
    values = latencies(measured)
    routed = int(np.count_nonzero(measured.instance >= 0))
    end_s = np.nan_to_num(table.finish_s, nan=0.0).max(axis=1, initial=0.0)
    rows = []
    for instance in np.unique(table.instance[table.instance >= 0]).tolist():
        here = measured.instance == instance
        ttft, tpot = (values[metric][here] for metric in ("ttft_s", "tpot_s"))
        ttft, tpot = ttft[~np.isnan(ttft)], tpot[~np.isnan(tpot)]
        whole = table.instance == instance
        rows.append(
            InstanceRow(
                instance=instance,
                requests=int(here.sum()),
                share=float(here.sum() / max(routed, 1)),
                prompt_tokens=int(measured.prompt_tokens[here].sum(dtype=np.int64)),
                output_tokens=int(measured.output_tokens[here].sum(dtype=np.int64)),
                ttft_mean_s=float(ttft.mean()) if len(ttft) else None,
                ttft_p99_s=float(np.quantile(ttft, 0.99)) if len(ttft) else None,
                tpot_mean_s=float(tpot.mean()) if len(tpot) else None,
                preemptions=int(measured.preemptions[here].sum()),
                running=_per_time((table.finish_s - table.first_scheduled_s)[whole], end_s),
                waiting=_per_time(table.queue_s[whole], end_s),
                busy_share=_per_time(_busy_s(table, whole), end_s),
            )
        )
    return rows


def _per_time(seconds: np.ndarray, end_s: np.ndarray) -> float:
    """The sum of what is known, by the length of all seeds."""
    return float(np.nansum(seconds) / max(end_s.sum(), np.finfo(float).tiny))


def _busy_s(table: RequestTable, here: np.ndarray) -> np.ndarray:
    """Seconds of each seed in which a request of `here` was begun and not finished, float64 `[R]`."""
    found = np.zeros(table.num_seeds)
    for seed in range(table.num_seeds):
        begun, done = table.first_scheduled_s[seed][here[seed]], table.finish_s[seed][here[seed]]
        known = ~np.isnan(begun) & ~np.isnan(done)
        order = np.argsort(begun[known], kind="stable")
        begun, done = begun[known][order], done[known][order]
        if len(begun):
            latest = np.maximum.accumulate(done)
            found[seed] = latest[-1] - begun[0] - np.sum((begun[1:] - latest[:-1]).clip(0))
    return found
