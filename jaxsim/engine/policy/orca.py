"""Orca: iteration-level batching of whole prompts in reserved memory."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._arrays import select
from jaxsim._component import check, component
from jaxsim.engine.policy.base import AbstractPolicy, Limit, Plan, View
from jaxsim.engine.policy.orders import QueueOrder


@component
class Orca(AbstractPolicy):
    """Every iteration serves all running requests and as many waiting ones as there are seats and memory for.

    Each holds KV blocks for `max_model_len` tokens from its admission to its end, so nobody is ever preempted. The
    watermark does not apply.

    Attributes:
        max_num_seqs: most requests running at once.
        max_model_len: tokens that are reserved for each.
        queue_order: order of the waiting queue.
    """

    reserves = True

    kind: Literal["orca"] = "orca"
    max_num_seqs: int = 128
    max_model_len: int = 4096
    queue_order: QueueOrder = "fcfs"

    def __post_init__(self) -> None:
        check(self, "max_num_seqs", lambda value: value >= 1, "at least 1")
        check(self, "max_model_len", lambda value: value >= 2, "at least 2")

    def plan(self, view: View) -> Plan:
        """Everybody running, then one more waiting request at a time."""
        reserved = self.max_model_len // view.block_size
        decodes = view.running & (view.granted == 0)
        admits = view.head.there & (view.num_running < self.max_num_seqs) & (view.free_blocks >= reserved)
        return Plan(
            grant=decodes.astype(jnp.int32),
            blocks=view.blocks,
            admit=select(admits, view.head.known, 0),
            admit_blocks=jnp.asarray(reserved, jnp.int32),
            victim=jnp.int32(view.running.shape[0]),
            closes=~admits | (view.num_waiting <= 1),
            rank=view.rank,
            memory=view.memory,
        )

    def landing_blocks(self, known: jax.Array, total: jax.Array, block_size: jax.Array) -> jax.Array:
        """A reservation like any other."""
        return jnp.broadcast_to(jnp.asarray(self.max_model_len, jnp.int32) // block_size, known.shape)

    def most_seqs(self, num_blocks: int | None, block_size: int) -> int:
        """As many reservations as the pool has room for."""
        reserved = self.max_model_len // block_size
        if num_blocks is None or reserved == 0:
            return self.max_num_seqs
        return max(1, min(self.max_num_seqs, num_blocks // reserved))

    def least_blocks(
        self, prompt_tokens: np.ndarray, output_tokens: np.ndarray, block_size: int, watermark_blocks: int
    ) -> np.ndarray:
        """One reservation, however short the request."""
        return np.full(np.shape(prompt_tokens), self.max_model_len // block_size, np.int64)

    def longest_prompt(self) -> Limit:
        """A prompt must fit what is reserved for it."""
        return Limit(self.max_model_len - 1, "scheduler.max_model_len leaves room for one output token")

    @property
    def most_tokens(self) -> int:
        """A request stops when it has filled what is reserved for it."""
        return self.max_model_len
