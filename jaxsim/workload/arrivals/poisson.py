"""Poisson arrivals."""

from typing import Literal

import numpy as np
from jax.tree_util import Partial

from jaxsim._component import check_positive, component
from jaxsim.workload.arrivals.base import Arrivals, check_in_flight, exponential_gap, past_of_gaps


@component
class Poisson(Arrivals):
    """Independent, exponentially distributed gaps.

    Attributes:
        rate: requests per second.
        max_in_flight: requests the client has under way at most; it holds others back; null is no limit.
    """

    kind: Literal["poisson"] = "poisson"
    rate: float
    max_in_flight: int | None = None

    def __post_init__(self) -> None:
        check_in_flight(self)
        check_positive(self, "rate")

    @property
    def rate_per_s(self) -> float:
        return self.rate

    def unit_gap(self) -> Partial:
        return Partial(exponential_gap)

    def arrival_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return unit_s / self.rate

    def past_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return past_of_gaps(unit_s, self.rate)
