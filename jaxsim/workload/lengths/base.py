"""What a distribution of lengths is."""

import abc
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxsim._component import check

MAX_TOKENS = 2**20
"""Default upper clip of every distribution: 1,048,576 tokens, the longest context commonly served."""


class Lengths(abc.ABC):
    """A distribution of token counts: a real-valued inverse CDF, rounded down, then clipped to [min, max].

    Rounding down is what `int()` and `astype(int)` do to a positive draw in common load generators; it takes half a
    token off the mean of a continuous distribution. A new distribution is one file with one component of this kind,
    which has the fields `min` and `max`, and one line in this folder's `__init__`.
    """

    kind: str
    """Its name in a scenario."""
    min: int
    max: int

    @abc.abstractmethod
    def quantile(self) -> Partial:
        """The inverse CDF before rounding, as a function of uniforms in (0, 1), float64 `[n]`."""

    def tokens(self) -> Partial:
        """The whole inverse CDF: from uniforms to token counts, int32 `[n]`."""
        return Partial(_rounded, self.quantile(), self.min, self.max)


def check_range(lengths: Any) -> None:
    """`min` and `max` are whole numbers with 1 <= min <= max < 2^31."""
    low, most = lengths.min, 2**31 - 1
    check(lengths, "min", lambda low: isinstance(low, int) and 1 <= low <= most, f"a whole number from 1 to {most}")
    if isinstance(low, int):
        must = f"a whole number from min ({low}) to {most}"
        check(lengths, "max", lambda high: isinstance(high, int) and low <= high <= most, must)


def _rounded(quantile: Partial, low: jax.Array, high: jax.Array, uniform: jax.Array) -> jax.Array:
    return jnp.clip(jnp.floor(quantile(uniform)), low, high).astype(jnp.int32)
