"""Markov-modulated Poisson arrivals."""

from typing import Literal

import numpy as np
from jax.tree_util import Partial

from jaxsim._component import component
from jaxsim.workload._checks import check_numbers, plain
from jaxsim.workload.arrivals._modulated import through_states
from jaxsim.workload.arrivals.base import Arrivals, check_in_flight, exponential_gap


@component
class Markov(Arrivals):
    """Poisson arrivals whose rate follows a Markov chain that visits its states in the order given, over and over.

    The state at time 0 is drawn from the chain's stationary distribution.

    Attributes:
        rates: requests per second in each state; 0 is allowed, but not in all.
        switch_rates: per state, at how many times per second it is left for the next one.
        max_in_flight: requests the client has under way at most; it holds others back; null is no limit.
    """

    kind: Literal["markov"] = "markov"
    rates: tuple[float, ...]
    switch_rates: tuple[float, ...]
    max_in_flight: int | None = None

    def __post_init__(self) -> None:
        check_in_flight(self)
        check_numbers(self, "rates", zero=True)
        check_numbers(self, "switch_rates", zero=False)
        if len(self.rates) < 2 or len(self.rates) != len(self.switch_rates):
            raise ValueError(
                f"rates and switch_rates must have one number for each of two or more states, "
                f"not {len(self.rates)} and {len(self.switch_rates)}"
            )
        if plain(*self.rates) and not any(self.rates):
            raise ValueError("rates must not all be 0")

    @property
    def rate_per_s(self) -> float:
        stays_s = [1 / rate for rate in self.switch_rates]
        return sum(rate * stay_s for rate, stay_s in zip(self.rates, stays_s, strict=True)) / sum(stays_s)

    def unit_gap(self) -> Partial:
        return Partial(exponential_gap)

    def arrival_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return through_states(unit_s, seeds, *self._states)

    def past_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return -through_states(unit_s, seeds, *self._states, past=True)

    @property
    def _states(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.rates, float), 1 / np.array(self.switch_rates, float)
