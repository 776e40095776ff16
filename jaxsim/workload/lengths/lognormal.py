"""Lognormally distributed lengths."""

from typing import Literal

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri
from jax.tree_util import Partial

from jaxsim._component import check_not_negative, check_positive, component
from jaxsim.workload.lengths.base import MAX_TOKENS, Lengths, check_range


@component
class Lognormal(Lengths):
    """The logarithm of the length is normal, with mean log(median) and standard deviation sigma.

    Attributes:
        median: tokens, before rounding down; exp(mu) for a distribution given by mu.
        sigma: standard deviation of the logarithm.
        min: lower clip, tokens.
        max: upper clip, tokens.
    """

    kind: Literal["lognormal"] = "lognormal"
    median: float
    sigma: float
    min: int = 1
    max: int = MAX_TOKENS

    def __post_init__(self) -> None:
        check_range(self)
        check_positive(self, "median")
        check_not_negative(self, "sigma")

    def quantile(self) -> Partial:
        return Partial(_lognormal, self.median, self.sigma)


def _lognormal(median: jax.Array, sigma: jax.Array, uniform: jax.Array) -> jax.Array:
    return median * jnp.exp(sigma * ndtri(uniform))
