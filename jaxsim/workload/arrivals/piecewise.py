"""Poisson arrivals with a rate that follows a timetable."""

import math
from typing import Literal

import numpy as np
from jax.tree_util import Partial

from jaxsim._component import component
from jaxsim.workload._checks import check_numbers, plain
from jaxsim.workload.arrivals._modulated import through_rates
from jaxsim.workload.arrivals.base import Arrivals, check_in_flight, exponential_gap


@component
class Piecewise(Arrivals):
    """Poisson arrivals at `rates[j]` from `times_s[j]` to `times_s[j + 1]`; the last rate holds from its time on.

    It has no single nominal rate.

    Attributes:
        times_s: seconds at which a rate begins, increasing, the first 0.
        rates: requests per second; 0 is allowed, but not last.
        max_in_flight: requests the client has under way at most; it holds others back; null is no limit.
    """

    kind: Literal["piecewise"] = "piecewise"
    times_s: tuple[float, ...]
    rates: tuple[float, ...]
    max_in_flight: int | None = None

    def __post_init__(self) -> None:
        check_in_flight(self)
        check_numbers(self, "times_s", zero=True)
        check_numbers(self, "rates", zero=True)
        if len(self.rates) != len(self.times_s):
            raise ValueError(f"times_s and rates must be equally long, not {len(self.times_s)} and {len(self.rates)}")
        if plain(*self.times_s):
            steps = zip(self.times_s, self.times_s[1:], strict=False)
            if self.times_s[0] != 0 or not all(earlier < later for earlier, later in steps):
                raise ValueError(f"times_s must begin with 0 and increase, not {list(self.times_s)}")
        if plain(*self.rates) and self.rates[-1] == 0:
            raise ValueError("rates must end with a number greater than 0: the last rate holds forever")

    @property
    def rate_per_s(self) -> float:
        return math.nan

    def unit_gap(self) -> Partial:
        return Partial(exponential_gap)

    def arrival_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return through_rates(unit_s, np.array(self.times_s, float), np.array(self.rates, float))
