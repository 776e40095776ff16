"""Arrivals in bursts."""

from typing import Literal

import numpy as np
from jax.tree_util import Partial

from jaxsim._component import check, check_positive, component
from jaxsim.workload.arrivals.base import Arrivals, check_in_flight, even_gap


@component
class Burst(Arrivals):
    """`size` requests at once, every `interval_s` seconds, the first at time 0.

    Attributes:
        size: requests per burst.
        interval_s: seconds from one burst to the next.
        max_in_flight: requests the client has under way at most; it holds others back; null is no limit.
    """

    kind: Literal["burst"] = "burst"
    size: int
    interval_s: float
    max_in_flight: int | None = None

    def __post_init__(self) -> None:
        check_in_flight(self)
        check(self, "size", lambda size: isinstance(size, int) and size >= 1, "a whole number, 1 or greater")
        check_positive(self, "interval_s")

    @property
    def rate_per_s(self) -> float:
        return self.size / self.interval_s

    def unit_gap(self) -> Partial:
        return Partial(even_gap)

    def arrival_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return (unit_s - 1) // self.size * self.interval_s

    def past_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return -((unit_s - 1) // self.size + 1) * self.interval_s
