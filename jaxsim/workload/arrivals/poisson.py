"""Poisson arrivals."""

from typing import Literal

import numpy as np
from jax.tree_util import Partial

from jaxsim._component import check_positive, component
from jaxsim.workload.arrivals.base import Arrivals, exponential_gap


@component
class Poisson(Arrivals):
    """Independent, exponentially distributed gaps.

    Attributes:
        rate: requests per second.
    """

    kind: Literal["poisson"] = "poisson"
    rate: float

    def __post_init__(self) -> None:
        check_positive(self, "rate")

    @property
    def rate_per_s(self) -> float:
        return self.rate

    def unit_gap(self) -> Partial:
        return Partial(exponential_gap)

    def arrival_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return unit_s / self.rate
