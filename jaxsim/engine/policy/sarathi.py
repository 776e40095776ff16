"""Sarathi-Serve: chunked prefill beside decodes, decodes first."""

from typing import Literal

import jax.numpy as jnp

from jaxsim._arrays import select
from jaxsim._component import check, component
from jaxsim.engine.policy.base import AbstractPolicy, Plan, View, at, total_of
from jaxsim.engine.policy.decoding import all_decodes
from jaxsim.engine.policy.orders import QueueOrder


@component
class Sarathi(AbstractPolicy):
    """Every running decode gets its token, then prompts are computed in pieces that fill the chunk.

    Admission takes KV blocks for the whole prompt. A decode needs a free block even when it takes none; where there is
    none, the tail of the running list is preempted (by recomputation), and may be admitted again in the same iteration.

    Attributes:
        max_num_seqs: most requests running at once.
        chunk_size: tokens of one iteration; decodes count, but are never limited by it.
        queue_order: order of the waiting queue.
    """

    spares_block = True

    kind: Literal["sarathi"] = "sarathi"
    max_num_seqs: int = 128
    chunk_size: int = 512
    queue_order: QueueOrder = "fcfs"

    def __post_init__(self) -> None:
        check(self, "max_num_seqs", lambda value: value >= 1, "at least 1")
        check(self, "chunk_size", lambda value: value >= 1, "at least 1")

    def plan(self, view: View) -> Plan:
        """Rules 1 to 3. A prompt that still has pieces left was the last of its batch, so there is at most one, at the
        tail of the list; if it got nothing last time it is at the front, set aside before any decode, and no victim."""
        none = view.running.shape[0]
        untouched = view.granted == 0
        decodes = view.running & ~view.prefilling & untouched
        grant, blocks, victim = all_decodes(view, decodes, view.rank, spares_block=True, victims=view.running)
        settled = victim == none
        room = jnp.maximum(0, self.chunk_size - view.tokens - total_of(grant))

        partial = view.prefilling & untouched & settled
        piece = jnp.minimum(at(partial, view.goal - view.computed), room)
        grant = grant + select(partial, piece, 0)
        rank = select(partial, select(piece > 0, view.next_rank, -1), view.rank)

        head = view.head
        first = jnp.minimum(head.known, room - piece)
        needed = view.blocks_of(head.known)
        admits = (
            settled
            & head.there
            & (first > 0)
            & (
                view.free_blocks - total_of(select(grant > 0, blocks - view.blocks, 0)) - needed
                >= view.watermark_blocks
            )
            & (view.num_running < self.max_num_seqs)
        )
        return Plan(
            grant=grant,
            blocks=blocks,
            admit=select(admits, first, 0),
            admit_blocks=needed,
            victim=victim,
            closes=settled & ~(admits & (view.num_waiting > 1)),
            rank=rank,
            memory=view.memory,
        )
