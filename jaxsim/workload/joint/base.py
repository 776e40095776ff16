"""What a distribution of prompt and output together is."""

import abc

import jax
from jax.tree_util import Partial

from jaxsim.workload.lengths import Lengths


class JointLengths(abc.ABC):
    """A joint distribution of the two lengths of a request.

    A new one is one file with one component of this kind, and one line in this folder's `__init__`.
    """

    kind: str
    """Its name in a scenario."""

    @abc.abstractmethod
    def tokens(self) -> Partial:
        """A function of two independent uniforms in (0, 1), float64 `[n]` each, to `(prompt, output)`, int32 `[n]`."""


def independent(prompt_tokens: Lengths, output_tokens: Lengths) -> Partial:
    """The `JointLengths.tokens` of lengths that know nothing of each other."""
    return Partial(_independent, prompt_tokens.tokens(), output_tokens.tokens())


def _independent(prompt: Partial, output: Partial, first: jax.Array, second: jax.Array) -> tuple[jax.Array, jax.Array]:
    return prompt(first), output(second)
