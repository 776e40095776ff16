"""One fixed length."""

from typing import Literal

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxsim._component import check, component
from jaxsim.workload.lengths.base import MAX_TOKENS, Lengths, check_range


@component
class Fixed(Lengths):
    """Every request has the same length.

    Attributes:
        value: tokens.
        min: smallest value allowed, tokens.
        max: greatest value allowed, tokens.
    """

    kind: Literal["fixed"] = "fixed"
    value: int
    min: int = 1
    max: int = MAX_TOKENS

    def __post_init__(self) -> None:
        check_range(self)
        must = f"a whole number from min ({self.min}) to max ({self.max})"
        check(self, "value", lambda value: isinstance(value, int) and self.min <= value <= self.max, must)

    def quantile(self) -> Partial:
        return Partial(_fixed, self.value)


def _fixed(value: jax.Array, uniform: jax.Array) -> jax.Array:
    return jnp.full_like(uniform, value)
