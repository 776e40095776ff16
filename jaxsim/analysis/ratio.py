"""How many of the accelerators should prefill and how many decode, and would they do better undivided?

Every split of the budget serves the same requests (common random numbers). The mean field says what each bears at most;
those that could not be best are not simulated. A coarse look at the others finds about which rate keeps the SLO,
further ones find that of the best. A short run reads low, by one over its length: its first half reads lower still, and
by as much the rate is corrected. What gives way first in each fleet is looked up in its requests (`saturation`).

Compiling takes longer than simulating, so every seed of every look has as many requests: all run the same program.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from jaxsim.analysis.promises import Margin, check_promises, margin_of, margins, met, worst
from jaxsim.analysis.rate_search import WARMUP, Crossing, RatePoint, crossing_of
from jaxsim.analysis.ratio_answer import RatioAnswer, RatioPoint, sorted_points
from jaxsim.analysis.replications import Horizon, horizon_of, part_of, replicated
from jaxsim.analysis.saturation import Saturation, saturation_of
from jaxsim.analysis.scenarios import at_rate, rate_of, resized, size_of
from jaxsim.analysis.splits import Split, splits_of
from jaxsim.analysis.statistics import Sample
from jaxsim.config.schema import Scenario
from jaxsim.metrics.intervals import Interval
from jaxsim.metrics.request_table import RequestTable
from jaxsim.metrics.student_t import student_t_quantile
from jaxsim.result import Result
from jaxsim.simulate import run_many

MAX_REQUESTS = 20_000_000
"""Default budget: simulated requests in all."""

_COARSE = (0.3, 0.7, 0.9, 1.06)
"""Rates of the first look, of what the split bears in the mean."""
_LOWER = (0.04, 0.12, 0.35, 0.75)
_HIGHER = (0.25, 0.5, 0.75, 1.0)
"""Of the way from the highest rate so far to twice that; in a steady state to where some queue grows without end."""
_FAN = (0.9, 0.97, 1.04, 1.11)
"""Rates of later looks, of what was found before."""
_SEEDS = 4
_AT_ONCE = 2
"""Fleets that are looked at together."""
_LEAST_REQUESTS = 1000
_STAYS = 4.0
"""Length of a seed, in mean stays of a request at the limit of the fleet that bears the most."""
_PRUNE = 1.15
"""What the mean field may be wrong by."""
_CLOSE = 0.9
"""Of the best rate: fleets that bear less need not be known precisely."""
_LOOKS = 8
_ENDED = "the budget of requests ended before every rate was as sure as was asked, or known at all"


def ratio(
    scenario: Scenario,
    accelerators: int,
    *,
    layouts: Sequence[int] | None = None,
    chunks: Sequence[int] | None = None,
    precision: float = 0.05,
    horizon: Horizon | Literal["auto"] = "auto",
    max_requests: int = MAX_REQUESTS,
    progress: Callable[[float], None] | None = None,
) -> RatioAnswer:
    """The split of a budget into prefill and decode instances that bears the highest rate under the SLO.

    Against colocated instances, which prefill in chunks beside their decodes, on the same requests; and what gives way
    first in each: a queue, the link, memory, or the iterations.

    Args:
        scenario: workload, SLO and network (`cluster.kv_transfer`), and what instances are like: one group of unified
            instances, which are tried in all roles, or one of prefill and one of decode instances (and one of unified
            ones, which are like the decode instances if there are none). Their counts do not matter.
        accelerators: how many there are.
        layouts: values of `latency.tensor_parallel` to try for each role, of a roofline; by default the scenario's.
            Every number of instances needs a program of its own, which takes half a minute to compile.
        chunks: token budgets to try for colocated instances; by default that of their scheduler.
        precision: half-width of the 95 % interval of the rates of the best, relative to them.
        horizon: as in `monte_carlo`. In a steady state, the first fifth of each seed is not measured.
        max_requests: most requests to simulate.
        progress: as in `run`.

    Returns:
        The answer with every fleet that was looked at. Repeated, it is the same to the last bit.

    Raises:
        ScenarioError: no SLO or network, or the scenario cannot be simulated.
        ValueError: too few accelerators.
    """
    check_promises(scenario)
    scenario, warnings = replicated(scenario)
    steady = horizon_of(scenario, horizon) == "steady"
    at_rate(scenario, 1.0)  # there is a rate to vary
    splits = sorted(splits_of(scenario, accelerators, layouts, chunks), key=lambda split: -split.bound_per_s)
    search = _Search(size_of(scenario), steady, precision, max_requests, progress, warnings)
    points = [point for colocated in (True, False) for point in search.best_of(splits, colocated)]
    if progress:
        progress(1.0)
    return RatioAnswer(
        accelerators=accelerators,
        points=sorted_points(points),
        precision=precision,
        bias=search.bias if steady else None,
        num_requests=search.size,
        simulated_requests=search.spent,
        warnings=tuple(dict.fromkeys(search.warnings)),
        incomplete=search.incomplete,
    )


@dataclass(frozen=True)
class _Run(RatePoint):
    """One rate with its requests."""

    result: Result
    scenario: Scenario

    @classmethod
    def of(cls, result: Result, scenario: Scenario) -> "_Run":
        """The run of a scenario that kept its requests."""
        summary = result.summary
        attainment, goodput = summary["slo_attainment"], summary["goodput_requests_per_s"]
        kept = tuple(margins(result))
        return cls(rate_of(scenario), kept, attainment, goodput, summary["num_requests"], result, scenario)

    @property
    def measured(self) -> RequestTable:
        """The measured requests."""
        assert self.result.requests is not None
        return self.result.requests.block(requests=slice(self.scenario.monte_carlo.warmup_requests, None))

    @property
    def first_half(self) -> RatePoint:
        """What a run of half the length would say: the first half of the requests, without half the warm-up.

        Percentiles of gaps between tokens are not known of parts of a run, so they stay.
        """
        warmup, count = self.scenario.monte_carlo.warmup_requests // 2, size_of(self.scenario)
        half = Sample.of(self.result, self.scenario, warmup).part(0.0, (count / 2 - warmup) / (count - warmup))
        kept = tuple(
            margin_of(of.promise, of.limit, of.promise.measure(half)) if of.promise.can_be_cut else of
            for of in self.margins
        )
        return RatePoint(self.rate_per_s, kept, None, None, self.requests // 2)


@dataclass
class _Search:
    """The search; what it is given, and what it has found on the way."""

    least_size: int
    steady: bool
    precision: float
    budget: int
    progress: Callable[[float], None] | None
    warnings: list[str]
    size: int = 0
    spent: int = 0
    looks: int = 0
    incomplete: bool = False
    bias: float = 0.0

    def best_of(self, splits: Sequence[Split], colocated: bool) -> list[RatioPoint]:
        """The colocated fleets or the others, of splits that bear ever less in the mean; the best looked at closely."""
        waiting = [split for split in splits if split.is_colocated == colocated]
        self.size = self.least_size
        if self.steady and waiting:
            self.size = max(self.size, _LEAST_REQUESTS, round(_STAYS * waiting[0].in_service))
        points: list[RatioPoint] = []
        quiet: dict[Split, _Run] = {}
        while waiting:
            best = max((point.order for point in points), default=0.0)
            if waiting[0].bound_per_s * _PRUNE < best or not self._affords():
                points += [RatioPoint(split, "bound") for split in waiting]
                self.warnings += [] if self._affords() else [_ENDED]
                break
            points += self._rough(waiting[:_AT_ONCE], quiet)
            waiting = waiting[_AT_ONCE:]
        while True:  # until none that was looked at closely bears less than others are thought to
            points.sort(key=lambda point: -point.order)
            known = [point for point in points if point.binding is not None and point.rate_per_s is not None]
            rough = [point for point in known if point.look == "rough"][:_AT_ONCE]
            if not rough or rough[0].order < max((p.order for p in known if p.look == "fine"), default=0.0):
                return points
            states = [_State(point, point.order) for point in rough]
            self._fine(states, quiet)
            points = [point for point in points if point not in rough] + [state.point for state in states]
            if any(state.point.look == "rough" for state in states):  # it cannot be known better
                return points

    def _rough(self, splits: Sequence[Split], quiet: dict[Split, _Run]) -> list[RatioPoint]:
        """The splits after a first look, and a second at other rates where that was not enough."""
        curves = self._look(splits, [[share * split.bound_per_s for share in _COARSE] for split in splits], 0)
        further: dict[Split, list[float]] = {}
        for split, curve in zip(splits, curves, strict=True):
            if not met(curve[0].margins):
                further[split] = [share * curve[0].rate_per_s for share in _LOWER]
            elif met(curve[-1].margins):
                last = curve[-1].rate_per_s
                way = min(max(0.1 * last, _PRUNE * split.stable_per_s - last), last) if self.steady else last
                further[split] = [last + share * way for share in _HIGHER]
        by_split: dict[Split, list[_Run]] = {}
        if further and self._affords():
            by_split = dict(zip(further, self._look(list(further), list(further.values()), 0), strict=True))
        points = []
        for split, curve in zip(splits, curves, strict=True):
            runs = sorted([*curve, *by_split.get(split, [])], key=lambda run: run.rate_per_s)
            quiet[split] = runs[0]
            points.append(self._first_point(split, runs))
        return points

    def _first_point(self, split: Split, curve: Sequence[_Run]) -> RatioPoint:
        """What a first look at some rates, ascending, says of a split."""
        crossing = crossing_of(curve)
        if crossing is not None:
            saturation = _saturation(split, crossing.margin, curve[0], _busy(curve, crossing))
            return RatioPoint(split, "rough", crossing.rate_per_s, _interval([crossing]), crossing.margin, saturation)
        if met(curve[-1].margins):  # a promise may be kept while a queue that it does not count grows without end
            kept = min(curve[-1].rate_per_s, split.stable_per_s if self.steady else math.inf)
            return RatioPoint(split, "rough", kept)
        broken = worst(curve[0].margins)
        return RatioPoint(split, "rough", None, None, broken, _saturation(split, broken, curve[0], curve[-1]))

    def _fine(self, states: Sequence["_State"], quiet: Mapping[Split, _Run]) -> None:
        """Look at some splits again, on other seeds each time, until their rates are known as well as was asked."""
        bias = 0.0
        for turn in range(_LOOKS if states else 0):
            if not self._affords():
                self.warnings.append(_ENDED)
                break
            rates = [[share * state.centre for share in _FAN] for state in states]
            for state, fan in zip(states, self._look([s.point.split for s in states], rates, turn), strict=True):
                state.take(fan, None if turn else quiet[state.point.split], self.steady)
            close = [s for s in states if s.point.order >= _CLOSE * max(state.point.order for state in states)]
            bias = max(state.bias for state in close)
            if all(state.half_width_share <= self.precision for state in close):
                break
        self.bias = max(self.bias, bias)

    def _look(self, splits: Sequence[Split], rates: Sequence[Sequence[float]], turn: int) -> list[list[_Run]]:
        """Each split at its rates, all side by side, with other seeds each turn."""
        scenarios = [
            self._sized(at_rate(split.scenario, rate), turn)
            for split, some in zip(splits, rates, strict=True)
            for rate in some
        ]
        each = len(rates[0])
        left = 0.8**self.looks  # of the way, with who knows how many looks to go
        results = run_many(scenarios, keep_requests=True, progress=part_of(self.progress, 1 - left, 0.2 * left))
        runs = [_Run.of(result, scenario) for result, scenario in zip(results, scenarios, strict=True)]
        self.looks += 1
        self.spent += sum(run.requests for run in runs)
        self.incomplete |= any(bool(result.summary["seeds_incomplete"]) for result in results)
        return [runs[place * each : (place + 1) * each] for place in range(len(splits))]

    def _sized(self, scenario: Scenario, turn: int) -> Scenario:
        first = scenario.monte_carlo.first_seed + turn * _SEEDS
        scenario = resized(scenario, seeds=_SEEDS, first_seed=first)
        if not self.steady:
            return scenario
        warmup = scenario.monte_carlo.warmup_requests or int(WARMUP * self.size)
        return resized(scenario, num_requests=self.size, warmup_requests=warmup)

    def _affords(self) -> bool:
        """Whether the budget has room for a look; there is always room for the first."""
        return not self.spent or self.spent + _AT_ONCE * len(_FAN) * _SEEDS * self.size <= self.budget


@dataclass
class _State:
    """What is known of a split that is looked at closely."""

    point: RatioPoint
    centre: float
    crossings: list[Crossing] = field(default_factory=list)
    biases: list[float] = field(default_factory=list)

    @property
    def bias(self) -> float:
        """By which share runs of half the length would say more."""
        return max(float(np.mean(self.biases)), 0.0) if self.biases else 0.0

    @property
    def half_width_share(self) -> float:
        """Half the width of the interval over the rate; infinite before there is one."""
        interval = self.point.interval if self.crossings else None
        return math.inf if interval is None else (interval.high - interval.low) / 2 / self.point.order

    def take(self, fan: Sequence[_Run], quiet: _Run | None, steady: bool) -> None:
        """Learn from a look at the rates around the centre; if the answer is not among them, move it."""
        crossing = crossing_of(fan)
        if crossing is None:
            self.centre *= _FAN[-1] if met(fan[-1].margins) else _FAN[0]
            self.crossings.clear()
            return
        if steady:
            half = crossing_of([run.first_half for run in fan])
            self.biases.append((fan[-1] if half is None else half).rate_per_s / crossing.rate_per_s - 1)
        self.crossings.append(crossing)
        self.centre = float(np.mean([one.rate_per_s for one in self.crossings]))
        split, saturation = self.point.split, self.point.saturation
        if quiet is not None:
            saturation = _saturation(split, crossing.margin, quiet, _busy(fan, crossing))
        interval = _interval([replace(of, rate_per_s=of.rate_per_s * (1 - self.bias)) for of in self.crossings])
        rate = self.centre * (1 - self.bias)
        self.point = RatioPoint(split, "fine", rate, interval, crossing.margin, saturation)


def _busy(curve: Sequence[_Run], crossing: Crossing) -> _Run:
    """The first run beyond a crossing."""
    return next(run for run in curve if run.rate_per_s > crossing.rate_per_s)


def _saturation(split: Split, broken: Margin, quiet: _Run, busy: _Run) -> Saturation:
    return saturation_of(
        split,
        broken,
        quiet.measured,
        busy.measured,
        rates_per_s=(quiet.rate_per_s, busy.rate_per_s),
        kv_utilisation=busy.result.summary["kv_utilisation"],
        inherent=any(margin.promise == broken.promise and margin.excess > 0 for margin in quiet.margins),
    )


def _interval(crossings: Sequence[Crossing]) -> Interval | None:
    """Of the mean rate of crossings of independent seeds: all together they know the variance better than each."""
    count = len(crossings)
    rate = float(np.mean([crossing.rate_per_s for crossing in crossings]))
    half = math.hypot(*(crossing.half_width for crossing in crossings)) / count
    half *= student_t_quantile(0.975, count * (_SEEDS - 1)) / student_t_quantile(0.975, _SEEDS - 1)
    return Interval(max(rate - half, 0.0), rate + half) if math.isfinite(half) else None
