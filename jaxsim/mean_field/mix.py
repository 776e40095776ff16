"""The facts of a workload that closed forms are made of: how often requests arrive and how long they are."""

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxsim.config.schema import Scenario, Workload
from jaxsim.workload import Synthetic, Trace

_BLOCK = 512
SAMPLE = 1 << 15
"""Requests whose lengths stand for the workload's: their mean is within 0.6 % of it where the lengths' deviation is as
large as their mean."""


@dataclass(frozen=True, eq=False)
class Mix:
    """Arrivals and lengths of a workload.

    Attributes:
        rate_per_s: requests per second; nan if there is no such number.
        arrival_scv: squared coefficient of variation of the gaps between arrivals; 1 for Poisson.
        dispersion: the same of sums of 512 gaps, times 512: larger where busy times last.
        prompt_tokens: float64 `[M]`, a sample of requests that stands for all.
        output_tokens: float64 `[M]`.
    """

    rate_per_s: float
    arrival_scv: float
    dispersion: float
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray


def mix_of(scenario: Scenario) -> Mix:
    """The mix of a scenario: of a trace the requests themselves, else the first 32,768 of the workload."""
    workload = scenario.workload
    if isinstance(workload, Synthetic):
        workload = dataclasses.replace(workload, num_requests=SAMPLE)
    elif isinstance(workload, Trace):
        workload = dataclasses.replace(workload, resample="none")
    prompt, output, gap_scv, dispersion = _sample(workload)
    arrivals: Any = getattr(workload, "arrivals", None)
    known = {"poisson": 1.0, "constant": 0.0}.get(getattr(arrivals, "kind", ""))
    if known is None and hasattr(arrivals, "cv"):
        known = arrivals.cv**2
    if known is not None:
        gap_scv = dispersion = known
    return Mix(rate_of(scenario), gap_scv, dispersion, prompt, output)


def rate_of(scenario: Scenario) -> float:
    """Requests per second that arrive in the long run, a trace's mean; nan if there is no such number."""
    arrivals = getattr(scenario.workload, "arrivals", None)
    if arrivals is not None:
        return float(arrivals.rate_per_s)
    arrival_s = scenario.workload.draw(np.array([0])).arrival_s[0]
    span_s = float(arrival_s[-1] - arrival_s[0])
    return (len(arrival_s) - 1) / span_s if span_s > 0 else math.nan


def scv(values: np.ndarray) -> float:
    """Squared coefficient of variation: variance / mean^2."""
    mean = float(np.mean(values))
    return float(np.var(values)) / mean**2 if mean > 0 else 0.0


@functools.lru_cache(maxsize=8)
def _sample(workload: Workload) -> tuple[np.ndarray, np.ndarray, float, float]:
    requests = workload.draw(np.array([0]))
    arrival_s = requests.arrival_s[0]
    gap_scv = scv(np.diff(arrival_s))
    dispersion = _BLOCK * scv(np.diff(arrival_s[::_BLOCK])) if len(arrival_s) > 8 * _BLOCK else gap_scv
    return requests.prompt_tokens[0].astype(float), requests.output_tokens[0].astype(float), gap_scv, dispersion
