"""Is a run long enough? Warm-up, drift along the run, and queues that never stop growing.

A run that starts empty reads low until the queues have filled, and no interval over seeds shows it: all seeds start
empty. Measured at a utilisation of .95: P99 TTFT 0.30 s from 300 requests, 0.51 from 3,000, 0.71 from 30,000.
"""

import math
from dataclasses import dataclass

import numpy as np

from jaxsim.analysis.statistics import Sample, Statistic
from jaxsim.metrics.intervals import Estimate, Interval
from jaxsim.metrics.request_table import RequestTable

_BATCH = 5
_LOOKS = 16
_ALARM_CONFIDENCE = 0.999


def warmup_of(table: RequestTable) -> tuple[int, bool]:
    """Requests at the start of each seed to leave out, by MSER-5 (White, Cobb & Spratt 2000), and whether it settled.

    The means over seeds of TTFT and end-to-end latency, in batches of 5 requests, are cut where the standard error of
    the rest is least; the later cut counts. A cut in the last half says that the run is too short to tell.
    """
    cuts, settled = [0], True
    for values in (table.ttft_s, table.e2e_s):
        series = np.nanmean(np.where(table.completed, values, np.nan), axis=0) if table.completed.any() else values[0]
        cut, found = mser(series)
        cuts.append(cut)
        settled &= found
    return max(cuts), settled


def mser(series: np.ndarray, batch: int = _BATCH) -> tuple[int, bool]:
    """Where to cut a series, in its own units, by the marginal standard error rule; and whether that is not the middle.

    Args:
        series: float64 `[N]`.
        batch: consecutive values that are averaged first.
    """
    count = len(series) // batch
    if count < 4:
        return 0, False
    means = np.asarray(series[: count * batch]).reshape(count, batch).mean(axis=1)
    after = np.arange(count, 0, -1)  # batches from each cut on
    sums = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum(means[::-1] ** 2)[::-1]
    spread = np.maximum(squares - sums**2 / after, 0.0) / after**2
    last = count // 2
    cut = int(np.nanargmin(spread[: last + 1]))
    return cut * batch, cut < last


@dataclass(frozen=True)
class Drift:
    """How a statistic moves along the run.

    Attributes:
        statistic: which.
        whole_run: relative distance of the run's value from that of its last half: its bias if the last half is steady.
        whole_run_ci: its 95 % interval; None with fewer than two clusters.
        last_half: relative change from the third to the last quarter; not zero means that the run is not steady yet.
        last_half_ci: its 95 % interval.
    """

    statistic: Statistic
    whole_run: float
    whole_run_ci: Interval | None
    last_half: float
    last_half_ci: Interval | None

    @property
    def is_sure(self) -> bool:
        """Whether the run certainly differs from its last half."""
        return self.whole_run_ci is not None and not self.whole_run_ci.low <= 0 <= self.whole_run_ci.high

    @property
    def still_moves(self) -> bool:
        """Whether the last half certainly moves itself, the way the run did."""
        ci = self.last_half_ci
        return ci is not None and not ci.low <= 0 <= ci.high and self.last_half * self.whole_run < 0

    def needed_factor(self, tolerance: float) -> float:
        """How many times longer the run must be for a bias of at most `tolerance` (relative): at least this, if the
        last half still moves. The bias of a mean over a run falls as one over its length once it exceeds the transient.
        """
        if not self.is_sure or abs(self.whole_run) <= tolerance:
            return 1.0
        return max(abs(self.whole_run) / tolerance, 4.0 if self.still_moves else 1.0)


def drift_of(sample: Sample, statistic: Statistic) -> Drift:
    """The drift of a statistic along the measured requests."""
    whole, late = statistic.estimate(sample), statistic.estimate(sample.part(0.5, 1.0))
    third, last = statistic.estimate(sample.part(0.5, 0.75)), statistic.estimate(sample.part(0.75, 1.0))
    bias, moves = relative_difference(whole, late), relative_difference(last, third)
    return Drift(
        statistic,
        bias.value,
        bias.interval(0.95, low=-math.inf),
        moves.value,
        moves.interval(0.95, low=-math.inf),
    )


def relative_difference(a: Estimate, b: Estimate) -> Estimate:
    """`a / b - 1` over the same clusters."""
    if not b.value:
        return Estimate(math.nan, np.full(len(a.influence), math.nan))
    ratio = a.value / b.value
    return Estimate(ratio - 1, (a.influence - ratio * b.influence) / b.value)


@dataclass(frozen=True)
class Growth:
    """How fast requests pile up while others arrive: those that wait, or those in the system if that is surer.

    Attributes:
        per_s: requests per second over the last half of the arrivals, mean over seeds; nan if the run is too short.
        interval: its 99.9 % interval, for few false alarms; None if there is too little to tell.
        middle: how many there are halfway, in the mean.
        end: how many there are at the last arrival.
    """

    per_s: float
    interval: Interval | None
    middle: float
    end: float

    @property
    def overloaded(self) -> bool:
        """Whether the queue grows without end: surely, by five requests or more, and not ever more slowly.

        At a constant rate the end has twice the middle. At exactly the capacity a queue grows as the square root of
        time, to 1.4 times; below it, to a limit.
        """
        if self.interval is None or self.interval.low <= 0:
            return False
        return self.end - self.middle >= 5 and self.end > 1.5 * self.middle

    @property
    def sentence(self) -> str:
        """What to tell the user of an overloaded system."""
        return f"queue grows at {self.per_s:.2g} requests/s: no steady state; percentiles depend on the horizon"


def growth_of(table: RequestTable) -> Growth:
    """How the number of waiting requests, or of those in the system, grows along a run."""
    waiting, inside = (_growth(table, until_s) for until_s in (table.first_scheduled_s, table.finish_s))
    return waiting if waiting.overloaded or not inside.overloaded else inside


def _growth(table: RequestTable, until_s: np.ndarray) -> Growth:
    """The growth of how many have arrived and have not reached `until_s`, `[R, N]`."""
    seeds, count = table.arrival_s.shape
    start_s = table.arrival_s[:, 0]
    span_s = table.arrival_s[:, -1] - start_s
    early_s = table.e2e_s[:, : max(count // 4, 1)]
    if not (span_s > 0).all() or not np.nanmean(early_s) * 5 < span_s.mean():
        return Growth(math.nan, None, math.nan, math.nan)  # the arrivals end before the first requests have left
    looks = np.zeros((seeds, _LOOKS + 1))
    for seed in range(seeds):
        served = table.completed[seed]
        at_s = start_s[seed] + span_s[seed] * np.linspace(0, 1, _LOOKS + 1)
        arrived = np.searchsorted(table.arrival_s[seed, served], at_s, side="right")
        looks[seed] = arrived - np.searchsorted(np.sort(until_s[seed, served]), at_s, side="right")
    half = _LOOKS // 2
    slopes = (looks[:, -1] - looks[:, half]) / (span_s / 2)
    if seeds < 4:
        slopes = (np.diff(looks[:, half:], axis=1) / (span_s / _LOOKS)[:, None]).reshape(-1)
    estimate = Estimate.ratio(slopes, np.ones(len(slopes)))
    interval = estimate.interval(_ALARM_CONFIDENCE, low=-math.inf)
    return Growth(estimate.value, interval, float(looks[:, half].mean()), float(looks[:, -1].mean()))
