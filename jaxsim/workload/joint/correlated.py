"""Two distributions of lengths with a given correlation."""

from typing import Literal

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr, ndtri
from jax.tree_util import Partial

from jaxsim._component import check, component
from jaxsim.workload.joint.base import JointLengths
from jaxsim.workload.lengths import Lengths


@component
class Correlated(JointLengths):
    """Prompt and output each from its own distribution, tied by a Gaussian copula.

    Each length is the quantile of its distribution at a standard normal score, and the two scores are correlated. The
    rank (Spearman) correlation of the lengths is then 6/pi asin(correlation/2), a little less than `correlation`.

    Attributes:
        prompt_tokens: distribution of the prompt lengths.
        output_tokens: distribution of the output lengths.
        correlation: of the normal scores, in (-1, 1); 0 is independent.
    """

    kind: Literal["correlated"] = "correlated"
    prompt_tokens: Lengths
    output_tokens: Lengths
    correlation: float

    def __post_init__(self) -> None:
        check(self, "correlation", lambda value: -1 < value < 1, "a number between -1 and 1")

    def tokens(self) -> Partial:
        return Partial(_correlated, self.prompt_tokens.tokens(), self.output_tokens.tokens(), self.correlation)


def _correlated(
    prompt: Partial, output: Partial, correlation: jax.Array, first: jax.Array, second: jax.Array
) -> tuple[jax.Array, jax.Array]:
    score = correlation * ndtri(first) + jnp.sqrt(1 - correlation**2) * ndtri(second)
    inside = jnp.clip(ndtr(score), 2.0**-53, 1 - 2.0**-53)  # a score beyond 8.2 rounds to a certainty
    return prompt(first), output(inside)
