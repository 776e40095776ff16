"""The best values of mixed parameters (numbers, whole numbers, choices) under the promises of the SLO.

Gradient-free: Optuna's tree-structured Parzen estimator (Bergstra et al. 2011), with the promises as its constraints
(Watanabe & Hutter 2023). Every trial serves the same requests, so trials differ by their configuration and not by luck;
the best are simulated again with more seeds, and the best of those is judged, and compared with the scenario as it was,
on seeds that no trial has seen: the best of many noisy values is too good to be true.
"""

import math
import warnings as python_warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.analysis.promises import Margin, margins, met, worst
from jaxsim.analysis.replications import part_of, replicated
from jaxsim.analysis.scenarios import changed, resized
from jaxsim.analysis.statistics import Measured, Sample, Statistic
from jaxsim.analysis.steadiness import relative_difference
from jaxsim.analysis.sweep import accelerators_of
from jaxsim.config.schema import Scenario
from jaxsim.metrics.intervals import Estimate, Interval
from jaxsim.result import Result
from jaxsim.simulate import run_many

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Space = Mapping[str, tuple[float, float] | list[Any]]
"""By key: a tuple is a range (of whole numbers if both ends are), a list are choices."""

_BATCH = 8
_FINALISTS = 4
_MORE = 4
"""How many times as many seeds finalists get."""
_LOG_RANGE = 8.0
"""Ranges whose ends are further apart than this factor are searched on a logarithmic scale."""


@dataclass(frozen=True)
class Trial:
    """One configuration that was simulated.

    Attributes:
        values: by key.
        objective: value of the objective, per accelerator where it is a rate.
        margins: of every promise.
        seeds: how many it was simulated with.
    """

    values: Mapping[str, Any]
    objective: float
    margins: tuple[Margin, ...]
    seeds: int

    @property
    def excess(self) -> float:
        """How far the worst promise is beyond its limit; negative if all are kept."""
        return worst(self.margins).excess if self.margins else -math.inf


@dataclass(frozen=True, eq=False)
class OptimiseAnswer(Answer):
    """The best configuration found.

    Attributes:
        objective: what was optimised; a rate is per accelerator.
        best: the best configuration, judged on seeds that no trial has seen.
        measured: its objective with its interval there; no interval where the statistic cannot be paired.
        change: of the objective against the scenario as it was, on the same requests; None if that is unknown.
        change_interval: its 95 % interval.
        keys: that were varied.
        trials: all, in order, with the seeds they finally had; the first is the scenario as it was.
    """

    question: ClassVar[str] = "optimise"

    objective: Statistic
    best: Trial
    measured: Measured
    change: float | None
    change_interval: Interval | None
    keys: tuple[str, ...]
    trials: tuple[Trial, ...]
    warnings: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Of the objective."""
        return f"{self.objective.label} per accelerator" if _per_accelerator(self.objective) else self.objective.label

    @property
    def sentences(self) -> list[str]:
        """See `Answer`."""
        named = [f"{key}={_shown(value)}" for key, value in self.best.values.items()]
        interval = "" if self.measured.low is None else f" ({self.measured.low:.4g} to {self.measured.high:.4g})"
        said = [
            f"Best: {', '.join(named) or 'the scenario as it is'}.",
            f"{self.label} is {self.best.objective:.4g}{interval} on {self.best.seeds:,} fresh seeds.",
        ]
        if self.change is not None and self.change_interval is not None:
            low, high = self.change_interval
            said.append(f"Against the scenario as it was: {self.change:+.1%} ({low:+.1%} to {high:+.1%}).")
        return said

    @property
    def facts(self) -> dict[str, Any]:
        """See `Answer`."""
        return {
            "objective": self.objective.name,
            "best": dict(self.best.values),
            "value": self.best.objective,
            "value_ci": [self.measured.low, self.measured.high],
            "keeps_slo": met(self.best.margins),
            "change": self.change,
            "change_ci": self.change_interval,
        }

    @property
    def rows(self) -> list[Row]:
        """A row per trial."""
        rows: list[Row] = []
        for place, trial in enumerate(self.trials):
            values = {key: trial.values.get(key) for key in self.keys}
            row: dict[str, Any] = {"trial": place, **values, self.objective.name: trial.objective}
            rows.append(row | {"met": met(trial.margins), "seeds": trial.seeds})
        return rows

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The objective of every trial, and the best so far among those that keep the SLO."""
        ax = new_axes(ax)
        places = np.arange(len(self.trials))
        values = np.array([trial.objective for trial in self.trials])
        kept = np.array([met(trial.margins) for trial in self.trials])
        ax.plot(places[kept], values[kept], "o", ms=4, color="C2", label="keeps the SLO")
        ax.plot(places[~kept], values[~kept], "x", ms=5, color="C3", label="breaks a promise")
        sign = -1 if self.objective.is_latency else 1
        so_far = np.maximum.accumulate(np.where(kept, sign * values, -np.inf))
        ax.plot(places[np.isfinite(so_far)], sign * so_far[np.isfinite(so_far)], color="C0", label="best so far")
        ax.set(xlabel="trial", ylabel=self.label)
        ax.legend(frameon=False, fontsize=8)
        return ax


def optimise(
    scenario: Scenario,
    vary: Space,
    *,
    objective: str = "goodput",
    trials: int = 64,
    progress: Callable[[float], None] | None = None,
) -> OptimiseAnswer:
    """Search the values of keys for the best objective among those that keep the SLO.

    Args:
        scenario: its `slo` constrains, its number of seeds is that of a trial (8 if it has one). It is the first trial.
        vary: a range `(low, high)` or a list of choices by key; of whole numbers where both ends are whole.
        objective: a latency is minimised; rates and shares are maximised, rates per accelerator (vary
            `workload.arrivals.rate` too, or `cluster.instances.0.count`: goodput cannot exceed what arrives).
        trials: configurations to try.
        progress: as in `run`.

    Raises:
        ScenarioError: a key or a value of the space that is not valid.
        ValueError: an unknown objective, an empty space, or Optuna is missing (`jaxsim-serving[optimise]`).
    """
    goal = Statistic.parse(objective)
    scenario, warnings = replicated(scenario)
    if scenario.monte_carlo.seeds == 1:
        scenario = resized(scenario, seeds=8)
    for key, space in vary.items():
        for value in space:
            changed(scenario, {key: value})
    judge = _Judge(scenario, goal)
    tried = _search(judge, vary, trials, part_of(progress, 0.0, 0.8))
    tried = _finals(judge, tried)
    best = tried[_order(judge, tried)[0]]
    fresh, measured, change = judge.fresh(best.values)
    if not met(fresh.margins):
        warnings.append(f"no configuration found keeps {worst(fresh.margins).label}; the best comes nearest")
    interval = None if change is None else change.interval(0.95, low=-math.inf)
    return OptimiseAnswer(
        objective=goal,
        best=fresh,
        measured=measured,
        change=None if change is None else change.value,
        change_interval=interval,
        keys=tuple(vary),
        trials=tuple(tried),
        warnings=tuple(warnings),
    )


class _Judge:
    """Simulates configurations and says what they are worth."""

    def __init__(self, scenario: Scenario, objective: Statistic) -> None:
        self.scenario = scenario
        self.objective = objective
        self.seeds = scenario.monte_carlo.seeds

    def better(self, value: float) -> float:
        """The objective as something to minimise."""
        return value if self.objective.is_latency else -value

    def trials(self, configurations: Sequence[Mapping[str, Any]], seeds: int) -> list[Trial]:
        """The configurations on the first seeds."""
        scenarios = [resized(changed(self.scenario, values), seeds=seeds) for values in configurations]
        found = []
        for values, scenario, result in zip(configurations, scenarios, self._run(scenarios), strict=True):
            value = self.objective.of(result).value
            worth = math.inf if value is None else value / self._unit(scenario)
            found.append(Trial(values, worth, tuple(margins(result)), seeds))
        return found

    def fresh(self, values: Mapping[str, Any]) -> tuple[Trial, Measured, Estimate | None]:
        """A configuration on seeds that no trial has seen, and how it differs there from the scenario as it was."""
        seeds = _MORE * self.seeds
        first = self.scenario.monte_carlo.first_seed + seeds
        pair = [
            resized(scenario, first_seed=first, seeds=seeds)
            for scenario in (changed(self.scenario, values), self.scenario)
        ]
        paired = self.objective.can_be_paired
        results = self._run(pair, paired)
        unit = self._unit(pair[0])
        of = self.objective.of(results[0])
        measured = Measured(*(None if end is None else end / unit for end in of))
        trial = Trial(values, math.inf if measured.value is None else measured.value, tuple(margins(results[0])), seeds)
        if not paired:
            return trial, measured, None
        estimates = []
        for scenario, result in zip(pair, results, strict=True):
            estimate = self.objective.estimate(Sample.of(result, scenario))
            estimates.append(estimate * (1 / self._unit(scenario)))
        return trial, measured, relative_difference(*estimates)

    def _run(self, scenarios: Sequence[Scenario], keep_requests: bool = False) -> list[Result]:
        return run_many(scenarios, keep_requests=keep_requests, percentiles=self.objective.percentiles)

    def _unit(self, scenario: Scenario) -> float:
        return float(accelerators_of(scenario)) if _per_accelerator(self.objective) else 1.0


def _search(judge: _Judge, vary: Space, trials: int, progress: Callable[[float], None] | None) -> list[Trial]:
    """Ask Optuna for a batch at a time; its suggestions do not depend on timing."""
    try:
        import optuna
    except ImportError:
        raise ValueError("optimise needs Optuna: pip install 'jaxsim-serving[optimise]'") from None
    if not vary or trials < 1:
        raise ValueError("vary must name at least one key and trials must be 1 or more")
    distributions = {key: _distribution(optuna.distributions, space) for key, space in vary.items()}
    verbosity = optuna.logging.get_verbosity()
    tried: list[Trial] = []
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore")  # Optuna marks constraints as experimental
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            sampler = optuna.samplers.TPESampler(
                seed=1, multivariate=True, constraints_func=lambda frozen: (frozen.user_attrs["excess"],)
            )
            study = optuna.create_study(sampler=sampler, direction="minimize")
            first: list[dict[str, Any]] = [{}]  # the scenario as it is, which the space need not hold
            while len(tried) < trials:
                asked = [study.ask(distributions) for _ in range(min(_BATCH, trials - len(tried)) - len(first))]
                found = judge.trials([*first, *(dict(trial.params) for trial in asked)], judge.seeds)
                for trial, outcome in zip(asked, found[len(first) :], strict=True):
                    trial.set_user_attr("excess", min(max(outcome.excess, -1e9), 1e9))
                    study.tell(trial, min(judge.better(outcome.objective), 1e300))
                tried += found
                first = []
                if progress:
                    progress(len(tried) / trials)
        finally:
            optuna.logging.set_verbosity(verbosity)
    return tried


def _finals(judge: _Judge, tried: Sequence[Trial]) -> list[Trial]:
    """The trials, the best of them simulated again with more seeds."""
    places = _order(judge, tried)[:_FINALISTS]
    again = judge.trials([tried[place].values for place in places], _MORE * judge.seeds)
    better = dict(zip(places, again, strict=True))
    return [better.get(place, trial) for place, trial in enumerate(tried)]


def _order(judge: _Judge, tried: Sequence[Trial]) -> list[int]:
    """Places of the trials, the best first: those with more seeds, that keep the SLO, by objective; else by excess."""

    def rank(place: int) -> tuple[float, ...]:
        trial = tried[place]
        kept = met(trial.margins)
        return (-trial.seeds, not kept, judge.better(trial.objective) if kept else trial.excess, place)

    return sorted(range(len(tried)), key=rank)


def _distribution(kinds: Any, space: tuple[float, float] | list[Any]) -> Any:
    """Optuna's distribution of a space."""
    if isinstance(space, list):
        return kinds.CategoricalDistribution(space)
    low, high = space
    log = low > 0 and high / low >= _LOG_RANGE
    if isinstance(low, int) and isinstance(high, int):
        return kinds.IntDistribution(low, high, log=log)
    return kinds.FloatDistribution(low, high, log=log)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _per_accelerator(objective: Statistic) -> bool:
    return objective.metric.endswith("_per_s")
