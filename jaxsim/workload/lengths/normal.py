"""Normally distributed lengths."""

from typing import Literal

import jax
from jax.scipy.special import ndtri
from jax.tree_util import Partial

from jaxsim._component import check_not_negative, check_positive, component
from jaxsim.workload.lengths.base import MAX_TOKENS, Lengths, check_range


@component
class Normal(Lengths):
    """Normal distribution; what it puts outside [min, max] lands on the nearer end.

    Attributes:
        mean: tokens, before rounding down and clipping.
        std: standard deviation in tokens, before rounding down and clipping.
        min: lower clip, tokens.
        max: upper clip, tokens.
    """

    kind: Literal["normal"] = "normal"
    mean: float
    std: float
    min: int = 1
    max: int = MAX_TOKENS

    def __post_init__(self) -> None:
        check_range(self)
        check_positive(self, "mean")
        check_not_negative(self, "std")

    def quantile(self) -> Partial:
        return Partial(_normal, self.mean, self.std)


def _normal(mean: jax.Array, std: jax.Array, uniform: jax.Array) -> jax.Array:
    return mean + std * ndtri(uniform)
