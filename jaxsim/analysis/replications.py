"""What a simulation stands for: independent seeds, and a steady state or one stretch of time."""

import dataclasses
import math
from collections.abc import Callable
from typing import Literal

from jaxsim.analysis.scenarios import resized
from jaxsim.analysis.statistics import is_one_run
from jaxsim.config.errors import ScenarioError
from jaxsim.config.schema import Scenario
from jaxsim.workload import Synthetic, Trace

Horizon = Literal["steady", "terminating"]
"""`steady`: a system that has run for ever; `terminating`: from an empty start to the last request."""


def replicated(scenario: Scenario) -> tuple[Scenario, list[str]]:
    """The scenario with seeds that differ, and what to say about it: a trace is replayed in blocks."""
    workload = scenario.workload
    if isinstance(workload, Trace) and is_one_run(resized(scenario, seeds=2)):
        resampled = dataclasses.replace(workload, resample="block_bootstrap")
        return dataclasses.replace(scenario, workload=resampled), [
            "the trace is resampled in blocks of consecutive requests, so that seeds differ (resample: block_bootstrap)"
        ]
    return scenario, []


def horizon_of(scenario: Scenario, asked: Horizon | Literal["auto"] = "auto") -> Horizon:
    """The horizon of a scenario: steady for synthetic arrivals with a long-run rate, unless another is asked for.

    Raises:
        ScenarioError: a steady state was asked for where there is none.
    """
    workload = scenario.workload
    endless = isinstance(workload, Synthetic) and math.isfinite(workload.arrivals.rate_per_s)
    if asked == "steady" and not endless:
        raise ScenarioError("has no long-run arrival rate, so it has no steady state: choose terminating", "workload")
    return ("steady" if endless else "terminating") if asked == "auto" else asked


def few_lane_counts(seeds: int) -> int:
    """The next of few numbers of seeds, a quarter apart, a half below 64: every number of lanes is another program."""
    step = 1 << max(seeds.bit_length() - (3 if seeds > 64 else 2), 0)
    return -(-seeds // step) * step


def part_of(progress: Callable[[float], None] | None, start: float, share: float) -> Callable[[float], None] | None:
    """Progress of a part of the work, from `start` on and worth `share` of it."""
    return None if progress is None else lambda done: progress(start + done * share)
