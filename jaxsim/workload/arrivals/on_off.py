"""Arrivals that alternate between a busy and a quiet phase."""

from typing import Literal

import numpy as np
from jax.tree_util import Partial

from jaxsim._component import check_not_negative, check_positive, component
from jaxsim.workload.arrivals._modulated import through_states
from jaxsim.workload.arrivals.base import Arrivals, check_in_flight, exponential_gap


@component
class OnOff(Arrivals):
    """Poisson arrivals at one rate during "on" phases and at another during "off" phases, of exponential durations.

    The phase at time 0 is drawn in proportion to the mean durations.

    Attributes:
        rate_on: requests per second in an on phase.
        rate_off: requests per second in an off phase; may be 0.
        mean_on_s: mean seconds of an on phase.
        mean_off_s: mean seconds of an off phase.
        max_in_flight: requests the client has under way at most; it holds others back; null is no limit.
    """

    kind: Literal["on_off"] = "on_off"
    rate_on: float
    rate_off: float = 0.0
    mean_on_s: float
    mean_off_s: float
    max_in_flight: int | None = None

    def __post_init__(self) -> None:
        check_in_flight(self)
        check_positive(self, "rate_on", "mean_on_s", "mean_off_s")
        check_not_negative(self, "rate_off")

    @property
    def rate_per_s(self) -> float:
        on, off = self.rate_on * self.mean_on_s, self.rate_off * self.mean_off_s
        return (on + off) / (self.mean_on_s + self.mean_off_s)

    def unit_gap(self) -> Partial:
        return Partial(exponential_gap)

    def arrival_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return through_states(unit_s, seeds, *self._phases)

    def past_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        return -through_states(unit_s, seeds, *self._phases, past=True)

    @property
    def _phases(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([self.rate_on, self.rate_off]), np.array([self.mean_on_s, self.mean_off_s])
