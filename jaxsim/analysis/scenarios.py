"""Scenarios derived from a scenario: a key changed, another arrival rate, a slower clock, more seeds."""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxsim.config.errors import ScenarioError
from jaxsim.config.io import dump_scenario, parse_scenario
from jaxsim.config.overrides import parse_override
from jaxsim.config.schema import Scenario, Workload
from jaxsim.mean_field import rate_of as rate_of
from jaxsim.specs.slo import Slo
from jaxsim.workload import Synthetic, Trace
from jaxsim.workload.arrivals import Arrivals


def changed(scenario: Scenario, values: Mapping[str, Any]) -> Scenario:
    """The scenario with some keys set, as `--set` does.

    Args:
        scenario: of registered components (a class of your own has no words in a scenario file).
        values: plain data by key, such as `{"cluster.instances.0.count": 4}`; with one group of instances,
            `scheduler.max_num_seqs` is enough.

    Raises:
        ScenarioError: a key or value that is not valid; the message names it and what is.
    """
    data = dump_scenario(scenario)
    for key, value in values.items():
        try:
            parse_override(f"{key}={json.dumps(value)}", data).apply(data)
        except ScenarioError as error:
            raise ScenarioError(error.problem, error.key) from None
    try:
        return parse_scenario(data)
    except ScenarioError as error:
        given = ", ".join(f"{key}={json.dumps(value)}" for key, value in values.items())
        raise ScenarioError(f"{error.problem} (with {given})", error.key) from None


def resized(
    scenario: Scenario,
    *,
    seeds: int | None = None,
    first_seed: int | None = None,
    num_requests: int | None = None,
    warmup_requests: int | None = None,
) -> Scenario:
    """The scenario with another amount of simulation; what is None stays. A trace keeps its length."""
    sizes = {"seeds": seeds, "first_seed": first_seed, "warmup_requests": warmup_requests}
    given: dict[str, Any] = {name: int(size) for name, size in sizes.items() if size is not None}
    monte_carlo = dataclasses.replace(scenario.monte_carlo, **given)
    workload = scenario.workload
    if num_requests is not None and isinstance(workload, Synthetic):
        workload = dataclasses.replace(workload, num_requests=int(num_requests))
    return dataclasses.replace(scenario, workload=workload, monte_carlo=monte_carlo)


def size_of(scenario: Scenario) -> int:
    """Requests of one seed."""
    if isinstance(scenario.workload, Synthetic):
        return scenario.workload.num_requests
    return scenario.workload.draw(np.array([scenario.monte_carlo.first_seed])).arrival_s.shape[1]


def at_rate(scenario: Scenario, rate_per_s: float) -> Scenario:
    """The same requests, arriving at another rate: the arrival process keeps its shape, a trace is played faster.

    Raises:
        ScenarioError: the workload has no rate.
    """
    now = rate_of(scenario)
    if not 0 < now < math.inf:
        raise ScenarioError("has no arrival rate that could be varied", "workload")
    return _faster(scenario, rate_per_s / now, _at_scaled_rate)


def slower_clock(scenario: Scenario, factor: float) -> tuple[Scenario, float]:
    """A scenario equivalent to one whose engine takes `factor` times as long for everything.

    Scaling every time by k scales every latency by k and changes nothing else, so a slower engine is the same engine
    under faster arrivals and tighter limits, in other units of time. That holds for every latency model.

    Returns:
        The scenario to simulate, and by what to multiply its seconds (and divide its rates).
    """
    faster = _faster(scenario, factor, _in_faster_time)
    return dataclasses.replace(faster, slo=_tighter(scenario.slo, factor)), factor


def _faster(scenario: Scenario, factor: float, change: Callable[[Arrivals, float], Arrivals]) -> Scenario:
    workload = scenario.workload
    arrivals: Any = getattr(workload, "arrivals", None)
    if isinstance(workload, Trace) and arrivals is None:
        faster: Workload = dataclasses.replace(workload, rate_scale=workload.rate_scale * factor)
    else:
        faster = dataclasses.replace(workload, arrivals=change(arrivals, factor))
    return dataclasses.replace(scenario, workload=faster)


def _at_scaled_rate(arrivals: Arrivals, factor: float) -> Arrivals:
    """Rates times `factor`; how long a rate lasts stays. Only what has no rates (bursts) gets shorter intervals."""
    assert dataclasses.is_dataclass(arrivals)
    names = [field.name for field in dataclasses.fields(arrivals)]
    rates = [name for name in names if name in ("rate", "rates") or name.startswith("rate_")]
    return _scaled(arrivals, factor, rates) if rates else _in_faster_time(arrivals, factor)


def _in_faster_time(arrivals: Arrivals, factor: float) -> Arrivals:
    """Everything per second times `factor`, every duration divided by it."""
    assert dataclasses.is_dataclass(arrivals)
    names = [field.name for field in dataclasses.fields(arrivals)]
    faster = [n for n in names if n in ("rate", "rates", "switch_rates") or n.startswith("rate_")]
    shorter = [n for n in names if n.endswith("_s")]
    return _scaled(_scaled(arrivals, factor, faster), 1 / factor, shorter)


def _scaled(arrivals: Arrivals, factor: float, names: list[str]) -> Arrivals:
    def scaled(value: Any) -> Any:
        return tuple(part * factor for part in value) if isinstance(value, tuple) else value * factor

    values = {name: scaled(getattr(arrivals, name)) for name in names}
    assert dataclasses.is_dataclass(arrivals)
    return dataclasses.replace(arrivals, **values)


def _tighter(slo: Slo, factor: float) -> Slo:
    limits: dict[str, Any] = {}
    for metric, statistic, limit_s in slo.limits:
        limits.setdefault(metric, {})[statistic] = limit_s / factor
    return dataclasses.replace(slo, **limits)
