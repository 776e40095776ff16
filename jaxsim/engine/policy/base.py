"""What a scheduler decides, and what it may look at.

The engine composes a batch candidate by candidate. Running decodes are granted their token in bulk; then the candidate
(the request in mid-prefill if there is one, else the head of the waiting queue) is offered to the policy, which grants
it tokens or closes the batch. A policy is a handful of pure functions of a `View`, never of the engine's state.
"""

import abc
from typing import NamedTuple

import jax
import numpy as np

from jaxsim.engine import kv


class View(NamedTuple):
    """What a policy sees when it is asked about one candidate. Scalars of one lane, int32 unless said."""

    batch_tokens: jax.Array
    """Tokens granted so far in the iteration being composed, decodes included."""
    running: jax.Array
    """Requests that have been admitted and have not finished, the candidate not counted."""
    known: jax.Array
    """Tokens the candidate must have computed before it emits: its prompt and what it has emitted already."""
    computed: jax.Array
    """Tokens of the candidate computed so far."""
    waiting: jax.Array
    """bool: the candidate is not running yet."""
    free_blocks: jax.Array | None
    """KV blocks nobody holds; None where the pool cannot be full."""
    watermark_blocks: jax.Array
    """Blocks the pool's watermark reserves."""
    block_size: int

    def fits(self, tokens: jax.Array, leaving: jax.Array | int = 0) -> jax.Array | bool:
        """Whether blocks for `tokens` tokens are free and leave `leaving` blocks."""
        if self.free_blocks is None:
            return True
        return kv.ceil_div(tokens, self.block_size) + leaving <= self.free_blocks


class Limit(NamedTuple):
    """The most tokens of something, and the parameter that says so."""

    tokens: int
    because: str


class AbstractPolicy(abc.ABC):
    """One scheduler. Its numbers are leaves, its switches are structure."""

    max_num_seqs: int

    @property
    def batches_in_flight(self) -> int:
        """2 if the next batch is composed while one runs, else 1. Structure."""
        return 1

    @abc.abstractmethod
    def grant(self, view: View) -> jax.Array:
        """Tokens the candidate gets in this iteration, int32; 0 closes the batch."""

    @abc.abstractmethod
    def may_join(self, batch_tokens: jax.Array, running: jax.Array) -> jax.Array:
        """Whether another request could get tokens in this iteration, KV blocks aside: bool, never wrongly False."""

    @abc.abstractmethod
    def watermark_blocks(self, num_blocks: int, watermark: float) -> int:
        """Blocks that must stay free after an admission."""

    @abc.abstractmethod
    def emitted(self, prompt_tokens: np.ndarray, output_tokens: np.ndarray) -> np.ndarray:
        """Tokens each request emits before it stops; at most `output_tokens`."""

    @abc.abstractmethod
    def longest_prompt(self) -> Limit | None:
        """The longest prompt that can ever be served, or None."""
