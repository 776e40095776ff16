"""What an arrival process is."""

import abc

import jax
import numpy as np
from jax.tree_util import Partial

from jaxsim._component import check
from jaxsim.workload.clients import Clients


class Arrivals(abc.ABC):
    """Turns a stream of unit-mean gaps, the same under every rate, into arrival times.

    A new process is one file with one component of this kind, and one line in this folder's `__init__`.
    """

    kind: str
    """Its name in a scenario."""

    @property
    @abc.abstractmethod
    def rate_per_s(self) -> float:
        """Nominal rate in requests/s; nan if there is none."""

    def clients(self, gaps: np.ndarray) -> Clients | None:
        """Who sends the requests, where they wait for answers; None: each is sent when it arrives.

        Args:
            gaps: the unit-mean gaps, float64 `[R, N]`.
        """
        cap = getattr(self, "max_in_flight", None)
        return None if cap is None else Clients(max_in_flight=cap)

    @abc.abstractmethod
    def unit_gap(self) -> Partial:
        """The inverse CDF of a gap of mean 1, as a function of uniforms in (0, 1), float64 `[n]`."""

    @abc.abstractmethod
    def arrival_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Seconds at which requests arrive, float64 `[R, N]`, not decreasing along N.

        Args:
            unit_s: float64 `[R, N]`, the running sum of the unit gaps; not kept by the caller.
            seeds: `[R]`, for processes that draw more than gaps.
        """

    def past_s(self, unit_s: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Seconds at which requests arrived before the start, the latest first: float64 `[R, M]`, 0 or less.

        With those of `arrival_s` behind them they are one run of the process.

        Args:
            unit_s: as in `arrival_s`, of other gaps.
            seeds: `[R]`.

        Raises:
            ValueError: the process began at the start.
        """
        raise ValueError("arrivals must be of a process without a beginning")


def past_of_gaps(unit_s: np.ndarray, rate: float) -> np.ndarray:
    """The past of independent gaps: a request at the start, from which the gap to the first one after it counts."""
    return (unit_s[:, :1] - unit_s) / rate


def exponential_gap(uniform: jax.Array) -> jax.Array:
    """The inverse CDF of the exponential distribution of mean 1."""
    return -jax.numpy.log1p(-uniform)


def even_gap(uniform: jax.Array) -> jax.Array:
    """Gaps that are all 1."""
    return jax.numpy.ones_like(uniform)


def check_in_flight(arrivals: Arrivals) -> None:
    """The limit of requests under way is a count, if there is one."""
    check(
        arrivals,
        "max_in_flight",
        lambda count: isinstance(count, int) and 1 <= count < 2**31,
        "null or a whole number, 1 or greater",
    )
