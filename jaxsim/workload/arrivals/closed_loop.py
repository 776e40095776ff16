"""A fixed number of users, each of whom waits for an answer before it asks again."""

import math
from typing import Literal

import numpy as np
from jax.tree_util import Partial

from jaxsim._component import check, check_not_negative, component
from jaxsim.workload.arrivals.base import Arrivals, even_gap, exponential_gap
from jaxsim.workload.clients import Clients


@component
class ClosedLoop(Arrivals):
    """Users who send their next request when the last has ended and they have thought about it, as benchmarks do.

    All start at time 0. Requests are taken from one list, by whoever is free first. A request arrives when it is sent.

    Attributes:
        concurrency: number of users.
        think_time_s: mean time between an answer and the user's next request, in seconds.
        think: `fixed`: it is always the mean; `exponential`: it is drawn.
    """

    kind: Literal["closed_loop"] = "closed_loop"
    concurrency: int
    think_time_s: float = 0.0
    think: Literal["fixed", "exponential"] = "fixed"

    def __post_init__(self) -> None:
        must = "a whole number, 1 or greater"
        check(self, "concurrency", lambda count: isinstance(count, int) and 1 <= count < 2**31, must)
        check_not_negative(self, "think_time_s")

    @property
    def rate_per_s(self) -> float:
        return math.nan

    def unit_gap(self) -> Partial:
        return Partial(even_gap if self.think == "fixed" else exponential_gap)

    def arrival_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """See `Arrivals.arrival_s`; when requests arrive is known only when they are served."""
        return np.zeros_like(unit_s)

    def clients(self, gaps: np.ndarray) -> Clients:
        """See `Arrivals.clients`."""
        return Clients(concurrency=self.concurrency, think_s=gaps * self.think_time_s)
