"""The highest arrival rate that keeps the SLO.

The mean field gives the bracket; a coarse curve over it finds where the first promise breaks; a fan of five rates
around that point, all on the same requests, locates it. Its interval is that of the promised statistic divided by how
fast it grows with the rate.

Short runs read low and capacity from them is too high, however many seeds there are. So the fan is run again with seeds
four times as long, until that moves the answer by less than it may: the error of a start falls as one over the length,
hence a third of the last move is what is left.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.analysis.promises import Margin, margins, met, worst
from jaxsim.analysis.replications import Horizon, few_lane_counts, horizon_of, part_of, replicated
from jaxsim.analysis.scenarios import at_rate, resized, size_of
from jaxsim.analysis.steadiness import growth_of
from jaxsim.config.schema import Scenario
from jaxsim.mean_field import FleetField, mix_of
from jaxsim.metrics.intervals import Interval
from jaxsim.simulate import KEPT_REQUESTS, run, run_many

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COARSE = (0.2, 0.4, 0.55, 0.7, 0.8, 0.86, 0.92, 0.97, 1.02)
"""Rates of the first curve, of what the mean field says the fleet bears."""
_FAN = (-1.0, -0.5, 0.0, 0.5, 1.0)
_COARSE_SEEDS, _SEEDS, _LEAST_SEEDS = 16, 32, 12
_LEAST_REQUESTS = 1000
_LONGER = 4
_MARGIN = 1.2
WARMUP = 0.2
"""Share of each seed that a search for a steady state does not measure."""
_ROUNDS = 10


@dataclass(frozen=True)
class RatePoint:
    """One arrival rate that was simulated.

    Attributes:
        rate_per_s: requests per second.
        margins: of every promise.
        attainment: share of requests that met the SLO; None without thresholds.
        goodput_per_s: requests per second that met it.
        requests: how many were simulated.
    """

    rate_per_s: float
    margins: tuple[Margin, ...]
    attainment: float | None
    goodput_per_s: float | None
    requests: int


@dataclass(frozen=True, eq=False)
class RateAnswer(Answer):
    """The highest arrival rate that keeps the SLO.

    Attributes:
        rate_per_s: the answer; None if no rate keeps it, or every rate that could be tried does.
        interval: its 95 % interval.
        binding: the promise that breaks first.
        precision: what was asked for.
        limit_per_s: what the fleet bears in the mean, whatever the SLO.
        knee_per_s: where goodput stops following the arrival rate; None without thresholds.
        points: every rate that was simulated, ascending.
        bias: relative error of the rate that longer runs may still take away; None if terminating, or unknown.
        num_requests: requests of each seed in the end.
        simulated_requests: of all runs.
    """

    question: ClassVar[str] = "capacity"

    rate_per_s: float | None
    interval: Interval | None
    binding: Margin | None
    precision: float
    limit_per_s: float
    knee_per_s: float | None
    points: tuple[RatePoint, ...]
    bias: float | None
    num_requests: int
    simulated_requests: int
    warnings: tuple[str, ...] = ()
    incomplete: bool = False

    @property
    def sentences(self) -> list[str]:
        """See `Answer`."""
        if self.rate_per_s is None or self.binding is None:
            tried = (self.points[0], self.points[-1])
            worst_of = worst(tried[0].margins)
            if worst_of.excess > 0:
                at = f"at {tried[0].rate_per_s:.4g} requests/s it is {worst_of.value:.4g}"
                return [f"No rate keeps {worst_of.label}: {at}."]
            return [f"Every rate up to {tried[1].rate_per_s:.4g} requests/s keeps the SLO."]
        ci = self.interval
        width = ""
        if ci is not None:
            width = f" ({ci.low:.4g} to {ci.high:.4g}, ±{(ci.high - ci.low) / 2 / self.rate_per_s:.1%})"
        said = [f"Capacity: {self.rate_per_s:.4g} requests/s{width}. Above it {self.binding.label} breaks."]
        share = self.rate_per_s / self.limit_per_s
        said.append(f"That is {share:.0%} of the {self.limit_per_s:.4g} requests/s that the fleet bears in the mean.")
        if self.knee_per_s is not None:
            said.append(f"Goodput stops following the arrival rate at about {self.knee_per_s:.3g} requests/s.")
        return said

    @property
    def facts(self) -> dict[str, Any]:
        """See `Answer`."""
        return {
            "rate_per_s": self.rate_per_s,
            "rate_per_s_ci": self.interval,
            "binding": None if self.binding is None else self.binding.promise.name,
            "limit": None if self.binding is None else self.binding.limit,
            "precision": self.precision,
            "drift_bias": self.bias,
            "mean_field_limit_per_s": self.limit_per_s,
            "knee_per_s": self.knee_per_s,
            "num_requests": self.num_requests,
            "simulated_requests": self.simulated_requests,
        }

    @property
    def rows(self) -> list[Row]:
        """A row per rate that was simulated."""
        rows: list[Row] = []
        for point in self.points:
            row: dict[str, Any] = {"rate_per_s": point.rate_per_s, "met": met(point.margins)}
            for margin in point.margins:
                row[margin.promise.name] = margin.value if math.isfinite(margin.value) else None
            row.setdefault("slo_attainment", point.attainment)
            rows.append(row | {"goodput_per_s": point.goodput_per_s, "requests": point.requests})
        return rows

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The goodput curve with its knee and the capacity; without thresholds, the promises over their limits."""
        ax = new_axes(ax)
        rates = np.array([point.rate_per_s for point in self.points])
        if all(point.goodput_per_s is not None for point in self.points):
            good = np.array([point.goodput_per_s for point in self.points], float)
            ax.plot(rates, rates, color="0.75", ls="--", label="all requests good")
            ax.plot(rates, good, "o-", ms=4, label="goodput")
            if self.knee_per_s is not None:
                ax.plot(self.knee_per_s, np.interp(self.knee_per_s, rates, good), "D", color="C3", ms=8, label="knee")
            ax.set(xlabel="arrival rate, requests/s", ylabel="goodput, requests/s", xlim=(0, None), ylim=(0, None))
        else:
            for place, margin in enumerate(self.points[0].margins):
                ratio = [point.margins[place].value / margin.limit for point in self.points]
                ax.plot(rates, ratio, "o-", ms=4, label=margin.label)
            ax.axhline(1, color="0.6", lw=1)
            ax.set(xlabel="arrival rate, requests/s", ylabel="value / limit", yscale="log")
        if self.rate_per_s is not None:
            ax.axvline(self.rate_per_s, color="C2", label=f"capacity {self.rate_per_s:.4g}/s")
        if self.interval is not None:
            ax.axvspan(*self.interval, color="C2", alpha=0.2, lw=0)
        ax.legend(frameon=False, fontsize=8)
        return ax


@dataclass(frozen=True)
class Crossing:
    """Where the first promise breaks.

    Attributes:
        rate_per_s: at which rate.
        margin: of the promise, at the nearest rate below that was simulated.
        slope: excess that it gains per request/s there.
        half_width: of the 95 % interval of the rate.
    """

    rate_per_s: float
    margin: Margin
    slope: float
    half_width: float


def highest_rate(
    scenario: Scenario,
    precision: float,
    horizon: Horizon | Literal["auto"],
    max_requests: int,
    progress: Callable[[float], None] | None = None,
) -> RateAnswer:
    """See `capacity`."""
    return _Search(scenario, precision, horizon, max_requests, progress).answer()


class _Search:
    """The search; every rate that was simulated is kept for the picture."""

    def __init__(
        self,
        scenario: Scenario,
        precision: float,
        horizon: Horizon | Literal["auto"],
        max_requests: int,
        progress: Callable[[float], None] | None,
    ) -> None:
        self._scenario, self._warnings = replicated(scenario)
        self._steady = horizon_of(scenario, horizon) == "steady"
        self._precision = precision
        self._budget = max_requests
        self._progress = progress
        self._limit = FleetField(scenario, mix_of(scenario)).limit_per_s
        self._spent = 0
        self._incomplete = False
        self._points: list[RatePoint] = []
        self._fan: list[RatePoint] = []
        self._size = size_of(scenario)
        if self._steady:
            self._size = max(self._size, _LEAST_REQUESTS)
        self._seeds = _COARSE_SEEDS

    def answer(self) -> RateAnswer:
        """Search."""
        curve = self._bracket()
        crossing = crossing_of(curve)
        bias, interval = None, None
        if crossing is not None:
            crossing, interval, bias = self._locate(crossing)
            if self._steady:
                self._check_growth(crossing.rate_per_s)
        # in a steady state the runs of the coarse curve are too short from where the last fan begins
        first, last = (self._fan[place].rate_per_s if self._fan else math.inf for place in (0, -1))
        outside = [p for p in self._points if p.rate_per_s < first or (p.rate_per_s > last and not self._steady)]
        self._points = sorted([*outside, *self._fan], key=lambda point: point.rate_per_s)
        self._check_monotone()
        if bias is not None and abs(bias) > self._precision / 2:
            direction = "high" if bias > 0 else "low"
            self._warnings.append(
                f"the rate may still be {abs(bias):.1%} too {direction}: it moves with the length of the seeds, now "
                f"{self._size:,} requests, and the budget allows no longer ones"
            )
        if interval is not None and crossing is not None:
            half = (interval.high - interval.low) / 2 / crossing.rate_per_s
            if half > self._precision:
                self._warnings.append(f"the budget ended at ±{half:.1%}; ±{self._precision:.1%} was asked for")
        return RateAnswer(
            rate_per_s=None if crossing is None else crossing.rate_per_s,
            interval=interval,
            binding=None if crossing is None else crossing.margin,
            precision=self._precision,
            limit_per_s=self._limit,
            knee_per_s=_knee(self._points),
            points=tuple(self._points),
            bias=bias,
            num_requests=self._size,
            simulated_requests=self._spent,
            warnings=tuple(self._warnings),
            incomplete=self._incomplete,
        )

    def _bracket(self) -> list[RatePoint]:
        """A coarse curve that holds the crossing if there is one within five doublings."""
        curve = self._simulate([share * self._limit for share in _COARSE], part_of(self._progress, 0, 0.2))
        for _ in range(5):
            if not met(curve[0].margins):
                curve = self._simulate([curve[0].rate_per_s * share for share in (0.25, 0.5)]) + curve
            elif met(curve[-1].margins) and not self._steady:
                curve += self._simulate([curve[-1].rate_per_s * share for share in (1.5, 2.0)])
            else:
                break
        self._points = curve
        return curve

    def _locate(self, crossing: Crossing) -> tuple[Crossing, Interval | None, float | None]:
        """The crossing to the precision asked for: its interval, and the error that longer runs may still take away."""
        self._seeds, spread = _SEEDS, 0.06
        before = bias = None
        for turn in range(_ROUNDS):
            centre = crossing.rate_per_s
            rates = [centre * (1 + spread * step) for step in _FAN]
            fan = self._simulate(rates, part_of(self._progress, 0.2 + 0.8 * turn / _ROUNDS, 0.8 / _ROUNDS))
            found = crossing_of(fan)
            if found is None:  # not in the fan: move it
                crossing = _moved(crossing, rates[-1 if met(fan[-1].margins) else 0])
                if crossing.rate_per_s > 1.1 * self._limit and self._steady:
                    break
                continue
            crossing, self._fan = found, fan
            half = crossing.half_width / crossing.rate_per_s
            if before is not None:
                bias = (before - crossing.rate_per_s) / (_LONGER - 1) / crossing.rate_per_s
            long_enough = not self._steady or (bias is not None and abs(bias) <= self._precision / 2)
            if long_enough and half <= self._precision:
                break
            more = max(_MARGIN * (half / self._precision) ** 2, 1.0)
            if not self._grow(1 if long_enough else _LONGER, more):
                break
            before = before if long_enough else crossing.rate_per_s
            spread = max(2 * self._precision, 1.5 * min(half, 0.1))
        if not math.isfinite(crossing.half_width):
            return crossing, None, bias
        low, high = (crossing.rate_per_s + sign * crossing.half_width for sign in (-1, 1))
        return crossing, Interval(max(low, 0.0), high), bias

    def _grow(self, longer: int, more: float) -> bool:
        """Make the seeds `longer` times as long and the requests `more` times as many, if the budget allows."""
        size = self._size * longer
        seeds = few_lane_counts(max(math.ceil(self._seeds * more / longer), _LEAST_SEEDS))
        if self._spent + seeds * size * len(_FAN) > self._budget:
            return False
        self._size, self._seeds = size, seeds
        return True

    def _check_growth(self, rate_per_s: float) -> None:
        """Say so if the SLO is kept at the answer only because the run ends."""
        scenario = self._sized(at_rate(self._scenario, rate_per_s))
        scenario = resized(scenario, seeds=max(2, min(self._seeds, KEPT_REQUESTS // 4 // self._size)))
        result = run(scenario, keep_requests=True)
        self._spent += result.summary["num_requests"]
        assert result.requests is not None
        growth = growth_of(result.requests)
        if growth.overloaded:
            kept = "the SLO is kept only until the queue is long"
            self._warnings.append(f"at {rate_per_s:.4g} requests/s the {growth.sentence}; {kept}")

    def _sized(self, scenario: Scenario) -> Scenario:
        if not self._steady:
            return resized(scenario, seeds=self._seeds)
        warmup = scenario.monte_carlo.warmup_requests or int(WARMUP * self._size)
        return resized(scenario, seeds=self._seeds, num_requests=self._size, warmup_requests=warmup)

    def _simulate(self, rates: Sequence[float], progress: Callable[[float], None] | None = None) -> list[RatePoint]:
        scenarios = [self._sized(at_rate(self._scenario, rate)) for rate in rates]
        points = []
        for rate, result in zip(rates, run_many(scenarios, progress=progress), strict=True):
            summary = result.summary
            self._spent += summary["num_requests"]
            self._incomplete |= bool(summary["seeds_incomplete"])
            goodput = summary["goodput_requests_per_s"]
            points.append(
                RatePoint(rate, tuple(margins(result)), summary["slo_attainment"], goodput, summary["num_requests"])
            )
        return points

    def _check_monotone(self) -> None:
        """Say so if a promise is surely broken at some rate and surely kept at a higher one."""
        for place, margin in enumerate(self._points[0].margins):
            broken = [point.rate_per_s for point in self._points if point.margins[place].surely_missed]
            kept = [point.rate_per_s for point in self._points if point.margins[place].surely_met]
            if broken and kept and min(broken) < max(kept):
                self._warnings.append(
                    f"not monotone: {margin.label} breaks at {min(broken):.4g} requests/s and is kept again at "
                    f"{max(kept):.4g}; the answer is the lowest rate at which a promise breaks"
                )


def crossing_of(points: Sequence[RatePoint]) -> Crossing | None:
    """The lowest rate at which a promise breaks: between neighbours, excess is taken to be linear in the rate."""
    found = []
    for place in range(len(points[0].margins)):
        for at, (below, above) in enumerate(zip(points, points[1:], strict=False)):
            low, high = below.margins[place], above.margins[place]
            if not low.excess <= 0 < high.excess:
                continue
            width = above.rate_per_s - below.rate_per_s
            if math.isinf(high.excess):
                found.append(Crossing(below.rate_per_s + width / 2, low, math.inf, width / 2))
                break
            share = -low.excess / (high.excess - low.excess)
            slope = _slope(points[max(at - 1, 0) : at + 3], place) or (high.excess - low.excess) / width
            half = (1 - share) * _half(low) + share * _half(high)
            found.append(Crossing(below.rate_per_s + share * width, high, slope, half / slope))
            break
    return min(found, key=lambda crossing: crossing.rate_per_s) if found else None


def _slope(points: Sequence[RatePoint], place: int) -> float | None:
    """Excess gained per request/s over some points, by least squares; None unless it grows."""
    rates = np.array([point.rate_per_s for point in points])
    excess = np.array([point.margins[place].excess for point in points])
    if not np.isfinite(excess).all():
        return None
    away = rates - rates.mean()
    slope = float(away @ excess / (away @ away))
    return slope if slope > 0 else None


def _half(margin: Margin) -> float:
    if margin.low is None or margin.high is None:
        return math.inf
    return (margin.high - margin.low) / 2


def _moved(crossing: Crossing, rate_per_s: float) -> Crossing:
    return Crossing(rate_per_s, crossing.margin, crossing.slope, math.inf)


def _knee(points: Sequence[RatePoint]) -> float | None:
    """Where the goodput curve is farthest above the line from its start to its end (Satopaa et al. 2011, 'Kneedle')."""
    if len(points) < 3 or any(point.goodput_per_s is None for point in points):
        return None
    rates = np.array([point.rate_per_s for point in points])
    good = np.array([point.goodput_per_s for point in points], float)
    share = (rates - rates[0]) / (rates[-1] - rates[0])
    return float(rates[np.argmax(good - good[0] - share * (good[-1] - good[0]))])
