"""vLLM's V0 scheduler: whole prompts first, decodes only when no prompt can be admitted."""

from typing import Literal

import jax.numpy as jnp

from jaxsim._arrays import select
from jaxsim._component import check, component
from jaxsim.engine.policy.base import AbstractPolicy, Limit, Plan, View, total_of
from jaxsim.engine.policy.decoding import all_decodes
from jaxsim.engine.policy.orders import QueueOrder


@component
class VllmV0(AbstractPolicy):
    """Prefill-only batches of whole prompts while any can be admitted, else a batch of all running requests.

    While prompts are computed, decodes stand still. A decode needs a free KV block even when it takes none; where there
    is none, the running request that arrived last is preempted (by recomputation).

    Attributes:
        max_num_seqs: most requests running at once.
        max_num_batched_tokens: most prompt tokens of one iteration; a longer prompt is never served.
        padded_prompts: count every prompt of a batch as long as its longest.
        queue_order: order of the waiting queue.
    """

    spares_block = True

    kind: Literal["vllm_v0"] = "vllm_v0"
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    padded_prompts: bool = False
    queue_order: QueueOrder = "fcfs"

    def __post_init__(self) -> None:
        check(self, "max_num_seqs", lambda value: value >= 1, "at least 1")
        check(self, "max_num_batched_tokens", lambda value: value >= 1, "at least 1")

    def plan(self, view: View) -> Plan:
        """Rules 1 and 2."""
        head = view.head
        prompts = total_of(view.granted > 0)
        longest = jnp.maximum(jnp.max(view.granted, axis=0), head.known)
        tokens = (prompts + 1) * longest if self.padded_prompts else view.tokens + head.known
        needed = view.blocks_of(head.known)
        admits = (
            head.there
            & ~view.preempted
            & (view.free_blocks - needed >= view.watermark_blocks)
            & (tokens <= self.max_num_batched_tokens)
            & (view.num_running < self.max_num_seqs)
        )
        decodes = ~admits & (prompts == 0)
        grant, blocks, victim = all_decodes(view, view.running & decodes, view.request, spares_block=True)
        return Plan(
            grant=grant,
            blocks=blocks,
            admit=select(admits, head.known, 0),
            admit_blocks=needed,
            victim=victim,
            closes=(~admits | (view.num_waiting <= 1)) & (victim == view.running.shape[0]),
            rank=view.rank,
            memory=view.memory,
        )

    def longest_prompt(self) -> Limit:
        """Prompts are not split."""
        return Limit(self.max_num_batched_tokens, "scheduler.max_num_batched_tokens, as prompts are not split")
