"""Arrivals with Weibull-distributed gaps."""

import math
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxsim._component import check, check_positive, component
from jaxsim.workload.arrivals.base import Arrivals, check_in_flight, past_of_gaps

_CV_RANGE = (0.01, 50.0)


@component
class Weibull(Arrivals):
    """Independent gaps with a Weibull distribution, whose tail is heavier than the gamma's at the same cv above 1.

    Attributes:
        rate: requests per second.
        cv: coefficient of variation of the gaps (standard deviation / mean), 0.01 to 50; 1 is Poisson.
        max_in_flight: requests the client has under way at most; it holds others back; null is no limit.
    """

    kind: Literal["weibull"] = "weibull"
    rate: float
    cv: float
    max_in_flight: int | None = None

    def __post_init__(self) -> None:
        check_in_flight(self)
        check_positive(self, "rate")
        low, high = _CV_RANGE
        check(self, "cv", lambda cv: low <= cv <= high, f"a number from {low:g} to {high:g}")

    @property
    def rate_per_s(self) -> float:
        return self.rate

    def unit_gap(self) -> Partial:
        shape = _shape(self.cv)
        return Partial(_weibull, 1 / shape, math.gamma(1 + 1 / shape))

    def arrival_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return unit_s / self.rate

    def past_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return past_of_gaps(unit_s, self.rate)


def _shape(cv: float) -> float:
    """The shape k with Gamma(1 + 2/k) / Gamma(1 + 1/k)^2 = 1 + cv^2, by bisection of log k."""
    low, high = math.log(0.05), math.log(1000.0)
    for _ in range(100):
        middle = (low + high) / 2
        inverse = math.exp(-middle)
        if math.lgamma(1 + 2 * inverse) - 2 * math.lgamma(1 + inverse) > math.log1p(cv**2):
            low = middle
        else:
            high = middle
    return math.exp(low)


def _weibull(inverse_shape: jax.Array, mean: jax.Array, uniform: jax.Array) -> jax.Array:
    return (-jnp.log1p(-uniform)) ** inverse_shape / mean
