"""Pairs of lengths drawn from observed ones."""

import functools
import os
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxsim._component import check, component
from jaxsim.workload.joint.base import JointLengths
from jaxsim.workload.lengths.base import MAX_TOKENS
from jaxsim.workload.trace import FORMATS, read


@component
class Pairs(JointLengths):
    """Every observed request is equally likely; its prompt and output stay together, so their correlation is kept.

    Attributes:
        path: a trace in one of the formats of `workload: {kind: trace}`, arrivals are not needed; or a list of lengths
            (`prompt_tokens,output_tokens`).
        on_invalid: what becomes of rows without valid lengths: `error` stops the run, `skip` leaves them out.
        max: longer prompts and outputs are clipped to this many tokens.
    """

    kind: Literal["pairs"] = "pairs"
    path: str
    on_invalid: Literal["error", "skip"] = "error"
    max: int = MAX_TOKENS

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))
        check(
            self, "max", lambda most: isinstance(most, int) and 1 <= most < 2**31, "a whole number from 1 to 2^31 - 1"
        )

    def tokens(self) -> Partial:
        """The sampler; the first uniform picks the pair, in order of prompt, so it is also the prompt's inverse CDF.

        Raises:
            TraceError: the file cannot be used.
        """
        status = os.stat(self.path) if os.path.exists(self.path) else None
        prompt, output = _read(self.path, self.on_invalid, (status.st_mtime_ns, status.st_size) if status else None)
        return Partial(_picked, np.minimum(prompt, self.max), np.minimum(output, self.max))


def _picked(prompt: jax.Array, output: jax.Array, first: jax.Array, second: jax.Array) -> tuple[jax.Array, jax.Array]:
    place = jnp.floor(first * prompt.shape[0]).astype(jnp.int32)
    return prompt[place], output[place]


@functools.lru_cache(maxsize=4)
def _read(path: str, on_invalid: str, version: tuple[int, int] | None) -> tuple[np.ndarray, np.ndarray]:
    """Prompts and outputs, int32 `[M]`, sorted by prompt, then output; once per version of the file."""
    rows = read(path, list(FORMATS.values()), on_invalid)
    order = np.lexsort((rows.output_tokens, rows.prompt_tokens))
    return rows.prompt_tokens[order], rows.output_tokens[order]
