"""Which knob matters? Elasticities at the scenario, or Morris screening and Sobol indices over ranges.

Every point serves the same requests (common random numbers), so what differs between points is the knob, not chance. No
gradients: batch boundaries, admissions and preemptions jump.

* `elasticity`: by how many percent a statistic moves when a key moves by one percent, from a central difference of
  paired seeds, with its interval. Includes `clock`: every iteration takes one percent longer.
* `morris`: elementary effects along random trajectories over ranges (Morris 1991; mu* of Campolongo et al. 2007): a
  cheap ranking of many keys.
* `sobol`: shares of the variance over ranges that a key explains alone (first order) and with all its interactions
  (total) (Sobol 2001; Saltelli et al. 2010).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.analysis.replications import replicated
from jaxsim.analysis.scenarios import changed, slower_clock
from jaxsim.analysis.statistics import UNPAIRED, Sample, Statistic
from jaxsim.config.errors import ScenarioError
from jaxsim.config.io import dump_scenario
from jaxsim.config.schema import Scenario
from jaxsim.metrics.intervals import Estimate
from jaxsim.simulate import run_each

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Method = Literal["elasticity", "morris", "sobol"]
Ranges = Mapping[str, tuple[float, float]]
Evaluate = Callable[[np.ndarray], np.ndarray]
"""From points `[P, K]` to the statistic at each, `[P]`."""

CLOCK = "clock"
"""The key that stands for the time of every iteration."""

_STEP = 0.05
_SPREAD = 0.2
"""Ranges around the scenario's own values where none are given."""

_KNOBS = ("max_num_batched_tokens", "max_num_seqs", "num_blocks")
_BOUNDS = ("min", "max", "num_requests", "limit")


@dataclass(frozen=True)
class Effect:
    """How much a key matters.

    Attributes:
        key: which.
        value: elasticity, mu*, or total Sobol index: what the ranking goes by (in size).
        low: lower end of its 95 % interval; None if it has none.
        high: upper end.
        more: further columns of the method.
    """

    key: str
    value: float
    low: float | None
    high: float | None
    more: Mapping[str, float | None]


@dataclass(frozen=True, eq=False)
class SensitivityAnswer(Answer):
    """Keys by how much a statistic moves with them, the most first.

    Attributes:
        method: how it was found.
        statistic: what moves.
        effects: ranked.
        runs: points that were simulated.
    """

    question: ClassVar[str] = "sensitivity"

    method: Method
    statistic: Statistic
    effects: tuple[Effect, ...]
    runs: int
    warnings: tuple[str, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """See `Answer`."""
        name, first = self.statistic.label, self.effects[0]
        said = [f"{name} moves most with {first.key}."]
        if self.method != "elasticity":
            return said
        for effect in self.effects[:3]:
            what = "a 1 % slower clock" if effect.key == CLOCK else f"{effect.key} 1 % up"
            interval = "" if effect.low is None else f" ({effect.low:+.2f} to {effect.high:+.2f} %)"
            said.append(f"{what} moves {name} by {effect.value:+.2f} %{interval}.")
        if CLOCK not in [effect.key for effect in self.effects[:3]]:
            clock = next((effect for effect in self.effects if effect.key == CLOCK), None)
            if clock is not None:
                said.append(f"a 1 % slower clock moves it by {clock.value:+.2f} %.")
        return said

    @property
    def facts(self) -> dict[str, Any]:
        """See `Answer`."""
        return {"method": self.method, "statistic": self.statistic.name, "runs": self.runs}

    @property
    def rows(self) -> list[Row]:
        """A row per key, ranked."""
        column = _COLUMNS[self.method]
        return [
            {"key": effect.key, column: effect.value, f"{column}_low": effect.low, f"{column}_high": effect.high}
            | dict(effect.more)
            for effect in self.effects
        ]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """A bar per key, ranked, with intervals."""
        ax = new_axes(ax, height=1.2 + 0.3 * len(self.effects))
        places = range(len(self.effects))
        values = np.array([effect.value for effect in self.effects])
        ends = np.array([[_or(effect.low, effect.value), _or(effect.high, effect.value)] for effect in self.effects])
        ax.barh(places, values, color=["C0" if value >= 0 else "C1" for value in values], height=0.65)
        ax.errorbar(values, places, xerr=np.abs(ends.T - values), fmt="none", ecolor="k", lw=1)
        if self.method == "sobol":
            first_order = [_or(effect.more["first_order"], 0.0) for effect in self.effects]
            ax.plot(first_order, places, "D", color="k", ms=4, label="first order")
            ax.legend(frameon=False, fontsize=8)
        ax.set_yticks(places, [effect.key for effect in self.effects], fontsize=8)
        ax.invert_yaxis()
        ax.axvline(0, color="k", lw=0.8)
        ax.set_xlabel(f"{_AXES[self.method]} of {self.statistic.label}")
        return ax


_COLUMNS: Mapping[Method, str] = {"elasticity": "elasticity", "morris": "mu_star", "sobol": "total"}
_AXES: Mapping[Method, str] = {
    "elasticity": "elasticity (% per %)",
    "morris": "mean size of an elementary effect (mu*)",
    "sobol": "total Sobol index",
}


def sensitivity(
    scenario: Scenario,
    vary: Sequence[str] | Ranges | None = None,
    *,
    method: Method = "elasticity",
    statistic: str = "ttft_s.p99",
    samples: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> SensitivityAnswer:
    """How a statistic moves with the keys of a scenario.

    Args:
        scenario: it says how many seeds each point has.
        vary: keys, or ranges by key (`{"workload.arrivals.rate": (4, 8)}`) for `morris` and `sobol`, which otherwise
            take 20 % to each side. By default every number of the workload, latency, scheduler budgets and KV pool,
            and (elasticity) `clock`.
        method: `elasticity`, `morris` or `sobol` (the last two need `pip install 'jaxsim-serving[sensitivity]'`).
        statistic: what moves; elasticities need a latency, `slo_attainment` or `goodput`.
        samples: trajectories of `morris` (10 by default), base samples of `sobol` (64; a power of two). They take
            samples x (keys + 1) and samples x (keys + 2) points.
        progress: as in `run`.

    Raises:
        ScenarioError: a key that is not valid, or a value in its range.
        ValueError: an unknown method or statistic, or SALib is missing.
    """
    if method not in _COLUMNS:
        raise ValueError(f"method must be elasticity, morris or sobol, not {method!r}")
    scenario, warnings = replicated(scenario)
    of = Statistic.parse(statistic)
    keys = list(vary) if vary is not None else [*numeric_keys(scenario), *([CLOCK] if method == "elasticity" else [])]
    if not keys:
        raise ValueError("vary must name at least one key")
    if method == "elasticity":
        effects, more = _elasticities(scenario, keys, of, progress)
        return SensitivityAnswer(method, of, _ranked(effects), 2 * len(keys), (*warnings, *more))
    if isinstance(vary, Mapping):
        ranges: Ranges = vary
    else:
        ranges = {key: ((1 - _SPREAD) * value, (1 + _SPREAD) * value) for key, value in _values(scenario, keys).items()}
    evaluate = _simulated(scenario, list(ranges), of, progress)
    find, default = (morris, 10) if method == "morris" else (sobol, 64)
    effects, runs = find(evaluate, ranges, samples or default)
    return SensitivityAnswer(method, of, _ranked(effects), runs, tuple(warnings))


def numeric_keys(scenario: Scenario) -> list[str]:
    """The keys that can be turned: numbers other than 0 of arrivals, lengths, latency, budgets and KV pool."""
    data = dump_scenario(scenario)
    found = [key for key in _leaves(data["workload"], "workload") if key.rpartition(".")[2] not in _BOUNDS]
    groups = data["cluster"]["instances"]
    for place, instance in enumerate(groups):
        at = f"cluster.instances.{place}." if len(groups) > 1 else ""
        found += _leaves(instance["latency"], f"{at}latency")
        for section in ("scheduler", "kv_cache"):
            found += [key for key in _leaves(instance[section], f"{at}{section}") if key.endswith(_KNOBS)]
    return found


def morris(evaluate: Evaluate, ranges: Ranges, trajectories: int) -> tuple[list[Effect], int]:
    """Morris screening of any function: mu* and its interval, sigma; and how many points it took."""
    sample, analyse = _salib("morris")
    problem = _problem(ranges)
    points = sample(problem, trajectories, num_levels=4, seed=1)
    found = analyse(problem, points, evaluate(points), conf_level=0.95, seed=1)
    columns = zip(ranges, found["mu_star"], found["mu_star_conf"], found["mu"], found["sigma"], strict=True)
    return [
        Effect(key, float(star), float(star - conf), float(star + conf), {"mu": float(mu), "sigma": float(sigma)})
        for key, star, conf, mu, sigma in columns
    ], len(points)


def sobol(evaluate: Evaluate, ranges: Ranges, samples: int) -> tuple[list[Effect], int]:
    """Sobol indices of any function: total and first order with intervals; and how many points it took.

    Raises:
        ValueError: `samples` is not a power of two.
    """
    if samples < 2 or samples & (samples - 1):
        raise ValueError(f"samples must be a power of two, such as 64, not {samples!r}")
    sample, analyse = _salib("sobol")
    problem = _problem(ranges)
    points = sample(problem, samples, calc_second_order=False, seed=1)
    values = evaluate(points)
    if np.ptp(values) == 0:
        none = {"first_order": 0.0, "first_order_low": 0.0, "first_order_high": 0.0}
        return [Effect(key, 0.0, 0.0, 0.0, none) for key in ranges], len(points)
    found = analyse(problem, values, calc_second_order=False, conf_level=0.95, seed=1)
    columns = zip(ranges, found["ST"], found["ST_conf"], found["S1"], found["S1_conf"], strict=True)
    return [
        Effect(
            key,
            float(total),
            float(total - total_conf),
            float(total + total_conf),
            {
                "first_order": float(first),
                "first_order_low": float(first - first_conf),
                "first_order_high": float(first + first_conf),
            },
        )
        for key, total, total_conf, first, first_conf in columns
    ], len(points)


def _elasticities(
    scenario: Scenario, keys: Sequence[str], statistic: Statistic, progress: Callable[[float], None] | None
) -> tuple[list[Effect], list[str]]:
    if not statistic.can_be_paired:
        raise ValueError(f"{statistic.name} {UNPAIRED}")
    values = _values(scenario, [key for key in keys if key != CLOCK])
    effects, warnings = [], []
    pairs: dict[str, tuple[_Turned, _Turned]] = {}
    for key in keys:
        try:
            up, down = (_turned(scenario, key, values.get(key, 1.0), sign * _STEP) for sign in (1, -1))
            pairs[key] = up, down
        except ScenarioError as error:
            warnings.append(f"{key} was left out: {error}")
    both = [turned.scenario for pair in pairs.values() for turned in pair]
    results = run_each(both, keep_requests=True, progress=progress)
    for key, pair in pairs.items():
        logs = []
        for turned in pair:
            estimate = statistic.estimate(Sample.of(next(results), turned.scenario))
            logs.append(_log(estimate * turned.unit_of(statistic)))
        step = math.log(pair[0].value / pair[1].value)
        effect = Estimate((logs[0].value - logs[1].value) / step, (logs[0].influence - logs[1].influence) / step)
        interval = effect.interval(0.95, low=-math.inf)
        if not math.isfinite(effect.value):
            warnings.append(f"{key} was left out: {statistic.label} is 0 there, which has no elasticity")
            continue
        low, high = interval or (None, None)
        effects.append(Effect(key, effect.value, low, high, {"at": values.get(key)}))
    if not effects:
        raise ValueError("no key has an elasticity: " + "; ".join(warnings))
    return effects, warnings


@dataclass(frozen=True)
class _Turned:
    """The scenario with a key turned: its value there, and the unit of seconds of the scenario that stands for it."""

    scenario: Scenario
    value: float
    seconds: float = 1.0

    def unit_of(self, statistic: Statistic) -> float:
        """By what to multiply a statistic of the scenario."""
        if statistic.is_latency:
            return self.seconds
        return 1 / self.seconds if statistic.metric.endswith("_per_s") else 1.0


def _turned(scenario: Scenario, key: str, value: float, share: float) -> _Turned:
    if key == CLOCK:
        slower, seconds = slower_clock(scenario, 1 + share)
        return _Turned(slower, 1 + share, seconds)
    turned: float = value * (1 + share)
    if isinstance(value, int):
        turned = value + (1 if share > 0 else -1) * max(round(abs(share) * value), 1)
    return _Turned(changed(scenario, {key: turned}), turned)


def _log(estimate: Estimate) -> Estimate:
    if not estimate.value > 0:
        return Estimate(math.nan, np.full(len(estimate.influence), math.nan))
    return Estimate(math.log(estimate.value), estimate.influence / estimate.value)


def _simulated(
    scenario: Scenario, keys: Sequence[str], statistic: Statistic, progress: Callable[[float], None] | None
) -> Evaluate:
    """The statistic of the scenario as a function of the values of keys; whole numbers where the scenario has them."""
    whole = {key for key, value in _values(scenario, keys).items() if isinstance(value, int)}

    def evaluate(points: np.ndarray) -> np.ndarray:
        rows = ([round(v) if k in whole else v for k, v in zip(keys, row, strict=True)] for row in points.tolist())
        scenarios = [changed(scenario, dict(zip(keys, row, strict=True))) for row in rows]
        results = run_each(scenarios, progress=progress, percentiles=statistic.percentiles)
        return np.array([statistic.of(result).value or 0.0 for result in results])

    return evaluate


def _values(scenario: Scenario, keys: Sequence[str]) -> dict[str, float]:
    """The numbers that keys have."""
    values = {}
    for key in keys:
        node: Any = dump_scenario(scenario)
        path = key.split(".")
        if path[0] not in node:
            path = ["cluster", "instances", "0", *path]
        try:
            for part in path:
                node = node[int(part)] if isinstance(node, list) else node[part]
        except (KeyError, IndexError, ValueError, TypeError):
            changed(scenario, {key: 1})  # names what is valid
            raise ScenarioError("has no value to start from", key) from None
        if isinstance(node, bool) or not isinstance(node, int | float) or node == 0:
            raise ScenarioError(f"must be a number other than 0 to be varied, not {node!r}", key)
        values[key] = node
    return values


def _leaves(data: Any, at: str) -> list[str]:
    """Paths of the numbers other than 0 in plain data."""
    if isinstance(data, Mapping):
        return [leaf for key, value in data.items() for leaf in _leaves(value, f"{at}.{key}")]
    is_number = isinstance(data, int | float) and not isinstance(data, bool)
    return [at] if is_number and data else []


def _problem(ranges: Ranges) -> dict[str, Any]:
    for key, (low, high) in ranges.items():
        if not low < high:
            raise ValueError(f"the range of {key} must go from a lower to a higher value, not {low!r} to {high!r}")
    return {"num_vars": len(ranges), "names": list(ranges), "bounds": [list(ends) for ends in ranges.values()]}


def _salib(method: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """SALib's sampler and analyser."""
    try:
        if method == "morris":
            from SALib.analyze import morris as analysis
            from SALib.sample import morris as sampling
        else:
            from SALib.analyze import sobol as analysis
            from SALib.sample import sobol as sampling
    except ImportError:
        raise ValueError(f"{method} needs SALib: pip install 'jaxsim-serving[sensitivity]'") from None
    return sampling.sample, analysis.analyze


def _ranked(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    return tuple(sorted(effects, key=lambda effect: -abs(effect.value)))


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
