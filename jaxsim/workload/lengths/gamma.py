"""Gamma-distributed lengths."""

from typing import Literal

import jax
from jax.tree_util import Partial

from jaxsim._component import check_positive, component
from jaxsim.workload._gamma import unit_mean_gamma
from jaxsim.workload.lengths.base import MAX_TOKENS, Lengths, check_range


@component
class Gamma(Lengths):
    """Gamma distribution of shape 1/cv^2.

    Attributes:
        mean: tokens, before rounding down and clipping.
        cv: coefficient of variation (standard deviation / mean), before rounding down and clipping.
        min: lower clip, tokens.
        max: upper clip, tokens.
    """

    kind: Literal["gamma"] = "gamma"
    mean: float
    cv: float
    min: int = 1
    max: int = MAX_TOKENS

    def __post_init__(self) -> None:
        check_range(self)
        check_positive(self, "mean", "cv")

    def quantile(self) -> Partial:
        return Partial(_scaled, self.mean, unit_mean_gamma(self.cv))


def _scaled(mean: jax.Array, unit_mean: Partial, uniform: jax.Array) -> jax.Array:
    return mean * unit_mean(uniform)
