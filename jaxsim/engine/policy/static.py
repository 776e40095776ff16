"""Static (request-level) batching: a batch is formed, and leaves when its last request has finished."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._arrays import select
from jaxsim._component import check, component
from jaxsim.engine import kv
from jaxsim.engine.policy.base import AbstractPolicy, Plan, View, any_of, total_of
from jaxsim.engine.policy.orders import QueueOrder


@component
class Static(AbstractPolicy):
    """Waiting requests form a batch when the instance is idle; the batch runs until its last request has finished.

    All prompts are computed in one iteration. Requests that have finished stay as padding: they are fed one more token
    in every iteration, and count in the batch. Each request's own finish time is that of its last token.

    Attributes:
        max_num_seqs: most requests of a batch; their prompts and outputs must fit the KV pool together.
        queue_order: order of the waiting queue.
    """

    keeps_finished = True
    reserves = True

    kind: Literal["static"] = "static"
    max_num_seqs: int = 32
    queue_order: QueueOrder = "fcfs"

    def __post_init__(self) -> None:
        check(self, "max_num_seqs", lambda value: value >= 1, "at least 1")

    def plan(self, view: View) -> Plan:
        """A batch is being formed as long as no prompt of it has been computed."""
        decodes = view.running & (view.computed > 0)
        head, needed = view.head, view.blocks_of(view.head.total)
        admits = (
            ~any_of(decodes)
            & head.there
            & (total_of(view.running) < self.max_num_seqs)
            & (view.free_blocks - needed >= view.watermark_blocks)
        )
        return Plan(
            grant=decodes.astype(jnp.int32),
            blocks=view.blocks,
            admit=select(admits, head.known, 0),
            admit_blocks=needed,
            victim=jnp.int32(view.running.shape[0]),
            closes=~admits,
            rank=view.rank,
            memory=view.memory,
        )

    def landing_blocks(self, known: jax.Array, total: jax.Array, block_size: jax.Array) -> jax.Array:
        """Those of its outputs too."""
        return kv.ceil_div(total, block_size)

    def least_blocks(
        self, prompt_tokens: np.ndarray, output_tokens: np.ndarray, block_size: int, watermark_blocks: int
    ) -> np.ndarray:
        """Prompt and outputs are reserved."""
        tokens = prompt_tokens.astype(np.int64) + output_tokens
        return -(-tokens // block_size) + watermark_blocks
