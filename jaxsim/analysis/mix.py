"""The facts of a workload that closed forms are made of: how often requests arrive and how long they are."""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxsim.analysis.scenarios import rate_of
from jaxsim.config.schema import Scenario, Workload
from jaxsim.workload import Synthetic, Trace

SAMPLE = 1 << 15
"""Requests whose lengths stand for the workload's: their mean is within 0.6 % of it where the lengths' deviation is as
large as their mean."""


@dataclass(frozen=True, eq=False)
class Mix:
    """Arrivals and lengths of a workload.

    Attributes:
        rate_per_s: requests per second; nan if there is no such number.
        arrival_scv: squared coefficient of variation of the gaps between arrivals; 1 for Poisson.
        prompt_tokens: float64 `[M]`, a sample of requests that stands for all.
        output_tokens: float64 `[M]`.
    """

    rate_per_s: float
    arrival_scv: float
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray


def mix_of(scenario: Scenario) -> Mix:
    """The mix of a scenario: of a trace the requests themselves, else the first 32,768 of the workload."""
    workload = scenario.workload
    if isinstance(workload, Synthetic):
        workload = dataclasses.replace(workload, num_requests=SAMPLE)
    elif isinstance(workload, Trace):
        workload = dataclasses.replace(workload, resample="none")
    prompt, output, gap_scv = _sample(workload)
    arrivals: Any = getattr(workload, "arrivals", None)
    known = {"poisson": 1.0, "constant": 0.0}.get(getattr(arrivals, "kind", ""))
    if known is None and hasattr(arrivals, "cv"):
        known = arrivals.cv**2
    return Mix(rate_of(scenario), gap_scv if known is None else known, prompt, output)


def scv(values: np.ndarray) -> float:
    """Squared coefficient of variation: variance / mean^2."""
    mean = float(np.mean(values))
    return float(np.var(values)) / mean**2 if mean > 0 else 0.0


@functools.lru_cache(maxsize=8)
def _sample(workload: Workload) -> tuple[np.ndarray, np.ndarray, float]:
    requests = workload.draw(np.array([0]))
    gap_scv = scv(np.diff(requests.arrival_s[0]))
    return requests.prompt_tokens[0].astype(float), requests.output_tokens[0].astype(float), gap_scv
