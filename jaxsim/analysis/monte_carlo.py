"""Run until it is known well enough: seeds for noise, length for bias.

Two errors need two remedies. *Noise* falls with more seeds, and the interval over seeds shows it. *Initial bias* does
not: every seed starts empty, so a short run reads low however many seeds there are. A steady-state run is therefore cut
at its warm-up (MSER-5) and lengthened until its statistics no longer drift; a terminating run (a trace, a working day)
is measured from its start to its end, because that is what it is about. Where the scenario says `start: warm`, every
seed starts as if the fleet had run for ever: nothing is cut, and that nothing drifts is still checked.

The number of seeds is not found by looking again and again, which would make intervals too narrow, but from a pilot
run, with a margin (Stein 1945). The run that counts starts afresh and has a fixed size.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.analysis.replications import Horizon, few_lane_counts, horizon_of, part_of, replicated
from jaxsim.analysis.scenarios import resized, size_of
from jaxsim.analysis.statistics import Measured, Sample, Statistic, percentiles_of
from jaxsim.analysis.steadiness import Drift, Growth, drift_of, growth_of, warmup_of
from jaxsim.config.schema import Scenario
from jaxsim.job import FEWEST_CLUSTERS
from jaxsim.mean_field import past_of
from jaxsim.result import Result
from jaxsim.simulate import KEPT_REQUESTS, run
from jaxsim.workload.random import STRATA

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PILOT_SEEDS = 32
MAX_REQUESTS = 20_000_000
"""Default budget: simulated requests, the pilot's included."""

MOST_SEEDS = 128
"""Seeds beyond which a steady-state run takes longer seeds rather than more of them: the same cost, and less bias."""

_MARGIN = 1.2
"""Seeds beyond the estimate of a pilot of 32 seeds, whose interval width is uncertain by an eighth."""
_WINDOWS = 10


@dataclass(frozen=True)
class Target:
    """A statistic that was to be known to some precision.

    Attributes:
        statistic: which.
        precision: half-width of the 95 % interval asked for, relative to the value.
        measured: value and interval of the run that counts.
        drift: along that run; None where it cannot be told.
        needed_requests: requests per seed for a bias of at most half the precision; None if the run is long enough or
            terminating.
    """

    statistic: Statistic
    precision: float
    measured: Measured
    drift: Drift | None
    needed_requests: int | None

    @property
    def met(self) -> bool:
        """Whether the interval is narrow enough."""
        half = self.measured.half_width_share
        return half is not None and half <= self.precision


@dataclass(frozen=True, eq=False)
class MonteCarloAnswer(Answer):
    """A run of the size that some precision needs.

    Attributes:
        result: the run that counts; its summary has every statistic.
        horizon: `steady`: of a system that has run for ever; `terminating`: from the empty start to the last request.
        targets: the statistics that were to be known well enough.
        growth: of the number of requests in the system.
        warmup_requests: requests at the start of each seed that are not measured.
        num_requests: requests of each seed.
        past_requests: requests that are simulated before each seed, for it to start warm; 0: it starts empty.
        simulated_requests: of all runs, pilots and what came before each seed included.
        along: each target's value in ten parts of the run, with its interval.
    """

    question: ClassVar[str] = "monte_carlo"

    result: Result
    horizon: Horizon
    targets: tuple[Target, ...]
    growth: Growth
    warmup_requests: int
    num_requests: int
    past_requests: int
    simulated_requests: int
    along: Mapping[str, Sequence[Measured]] = field(repr=False)
    warnings: tuple[str, ...] = ()
    incomplete: bool = False

    @property
    def met(self) -> bool:
        """Whether every statistic is known well enough."""
        return all(target.met for target in self.targets)

    @property
    def sentences(self) -> list[str]:
        """See `Answer`."""
        said = []
        for target in self.targets:
            value, low, high = target.measured
            half = target.measured.half_width_share
            if value is None or low is None or high is None or half is None:
                said.append(f"{target.statistic.label}: nothing measured.")
                continue
            enough = "" if target.met else f", not the {target.precision:.2g} that was asked for"
            said.append(f"{target.statistic.label} is {value:.4g} ({low:.4g} to {high:.4g}), ±{half:.1%}{enough}.")
        seeds = self.result.summary["seeds"]
        if self.past_requests:
            kind = f"from a start after {self.past_requests:,} others"
        elif self.horizon == "steady":
            kind = f"after {self.warmup_requests:,} of warm-up"
        else:
            kind = "from the empty start on"
        said.append(f"{seeds:,} seeds of {self.num_requests:,} requests, {self.horizon}: measured {kind}.")
        return said

    @property
    def facts(self) -> dict[str, Any]:
        """See `Answer`."""
        return {
            "met": self.met,
            "horizon": self.horizon,
            "seeds": self.result.summary["seeds"],
            "num_requests": self.num_requests,
            "warmup_requests": self.warmup_requests,
            "past_requests": self.past_requests,
            "simulated_requests": self.simulated_requests,
            "queue_growth_per_s": self.growth.per_s,
            "overloaded": self.growth.overloaded,
        }

    @property
    def rows(self) -> list[Row]:
        """A row per statistic that was asked for."""
        return [
            {
                "statistic": target.statistic.name,
                "value": target.measured.value,
                "low": target.measured.low,
                "high": target.measured.high,
                "half_width_share": target.measured.half_width_share,
                "precision_share": target.precision,
                "met": target.met,
                "drift_change": None if target.drift is None else _finite(target.drift.whole_run),
                "needed_requests": target.needed_requests,
            }
            for target in self.targets
        ]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Each statistic along the run: a steady one is level."""
        ax = new_axes(ax)
        colours = [f"C{place}" for place in range(len(self.targets))]
        for target, colour in zip(self.targets, colours, strict=True):
            whole, parts = target.measured, self.along.get(target.statistic.name, ())
            share = (np.arange(len(parts)) + 0.5) / len(parts)
            values = np.array([part.value or np.nan for part in parts], float)
            ends = np.array([[part.low or np.nan, part.high or np.nan] for part in parts], float).T
            ax.errorbar(
                share, values, np.abs(ends - values), fmt="o-", ms=4, color=colour, label=target.statistic.label
            )
            if whole.low is not None and whole.high is not None:
                ax.axhspan(whole.low, whole.high, color=colour, alpha=0.2, lw=0)
        ax.set(xlabel="part of the measured run", ylabel="value (s, or share)", xlim=(0, 1))
        ax.set_ylim(bottom=0)
        ax.set_title("95 % intervals; band: the whole run", fontsize=9, loc="left")
        ax.legend(frameon=False, fontsize=8, loc="lower right")
        return ax


def monte_carlo(
    scenario: Scenario,
    precision: Mapping[str, float],
    *,
    horizon: Horizon | Literal["auto"] = "auto",
    max_requests: int = MAX_REQUESTS,
    pilot_seeds: int = PILOT_SEEDS,
    notify: Callable[[str], None] = lambda sentence: None,
    progress: Callable[[float], None] | None = None,
) -> MonteCarloAnswer:
    """Simulate until statistics are known to a precision.

    Args:
        scenario: its `seeds` are not used. A warm-up that it gives is kept, else it is detected, unless it starts
            warm. A trace that is not resampled is replayed in blocks, so that seeds differ.
        precision: half-width of the 95 % interval relative to the value, by statistic: `{"ttft_s.p99": 0.02}`.
        horizon: `steady` cuts the warm-up and lengthens the run until it does not drift; `terminating` takes the run as
            it is. `auto`: steady for synthetic arrivals with a long-run rate, terminating otherwise, or if overloaded.
        max_requests: most requests to simulate in all.
        pilot_seeds: seeds of the runs that find length and number of seeds.
        notify: told what the run will cost before it starts.
        progress: as in `run`.

    Returns:
        The answer; `answer.met` is false if the budget ended first. Repeated, it is the same to the last bit.

    Raises:
        ScenarioError: the scenario cannot be simulated.
        ValueError: an unknown statistic, or a precision that is none.
    """
    targets = _targets(precision)
    percentiles = percentiles_of(targets)
    scenario, warnings = replicated(scenario)
    past = past_of(scenario).requests if scenario.monte_carlo.start == "warm" else 0
    if past:  # seeds no shorter than what comes before them, which is not measured
        settings = dataclasses.replace(scenario.monte_carlo, past_requests=past)
        longer = max(size_of(scenario), past)
        scenario = resized(dataclasses.replace(scenario, monte_carlo=settings), num_requests=longer)
    most_seeds = MOST_SEEDS
    if scenario.monte_carlo.draws == "stratified":  # groups of seeds are the clusters
        pilot_seeds, most_seeds = max(pilot_seeds, FEWEST_CLUSTERS * STRATA), 4 * MOST_SEEDS
    pilot = _Pilot(scenario, list(targets), horizon_of(scenario, horizon), pilot_seeds, max_requests, warnings)
    pilot.settle(part_of(progress, 0.0, 0.3))
    scenario, answer, sample, spent = pilot.scenario, pilot.result, pilot.sample, pilot.simulated
    while True:
        size, seeds = _size(answer), scenario.monte_carlo.seeds
        enough = _needed_requests(answer, scenario, targets)
        least = math.ceil(enough / most_seeds)
        longer = _needed_size(sample, targets, size, least) if pilot.horizon == "steady" else size
        needed = few_lane_counts(max(math.ceil(enough / longer), min(seeds, pilot_seeds)))
        affordable = min(needed, (max_requests - spent) // (longer + past))
        if affordable * longer <= seeds * size:
            break
        notify(_cost(targets, affordable, needed, longer, past, answer))
        scenario = resized(scenario, seeds=affordable, num_requests=longer)
        keep = affordable * longer <= KEPT_REQUESTS
        answer = run(scenario, keep_requests=keep, progress=part_of(progress, 0.3, 0.7), percentiles=percentiles)
        sample = _sample(answer, scenario)
        spent += affordable * (longer + past)
    return _answer(answer, scenario, targets, pilot, sample, spent)


def _needed_requests(answer: Result, scenario: Scenario, targets: Mapping[Statistic, float]) -> int:
    """Requests in all for every interval to be narrow enough: widths fall with the root of their number."""
    simulated = needed = int(answer.summary["num_requests"])
    for statistic, share in targets.items():
        half = statistic.of(answer, scenario).half_width_share
        if half is not None and half > share:
            needed = max(needed, math.ceil(simulated * max(_MARGIN * (half / share) ** 2, 1.25)))
    return needed


def _needed_size(sample: Sample, targets: Mapping[Statistic, float], size: int, least: int) -> int:
    """Requests of a seed: so many that no statistic drifts noticeably, and `least`."""
    factors = [
        drift_of(sample, statistic).needed_factor(share / 2)
        for statistic, share in targets.items()
        if statistic.can_be_cut
    ]
    factor = max(factors, default=1.0)
    steady = size if factor <= 1 else math.ceil(size * min(max(1.2 * factor, 2.0), 8.0))
    return max(steady, least)


def _sample(answer: Result, scenario: Scenario) -> Sample:
    """The measured requests of a run; where it is too large to keep them, of as many of its seeds as can be kept."""
    if answer.requests is None:
        scenario = resized(scenario, seeds=max(KEPT_REQUESTS // 4 // _size(answer), 2))
        answer = run(scenario, keep_requests=True)
        assert answer.requests is not None
    return Sample.of(answer, scenario)


def _answer(
    answer: Result,
    scenario: Scenario,
    targets: Mapping[Statistic, float],
    pilot: "_Pilot",
    sample: Sample,
    spent: int,
) -> MonteCarloAnswer:
    warnings, size = list(pilot.warnings), _size(answer)
    found = []
    for statistic, share in targets.items():
        drift = drift_of(sample, statistic) if statistic.can_be_cut else None
        longer = None
        if drift is not None and pilot.horizon == "steady":
            factor = drift.needed_factor(share / 2)
            if factor > 1:
                longer = math.ceil(factor * size)
                more = "at least " if drift.still_moves else "about "
                warnings.append(
                    f"{statistic.label} drifts along the run: over the whole run it is {drift.whole_run:+.1%} from its "
                    f"last half. No interval shows that; {more}{longer:,} requests a seed are needed"
                )
        found.append(Target(statistic, share, statistic.of(answer, scenario), drift, longer))
    missed = [target for target in found if not target.met]
    if missed:
        names = ", ".join(target.statistic.label for target in missed)
        warnings.append(f"the budget of requests ended before {names} was known well enough")
    along = {
        statistic.name: [
            statistic.measure(sample.part(part / _WINDOWS, (part + 1) / _WINDOWS)) for part in range(_WINDOWS)
        ]
        for statistic in targets
        if statistic.can_be_cut
    }
    return MonteCarloAnswer(
        result=answer,
        horizon=pilot.horizon,
        targets=tuple(found),
        growth=pilot.growth,
        warmup_requests=scenario.monte_carlo.warmup_requests,
        num_requests=size,
        past_requests=scenario.monte_carlo.past_requests or 0,
        simulated_requests=spent,
        along=along,
        warnings=tuple(warnings),
        incomplete=bool(answer.summary["seeds_incomplete"]),
    )


class _Pilot:
    """A small run that finds how long the seeds must be.

    Attributes:
        scenario: the scenario at that length, with its warm-up.
        result: the pilot's last run.
        sample: its measured requests.
        horizon: steady or terminating.
        growth: of the number in the system.
        simulated: requests simulated so far.
        warnings: what was found.
    """

    def __init__(
        self,
        scenario: Scenario,
        statistics: Sequence[Statistic],
        horizon: Horizon,
        seeds: int,
        budget: int,
        warnings: list[str],
    ) -> None:
        self.scenario = resized(scenario, seeds=seeds)
        self.horizon = horizon
        self.warnings = warnings
        self.simulated = 0
        self._targets = statistics
        self._statistics = [statistic for statistic in statistics if statistic.can_be_cut]
        self._given_warmup = scenario.monte_carlo.warmup_requests
        self._past = scenario.monte_carlo.past_requests or 0
        self._budget = budget

    @property
    def num_requests(self) -> int:
        """Requests per seed."""
        return self._table.num_requests

    def settle(self, progress: Callable[[float], None] | None) -> None:
        """Lengthen the run until it is steady, if it is to be, and the budget allows."""
        self._simulate(progress)
        self.growth = growth_of(self._table)
        while self.horizon == "steady":
            if self.growth.overloaded:
                self.horizon = "terminating"
                self.warnings.append(self.growth.sentence)
                self.scenario = resized(self.scenario, warmup_requests=self._given_warmup)
                self._simulate(progress)
                return
            warmup, settled = self._warmup()
            if not settled and not self._lengthen(4.0, progress):
                self.warnings.append(
                    "the seeds are too short to tell their warm-up, and the budget allows no longer ones"
                )
                return
            if not settled:
                continue
            self.scenario = resized(self.scenario, warmup_requests=warmup)
            self._simulate(None)
            factor = max((drift_of(self.sample, s).needed_factor(0.02) for s in self._statistics), default=1.0)
            if factor <= 1 or not self._lengthen(min(max(factor, 2.0), 8.0), progress):
                return

    def _lengthen(self, factor: float, progress: Callable[[float], None] | None) -> bool:
        """Make the seeds longer and run them, unless that would take more than a quarter of the budget."""
        longer = math.ceil(factor * self.num_requests)
        if (longer + self._past) * self.scenario.monte_carlo.seeds > self._budget / 4:
            return False
        self.scenario = resized(self.scenario, num_requests=longer, warmup_requests=self._given_warmup)
        self._simulate(progress)
        self.growth = growth_of(self._table)
        return True

    def _warmup(self) -> tuple[int, bool]:
        known = self._given_warmup or self._past
        return (self._given_warmup, True) if known else warmup_of(self._table)

    def _simulate(self, progress: Callable[[float], None] | None) -> None:
        self.result = run(
            self.scenario, keep_requests=True, progress=progress, percentiles=percentiles_of(self._targets)
        )
        assert self.result.requests is not None
        self._table = self.result.requests
        self.simulated += self._table.arrival_s.size + self._past * self._table.num_seeds
        self.sample = Sample.of(self.result, self.scenario)


def _targets(precision: Mapping[str, float]) -> dict[Statistic, float]:
    if not precision:
        raise ValueError("precision must name at least one statistic, such as {'ttft_s.p99': 0.02}")
    for name, share in precision.items():
        if not 0 < share < 1:
            raise ValueError(f"precision of {name} must be a share between 0 and 1, such as 0.02, not {share!r}")
    return {Statistic.parse(name): share for name, share in precision.items()}


def _cost(targets: Mapping[Statistic, float], seeds: int, needed: int, size: int, past: int, pilot: Result) -> str:
    """What the coming run takes, told before it starts."""
    simulated = pilot.summary["num_requests"] + past * pilot.summary["seeds"]
    rate = simulated / max(pilot.manifest["run_seconds"], 1e-9)
    what = ", ".join(f"{statistic.label} to ±{share:.2g}" for statistic, share in targets.items())
    after = f" after {past:,} others" if past else ""
    limited = f" (the budget allows {seeds:,})" if seeds < needed else ""
    return (
        f"{what}: about {needed:,} seeds of {size:,} requests{after}{limited}, {seeds * (size + past):,} in all, "
        f"roughly {seeds * (size + past) / rate:.0f} s at the pilot's {rate:,.0f} requests/s, plus compiling"
    )


def _size(answer: Result) -> int:
    """Requests of each seed of a run."""
    return int(answer.summary["num_requests"] // answer.summary["seeds"])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
