"""Pareto-distributed lengths."""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxsim._component import check_positive, component
from jaxsim.workload.lengths.base import MAX_TOKENS, Lengths, check_range


@component
class Pareto(Lengths):
    """P(length > x) = (x_m / x)^alpha above x_m = median / 2^(1/alpha): a power-law tail, heavier for smaller alpha.

    Attributes:
        median: tokens, before rounding down.
        alpha: tail exponent; the mean is infinite (but for `max`) at 1 and below.
        min: lower clip, tokens.
        max: upper clip, tokens.
    """

    kind: Literal["pareto"] = "pareto"
    median: float
    alpha: float
    min: int = 1
    max: int = MAX_TOKENS

    def __post_init__(self) -> None:
        check_range(self)
        check_positive(self, "median", "alpha")

    def quantile(self) -> Partial:
        return Partial(_pareto, self.median, self.alpha)


def _pareto(median: jax.Array, alpha: jax.Array, uniform: jax.Array) -> jax.Array:
    return median * jnp.exp(-(jnp.log1p(-uniform) + math.log(2)) / alpha)
