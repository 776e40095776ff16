"""Uniformly distributed lengths."""

from dataclasses import field
from typing import Literal

import jax
from jax.tree_util import Partial

from jaxsim._component import component
from jaxsim.workload.lengths.base import Lengths, check_range


@component
class Uniform(Lengths):
    """Every whole number from `min` to `max` is equally likely.

    Attributes:
        min: smallest length, tokens.
        max: greatest length, tokens.
    """

    kind: Literal["uniform"] = "uniform"
    min: int = field()
    max: int = field()

    def __post_init__(self) -> None:
        check_range(self)

    def quantile(self) -> Partial:
        return Partial(_uniform, self.min, self.max + 1)


def _uniform(low: jax.Array, end: jax.Array, uniform: jax.Array) -> jax.Array:
    return low + (end - low) * uniform
