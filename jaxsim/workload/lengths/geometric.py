"""Geometrically distributed lengths."""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxsim._component import check, component
from jaxsim.workload.lengths.base import MAX_TOKENS, Lengths, check_range


@component
class Geometric(Lengths):
    """P(n) = p (1 - p)^(n-1) for n = 1, 2, ... with p = 1/mean: each token is the last one with the same probability.

    Attributes:
        mean: tokens, before clipping; 1 or greater.
        min: lower clip, tokens.
        max: upper clip, tokens.
    """

    kind: Literal["geometric"] = "geometric"
    mean: float
    min: int = 1
    max: int = MAX_TOKENS

    def __post_init__(self) -> None:
        check_range(self)
        check(self, "mean", lambda mean: 1 <= mean < math.inf, "a finite number, 1 or greater")

    def quantile(self) -> Partial:
        return Partial(_geometric, 1 / self.mean)


def _geometric(last: jax.Array, uniform: jax.Array) -> jax.Array:
    return jnp.maximum(jnp.ceil(jnp.log1p(-uniform) / jnp.log1p(-last)), 1.0)
