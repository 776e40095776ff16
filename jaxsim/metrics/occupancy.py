"""How many requests wait and run over time, and what each instance of a fleet did, from the times of requests."""

from dataclasses import dataclass

import numpy as np

from jaxsim.metrics.per_request import latencies
from jaxsim.metrics.request_table import RequestTable
from jaxsim.metrics.stays import Stays, stays


@dataclass(frozen=True, eq=False)
class Occupancy:
    """Requests of one seed over time: step functions that change at `time_s`.

    Attributes:
        time_s: float64 `[T]`, ascending, from 0.
        waiting: int64 `[T]`, requests in the queue of an instance, from `time_s` until the next time.
        running: int64 `[T]`, requests that an instance has begun and not finished; preempted ones are among them.
    """

    time_s: np.ndarray
    waiting: np.ndarray
    running: np.ndarray

    def sampled(self, times_s: np.ndarray) -> "Occupancy":
        """The occupancy at other times, float64 `[S]`, ascending."""
        place = np.searchsorted(self.time_s, times_s, side="right") - 1
        return Occupancy(times_s, self.waiting[place], self.running[place])


def occupancy(table: RequestTable, seed_index: int = 0, instance: int | None = None) -> Occupancy:
    """Waiting and running requests of one seed. One that is being handed over is neither.

    Args:
        table: the requests.
        seed_index: row of the table, from 0.
        instance: only requests of this instance; all by default.

    Raises:
        IndexError: there are fewer seeds.
    """
    if not 0 <= seed_index < table.num_seeds:
        raise IndexError(f"seed_index must be from 0 to {table.num_seeds - 1}, not {seed_index}")
    arrived: list[np.ndarray] = []
    begun: list[np.ndarray] = []
    done: list[np.ndarray] = []
    for stay in stays(table.block(slice(seed_index, seed_index + 1))):
        here = stay.instance >= 0 if instance is None else stay.instance == instance
        for times, column in ((arrived, stay.arrive_s), (begun, stay.begin_s), (done, stay.end_s)):
            times.append(column[here])
    sorted_ = [np.sort(time[~np.isnan(time)]) for time in map(np.concatenate, (arrived, begun, done))]
    when = np.unique(np.concatenate([[0.0], *sorted_]))
    counts = [np.searchsorted(time, when, side="right") for time in sorted_]
    return Occupancy(when, counts[0] - counts[1], counts[1] - counts[2])


@dataclass(frozen=True)
class InstanceRow:
    """What one instance of a fleet did, over all seeds.

    Attributes:
        instance: its number.
        requests: measured requests that it served.
        share: share of all measured requests.
        prompt_tokens: tokens of the prompts that it prefilled.
        output_tokens: tokens of the requests that it decoded.
        ttft_mean_s: mean TTFT of those that it prefilled, seconds; None if none completed.
        ttft_p99_s: their P99 of TTFT, seconds.
        tpot_mean_s: mean TPOT of those that it decoded, seconds; None if there is none.
        preemptions: of the requests that it served, wherever they were preempted.
        running: requests that it had begun and not finished, on average over time, warm-up included, as the next two.
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
    decoded = np.where(measured.decode_instance >= 0, measured.decode_instance, measured.instance)
    whole = stays(table)
    rows = []
    numbers = np.unique(np.concatenate([stay.instance.ravel() for stay in whole]))
    for instance in numbers[numbers >= 0].tolist():
        prefills, decodes = measured.instance == instance, decoded == instance
        here = prefills | decodes
        ttft, tpot = values["ttft_s"][prefills], values["tpot_s"][decodes]
        ttft, tpot = ttft[~np.isnan(ttft)], tpot[~np.isnan(tpot)]
        at = [(stay, stay.instance == instance) for stay in whole]
        running = [(stay.end_s - stay.begin_s)[mask] for stay, mask in at]
        waiting = [(stay.begin_s - stay.arrive_s)[mask] for stay, mask in at]
        rows.append(
            InstanceRow(
                instance=instance,
                requests=int(here.sum()),
                share=float(here.sum() / max(routed, 1)),
                prompt_tokens=int(measured.prompt_tokens[prefills].sum(dtype=np.int64)),
                output_tokens=int(measured.output_tokens[decodes].sum(dtype=np.int64)),
                ttft_mean_s=float(ttft.mean()) if len(ttft) else None,
                ttft_p99_s=float(np.quantile(ttft, 0.99)) if len(ttft) else None,
                tpot_mean_s=float(tpot.mean()) if len(tpot) else None,
                preemptions=int(measured.preemptions[here].sum()),
                running=_per_time(np.concatenate(running), end_s),
                waiting=_per_time(np.concatenate(waiting), end_s),
                busy_share=_per_time(_busy_s(at), end_s),
            )
        )
    return rows


def _per_time(seconds: np.ndarray, end_s: np.ndarray) -> float:
    """The sum of what is known, by the length of all seeds."""
    return float(np.nansum(seconds) / max(end_s.sum(), np.finfo(float).tiny))


def _busy_s(at: list[tuple[Stays, np.ndarray]]) -> np.ndarray:
    """Seconds of each seed in which one of some stays was begun and not ended, float64 `[R]`."""
    found = np.zeros(len(at[0][1]))
    for seed in range(len(found)):
        begun, done = (
            np.concatenate([getattr(stay, name)[seed][mask[seed]] for stay, mask in at])
            for name in ("begin_s", "end_s")
        )
        known = ~np.isnan(begun) & ~np.isnan(done)
        order = np.argsort(begun[known], kind="stable")
        begun, done = begun[known][order], done[known][order]
        if len(begun):
            latest = np.maximum.accumulate(done)
            found[seed] = latest[-1] - begun[0] - np.sum((begun[1:] - latest[:-1]).clip(0))
    return found
