"""Arrivals with gamma-distributed gaps."""

from typing import Literal

import numpy as np
from jax.tree_util import Partial

from jaxsim._component import check_positive, component
from jaxsim.workload._gamma import unit_mean_gamma
from jaxsim.workload.arrivals.base import Arrivals, check_in_flight, past_of_gaps


@component
class Gamma(Arrivals):
    """Independent gaps with a gamma distribution of shape 1/cv^2: burstier than Poisson above cv 1, more even below.

    Attributes:
        rate: requests per second.
        cv: coefficient of variation of the gaps (standard deviation / mean); 1 is Poisson.
        max_in_flight: requests the client has under way at most; it holds others back; null is no limit.
    """

    kind: Literal["gamma"] = "gamma"
    rate: float
    cv: float
    max_in_flight: int | None = None

    def __post_init__(self) -> None:
        check_in_flight(self)
        check_positive(self, "rate", "cv")

    @property
    def rate_per_s(self) -> float:
        return self.rate

    def unit_gap(self) -> Partial:
        return unit_mean_gamma(self.cv)

    def arrival_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return unit_s / self.rate

    def past_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return past_of_gaps(unit_s, self.rate)
