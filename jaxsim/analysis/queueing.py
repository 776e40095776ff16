"""Closed forms: what queueing theory says of a scenario without simulating it, and what it cannot say.

Two ways to see an engine as servers, each with the formulas made for it:

* *The whole engine is one server* that works off requests of `work_s` seconds each, its share of the engine's time at
  the limit: M/M/1, M/G/1 (Pollaczek 1930; Khinchine 1932) first come first served, M/G/1 with processor sharing
  (Kleinrock, Queueing Systems II, 1976, 4.4). Latencies of a lightly loaded batching engine come out far too low.
* *Every slot is a server* that holds a request from admission to its last token, at the speed of the mean batch: M/M/c
  (Erlang 1917), G/G/c by Kingman's formula (1961) with Sakasegawa's exponent (1977), and by Allen & Cunneen (1978).

`mean field` is continuous batching itself in the mean (`jaxsim.mean_field`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.config.errors import ScenarioError
from jaxsim.config.schema import Scenario
from jaxsim.mean_field import FleetField, OperatingPoint, mix_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_PERCENTILES = (
    "These are means, and no percentile follows from them: a P99 comes from which requests meet in one batch (long "
    "prompts, long contexts, bursts), which a mean has averaged away. For P99, attainment or goodput: jaxsim run."
)

_METRICS = ("ttft_s", "tpot_s", "e2e_s", "queue_s")


def erlang_c(servers: float, offered: float) -> float:
    """Probability of waiting in M/M/c, by the recursion of Erlang's B formula.

    Args:
        servers: c; cut to a whole number.
        offered: arrival rate x service time, in servers.
    """
    count = max(int(servers), 1)
    if offered >= count:
        return 1.0
    blocked = 1.0
    for c in range(1, count + 1):
        blocked = offered * blocked / (c + offered * blocked)
    return blocked / (1 - offered / count * (1 - blocked))


def m_m_c_empty(servers: float, offered: float) -> float:
    """Probability that nobody is in M/M/c."""
    count, waiting = max(int(servers), 1), erlang_c(servers, offered)
    if offered >= count:
        return 0.0
    if waiting < 1e-12:  # as good as servers without end
        return math.exp(-offered)
    return waiting * (1 - offered / count) * math.exp(math.lgamma(count + 1) - count * math.log(offered))


def m_m_1_wait(load: float, service_s: float) -> float:
    """Mean wait in M/M/1; infinite from a load of 1, as in the others."""
    return load * service_s / (1 - load) if load < 1 else math.inf


def m_g_1_wait(load: float, service_s: float, service_scv: float) -> float:
    """Mean wait in M/G/1 (Pollaczek-Khinchine)."""
    return (1 + service_scv) / 2 * m_m_1_wait(load, service_s)


def m_m_c_wait(servers: float, offered: float, service_s: float) -> float:
    """Mean wait in M/M/c; `offered` = arrival rate x service time."""
    return erlang_c(servers, offered) * service_s / (servers - offered) if offered < servers else math.inf


def kingman_wait(servers: float, offered: float, service_s: float, arrival_scv: float, service_scv: float) -> float:
    """Mean wait in G/G/c by Kingman's formula with Sakasegawa's exponent for c servers."""
    load = offered / servers
    if load >= 1:
        return math.inf
    waiting = load ** (math.sqrt(2 * (servers + 1)) - 1)
    return (arrival_scv + service_scv) / 2 * waiting * service_s / (servers * (1 - load))


def allen_cunneen_wait(
    servers: float, offered: float, service_s: float, arrival_scv: float, service_scv: float
) -> float:
    """Mean wait in G/G/c by Allen and Cunneen: M/M/c's, scaled by the variability of arrivals and service."""
    return (arrival_scv + service_scv) / 2 * m_m_c_wait(servers, offered, service_s)


@dataclass(frozen=True)
class ClosedForm:
    """What one formula says; means, in seconds, infinite where the queue grows without end.

    Attributes:
        name: of the formula.
        utilisation: share of the servers that is busy.
        ttft_s: time to first token.
        tpot_s: time per output token after the first.
        e2e_s: end to end.
        queue_s: wait before the first token's work begins.
    """

    name: str
    utilisation: float
    ttft_s: float
    tpot_s: float
    e2e_s: float
    queue_s: float


@dataclass(frozen=True, eq=False)
class QueueingAnswer(Answer):
    """Closed forms of a scenario.

    Attributes:
        rate_per_s: arrival rate of the fleet.
        limit_per_s: arrival rate at which some instance stops keeping up.
        points: the mean-field fixed point of an instance of each group.
        forms: what each formula says.
        throughput_per_s: `min(rate, slots / (TTFT + TPOT x tokens))`: what comes out.
        simulated: the same means from a simulation, with its interval, by metric; None if it was not asked for.
        fleet: what the forms are made of, for other arrival rates.
    """

    question: ClassVar[str] = "queueing"

    rate_per_s: float
    limit_per_s: float
    points: tuple[OperatingPoint, ...]
    forms: tuple[ClosedForm, ...]
    throughput_per_s: float
    simulated: Mapping[str, Any] | None
    fleet: FleetField = field(repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """See `Answer`."""
        share = self.rate_per_s / self.limit_per_s
        said = [
            f"The fleet bears {self.limit_per_s:.4g} requests/s in the mean; {self.rate_per_s:.4g} requests/s is "
            f"{share:.0%} of that" + ("." if share < 1 else ": the queue grows without end.")
        ]
        for place, point in enumerate(self.points):
            group = f"Group {place}: " if len(self.points) > 1 else ""
            said.append(
                f"{group}{point.in_service:.3g} requests in service at once, iterations of {point.step_s * 1e3:.4g} ms "
                f"with a batch of {point.batch:.3g}; at the limit the {point.limited_by.replace('_', ' ')} "
                f"{'run' if point.limited_by == 'slots' else 'runs'} out."
            )
        said.append(NO_PERCENTILES)
        return said

    @property
    def facts(self) -> dict[str, Any]:
        """See `Answer`."""
        return {
            "rate_per_s": self.rate_per_s,
            "limit_per_s": self.limit_per_s,
            "throughput_per_s": self.throughput_per_s,
            "instances": [{"group": place, **vars(point)} for place, point in enumerate(self.points)],
            "simulated": self.simulated,
        }

    @property
    def rows(self) -> list[Row]:
        """A row per formula; with a simulation, the relative error of each mean, and the simulation as last row."""
        rows: list[Row] = []
        for form in self.forms:
            row: dict[str, Any] = {"form": form.name, "utilisation": form.utilisation} | {
                name: _known(form, name) for name in _METRICS
            }
            if self.simulated is not None:
                row |= {f"{name}_error": _error(getattr(form, name), self.simulated[name]["mean"]) for name in _METRICS}
            rows.append(row)
        if self.simulated is not None:
            means = {name: self.simulated[name]["mean"] for name in _METRICS}
            rows.append(
                {"form": "simulation", "utilisation": None} | means | {f"{name}_error": 0.0 for name in _METRICS}
            )
        return rows

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Mean TTFT against the arrival rate by every formula, with the simulation where there is one."""
        ax = new_axes(ax)
        rates = np.linspace(0.02, 0.99, 60) * self.limit_per_s
        curves = zip(*(forms_of(self.fleet, rate) for rate in rates.tolist()), strict=True)
        for forms in curves:
            name = forms[0].name
            ax.plot(rates, [form.ttft_s * 1e3 for form in forms], label=name, lw=2.5 if name == "mean field" else 1.2)
        ax.axvline(self.limit_per_s, color="0.6", ls="--", lw=1)
        ax.annotate("limit", (self.limit_per_s, 0.02), xycoords=("data", "axes fraction"), rotation=90, ha="right")
        if self.simulated is not None:
            mean, ci = self.simulated["ttft_s"]["mean"], self.simulated["ttft_s"]["mean_ci"]
            error = None if ci is None else [[(mean - ci[0]) * 1e3], [(ci[1] - mean) * 1e3]]
            ax.errorbar([self.rate_per_s], [mean * 1e3], error, fmt="o", color="k", label="simulation, 95 %", zorder=5)
        ax.set(xlabel="arrival rate, requests/s", ylabel="mean TTFT, ms", yscale="log")
        ax.legend(frameon=False, fontsize=8)
        return ax


def queueing(
    scenario: Scenario, *, simulate: bool = False, progress: Callable[[float], None] | None = None
) -> QueueingAnswer:
    """Closed forms of a scenario: mean latencies and the stability limit without a simulation, in milliseconds.

    Args:
        scenario: what to look at. Its latency model prices the mean batches; the scheduler is taken to put prompts and
            decodes into one batch, first come first served.
        simulate: simulate it too, for the error of every form.
        progress: as in `run`.

    Raises:
        ScenarioError: the workload has no arrival rate.
    """
    mix = mix_of(scenario)
    if not 0 < mix.rate_per_s < math.inf:
        raise ScenarioError("has no long-run arrival rate, which closed forms need", "workload")
    fleet = FleetField(scenario, mix)
    check_unified(fleet)
    limit = fleet.limit_per_s
    points = tuple(field.at(rate) for field, rate in zip(fleet.fields, fleet.rates(mix.rate_per_s), strict=True))
    simulated = None
    if simulate:
        from jaxsim.simulate import run

        summary = run(scenario, keep_requests=False, progress=progress).summary
        simulated = {name: {key: summary[name][key] for key in ("mean", "mean_ci")} for name in _METRICS}
        simulated["throughput_requests_per_s"] = summary["throughput_requests_per_s"]
    warnings = [
        f"group {place}: {scheduler} may keep prompts and decodes apart, which the closed forms do not know"
        for place, scheduler in enumerate(instance.scheduler.kind for instance in scenario.cluster.instances)
        if scheduler not in ("vllm_v1", "sarathi")
    ]
    if mix.rate_per_s >= limit:
        warnings.append(f"{mix.rate_per_s:.4g} requests/s is more than the fleet bears: there is no steady state")
    return QueueingAnswer(
        rate_per_s=mix.rate_per_s,
        limit_per_s=limit,
        points=points,
        forms=forms_of(fleet, mix.rate_per_s),
        throughput_per_s=fleet.throughput_per_s(mix.rate_per_s),
        simulated=simulated,
        fleet=fleet,
        warnings=tuple(warnings),
    )


def check_unified(fleet: FleetField) -> None:
    """Raise unless every instance prefills and decodes.

    Raises:
        ScenarioError: requests are handed over.
    """
    if fleet.is_disaggregated:
        raise ScenarioError(
            "are of two roles, and closed forms know no transfers or waits for memory between them: jaxsim run",
            "cluster.instances",
        )


def forms_of(fleet: FleetField, rate_per_s: float) -> tuple[ClosedForm, ...]:
    """Every closed form at an arrival rate, a mean over the requests of all groups."""
    by_group = [
        _forms(field.at(rate), fleet.arrival_scv, field.mean_outputs)
        for field, rate in zip(fleet.fields, fleet.rates(rate_per_s), strict=True)
    ]
    return tuple(_averaged(forms, fleet.weights) for forms in zip(*by_group, strict=True))


def _forms(point: OperatingPoint, arrival_scv: float, outputs: float) -> list[ClosedForm]:
    """The forms of one instance; `outputs` is the mean number of tokens after the first."""
    load, work = point.rate_per_s * point.work_s, point.work_s
    offered = point.rate_per_s * point.service_s
    queue_load = offered / point.slots
    some_busy = 1 - m_m_c_empty(point.slots, offered) - erlang_c(point.slots, offered)
    aligned_s = max(some_busy, 0.0) * point.alignment_s
    prefill_s = point.chunks * point.chunk_step_s

    def of_engine(name: str, wait_s: float) -> ClosedForm:
        ttft_s = wait_s + point.work_prefill_s
        return ClosedForm(name, load, ttft_s, point.work_token_s, ttft_s + outputs * point.work_token_s, wait_s)

    def of_slots(name: str, wait_s: float) -> ClosedForm:
        wait_s = wait_s + aligned_s
        ttft_s = wait_s + prefill_s
        return ClosedForm(name, queue_load, ttft_s, point.step_s, ttft_s + outputs * point.step_s, wait_s)

    slower = 1 / (1 - load) if load < 1 else math.inf
    sharing_ttft_s, sharing_tpot_s = point.work_prefill_s * slower, point.work_token_s * slower
    servers = (point.slots, offered, point.service_s)
    variability = (arrival_scv, point.service_scv)
    return [
        of_slots("mean field", point.prefill_wait_s),
        of_engine("M/M/1", m_m_1_wait(load, work)),
        of_engine("M/G/1", m_g_1_wait(load, work, point.work_scv)),
        ClosedForm("M/G/1-PS", load, sharing_ttft_s, sharing_tpot_s, work * slower, 0.0),
        of_slots("M/M/c", m_m_c_wait(*servers)),
        of_slots("G/G/c Kingman", kingman_wait(*servers, *variability)),
        of_slots("G/G/c Allen-Cunneen", allen_cunneen_wait(*servers, *variability)),
    ]


def _averaged(forms: Sequence[ClosedForm], weights: np.ndarray) -> ClosedForm:
    def mean(name: str) -> float:
        return float(sum(w * getattr(form, name) for w, form in zip(weights, forms, strict=True)))

    return ClosedForm(forms[0].name, *(mean(name) for name in ("utilisation", *_METRICS)))


def _known(form: ClosedForm, name: str) -> float | None:
    value = getattr(form, name)
    return value if math.isfinite(value) else None


def _error(value: float, truth: float | None) -> float | None:
    return value / truth - 1 if truth and math.isfinite(value) else None
