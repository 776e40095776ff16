"""What an arrival process is."""

import abc

import jax
import numpy as np
from jax.tree_util import Partial


class Arrivals(abc.ABC):
    """Turns a stream of unit-mean gaps, the same under every rate, into arrival times.

    A new process is one file with one component of this kind, and one line in this folder's `__init__`.
    """

    @property
    @abc.abstractmethod
    def rate_per_s(self) -> float:
        """Nominal rate in requests/s; nan if there is none."""

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


def exponential_gap(uniform: jax.Array) -> jax.Array:
    """The inverse CDF of the exponential distribution of mean 1."""
    return -jax.numpy.log1p(-uniform)


def even_gap(uniform: jax.Array) -> jax.Array:
    """Gaps that are all 1."""
    return jax.numpy.ones_like(uniform)
