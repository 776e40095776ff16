"""Which fidelity is enough? One workload by ever better models, each with its error against the simulation.

| rung | what it knows |
|---|---|
| fixed batch | every slot full at the mean context, for ever: the TPOT that a static benchmark quotes |
| initial batch | the mean batch, with contexts as they are at the first decode step |
| mean lengths | the simulation of requests that all have the mean prompt and the mean output |
| mean field | batch and iteration time in balance with the arrivals (`jaxsim.mean_field`) |
| M/M/c | slots as servers at the mean iteration time |
| simulation | every request, every iteration |
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.analysis.queueing import check_unified, forms_of
from jaxsim.analysis.replications import part_of, replicated
from jaxsim.analysis.statistics import Statistic
from jaxsim.config.errors import ScenarioError
from jaxsim.config.schema import Scenario
from jaxsim.mean_field import FleetField, Mix, mix_of
from jaxsim.simulate import run
from jaxsim.workload import Synthetic
from jaxsim.workload.lengths import Fixed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RULE = (
    "To choose a parallel layout, the mean batch and a closed form suffice. For a P99 or SLO attainment, a batching "
    "policy or a prefill:decode ratio, only the simulation will do."
)

_SEEDS = 16
_COLUMNS = ("ttft_s.mean", "ttft_s.p99", "tpot_s.mean", "tpot_s.p99")
_GOOD = 0.1
"""Relative error up to which an estimate is called enough."""


@dataclass(frozen=True)
class Rung:
    """One model of the workload.

    Attributes:
        name: of the model.
        values: seconds by statistic; None where the model does not say.
    """

    name: str
    values: Mapping[str, float | None]


@dataclass(frozen=True, eq=False)
class ExplainAnswer(Answer):
    """A ladder of models of one workload, the simulation last.

    Attributes:
        rungs: from the crudest to the simulation.
        intervals: 95 % intervals of the simulation, by statistic.
        load: arrival rate over what the fleet bears in the mean.
    """

    question: ClassVar[str] = "explain"

    rungs: tuple[Rung, ...]
    intervals: Mapping[str, Sequence[float | None] | None]
    load: float
    warnings: tuple[str, ...] = ()
    incomplete: bool = False

    def error(self, rung: Rung, column: str) -> float | None:
        """Relative error of a rung; None where it says nothing."""
        value, truth = rung.values[column], self.rungs[-1].values[column]
        return None if value is None or not truth else value / truth - 1

    @property
    def sentences(self) -> list[str]:
        """See `Answer`."""
        said = [RULE]
        for column, what in (("tpot_s.mean", "mean TPOT"), ("ttft_s.mean", "mean TTFT"), ("ttft_s.p99", "P99 TTFT")):
            errors = [(rung.name, self.error(rung, column)) for rung in self.rungs[:-1]]
            good = [f"{name} ({error:+.0%})" for name, error in errors if error is not None and abs(error) <= _GOOD]
            enough = f"within {_GOOD:.0%}: {', '.join(good)}" if good else "only the simulation will do"
            said.append(f"Here, at {self.load:.0%} of the limit, {what}: {enough}.")
        return said

    @property
    def facts(self) -> dict[str, Any]:
        """See `Answer`."""
        return {"rule": RULE, "load": self.load, "intervals": self.intervals}

    @property
    def rows(self) -> list[Row]:
        """A row per rung: its values and their errors."""
        rows: list[Row] = []
        for rung in self.rungs:
            row: dict[str, Any] = {"model": rung.name}
            for column in _COLUMNS:
                metric, _, part = column.partition(".")
                row[f"{metric.removesuffix('_s')}_{part}_s"] = rung.values[column]
                row[f"{metric.removesuffix('_s')}_{part}_error"] = self.error(rung, column)
            rows.append(row)
        return rows

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The error of every rung on each statistic; what a rung does not say is marked."""
        ax = new_axes(ax, height=4.6)
        rungs, bound = self.rungs[:-1], 1.0
        width = 0.8 / len(_COLUMNS)
        for place, column in enumerate(_COLUMNS):
            at = np.arange(len(rungs)) + (place - (len(_COLUMNS) - 1) / 2) * width
            errors = [self.error(rung, column) for rung in rungs]
            shown = [0.0 if error is None else float(np.clip(error, -bound, bound)) for error in errors]
            label = Statistic.parse(column).label
            ax.bar(at, np.array(shown) * 100, width * 0.92, color=f"C{place}", label=label)
            for x, error in zip(at, errors, strict=True):
                text = "—" if error is None else f"{error:+.0%}" if abs(error) > bound else ""
                y = 0 if error is None else float(np.clip(error, -bound, bound)) * 100
                ax.annotate(text, (x, y), ha="center", va="bottom", fontsize=7)
        ax.axhspan(-_GOOD * 100, _GOOD * 100, color="0.9", zorder=0)
        ax.axhline(0, color="k", lw=0.8)
        ax.set_xticks(range(len(rungs)), [rung.name for rung in rungs])
        ax.set(ylabel="error against the simulation, %", ylim=(-bound * 105, bound * 112))
        ax.set_title("— : the model does not say", loc="right", fontsize=8)
        ax.legend(frameon=False, fontsize=8, ncols=len(_COLUMNS), loc="lower center")
        return ax


def explain(scenario: Scenario, *, progress: Callable[[float], None] | None = None) -> ExplainAnswer:
    """Model one workload at every fidelity.

    Args:
        scenario: with an arrival rate; a single seed becomes 16.
        progress: as in `run`.

    Raises:
        ScenarioError: the workload has no arrival rate.
    """
    scenario, warnings = replicated(scenario)
    if scenario.monte_carlo.seeds == 1:
        scenario = dataclasses.replace(scenario, monte_carlo=dataclasses.replace(scenario.monte_carlo, seeds=_SEEDS))
    mix = mix_of(scenario)
    if not 0 < mix.rate_per_s < math.inf:
        raise ScenarioError("has no long-run arrival rate, which closed forms need", "workload")
    fleet = FleetField(scenario, mix)
    check_unified(fleet)
    truth = run(scenario, keep_requests=False, progress=part_of(progress, 0.0, 0.6))
    rungs = _static(fleet, mix)
    means = _at_mean_lengths(scenario, mix)
    if means is not None:
        simulated = run(means, keep_requests=False, progress=part_of(progress, 0.6, 0.4))
        rungs.append(_simulated("mean lengths", simulated.summary))
    forms = {form.name: form for form in forms_of(fleet, mix.rate_per_s)}
    for name in ("mean field", "M/M/c"):
        form = forms[name]
        rungs.append(_rung(name, _finite(form.ttft_s), form.tpot_s))
    rungs.append(_simulated("simulation", truth.summary))
    load = mix.rate_per_s / fleet.limit_per_s
    if load >= 1:
        warnings.append("the fleet does not keep up: every statistic depends on how long the run is")
    return ExplainAnswer(
        tuple(rungs),
        {column: _of(truth.summary, column, "_ci") for column in _COLUMNS},
        load,
        tuple(warnings),
        bool(truth.summary["seeds_incomplete"]),
    )


def _static(fleet: FleetField, mix: Mix) -> list[Rung]:
    """The estimates that know no arrivals (fixed batch) and no growth of contexts (initial batch), over all groups."""
    prompt = float(mix.prompt_tokens.mean())
    weights = fleet.weights
    points = [field.at(rate) for field, rate in zip(fleet.fields, fleet.rates(mix.rate_per_s), strict=True)]

    def mean(values: Sequence[float]) -> float:
        return float(np.dot(weights, values))

    alone_s = mean([field.prefill_alone_s(prompt) for field in fleet.fields])
    fixed = [field.batch_step_s(field.slots, field.context) for field in fleet.fields]
    initial = [field.batch_step_s(p.batch, prompt + 1) for field, p in zip(fleet.fields, points, strict=True)]
    return [_rung("fixed batch", alone_s, mean(fixed)), _rung("initial batch", alone_s, mean(initial))]


def _at_mean_lengths(scenario: Scenario, mix: Mix) -> Scenario | None:
    """The scenario with every prompt and every output of the mean length; None for a trace."""
    workload = scenario.workload
    if not isinstance(workload, Synthetic):
        return None
    prompt, output = (max(round(float(tokens.mean())), 1) for tokens in (mix.prompt_tokens, mix.output_tokens))
    fixed = dataclasses.replace(
        workload, prompt_tokens=Fixed(value=prompt), output_tokens=Fixed(value=output), lengths=None, classes=None
    )
    return dataclasses.replace(scenario, workload=fixed)


def _simulated(name: str, summary: Mapping[str, Any]) -> Rung:
    return Rung(name, {column: _of(summary, column) for column in _COLUMNS})


def _of(summary: Mapping[str, Any], column: str, suffix: str = "") -> Any:
    metric, _, part = column.partition(".")
    return summary[metric][part + suffix]


def _rung(name: str, ttft_s: float | None, tpot_s: float) -> Rung:
    return Rung(name, dict(zip(_COLUMNS, (ttft_s, None, tpot_s, None), strict=True)))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
