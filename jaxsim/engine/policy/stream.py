"""What a scheduler gives the program of a single stream: an instance whose requests queue in order of arrival.

That program (`jaxsim.engine.round`) composes a batch candidate by candidate. Running decodes are granted their token in
bulk; then the candidate (the request in mid-prefill if there is one, else the head of the waiting queue) is offered to
the policy, which grants it tokens or closes the batch. It is several times faster than the program of whole fleets
(`jaxsim.engine.fleet`), and serves schedulers whose running list, preempted requests and queue are in order of arrival
throughout.
"""

import abc
from typing import NamedTuple

import jax

from jaxsim.engine import kv


class Offer(NamedTuple):
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


class StreamPolicy(abc.ABC):
    """A scheduler that can serve a single stream, at least with some of its switches."""

    @property
    @abc.abstractmethod
    def batches_in_flight(self) -> int:
        """As `AbstractPolicy.batches_in_flight`."""

    @property
    @abc.abstractmethod
    def is_stream(self) -> bool:
        """Whether it can with those it has. Structure."""

    @abc.abstractmethod
    def grant(self, offer: Offer) -> jax.Array:
        """Tokens the candidate gets in this iteration, int32; 0 closes the batch."""

    @abc.abstractmethod
    def may_join(self, batch_tokens: jax.Array, running: jax.Array) -> jax.Array:
        """Whether another request could get tokens in this iteration, KV blocks aside: bool, never wrongly False."""
