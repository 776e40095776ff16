"""vLLM's V1 scheduler: one token budget for prefill and decode (release 0.33)."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._arrays import select
from jaxsim._component import check, component
from jaxsim.engine.policy.base import AbstractPolicy, Limit, View


@component
class VllmV1(AbstractPolicy):
    """Running requests first in admission order, then waiting ones, under one budget of tokens per iteration.

    Prompts are chunked to the budget left. A running request that lacks a KV block preempts the last of the running
    list (by recomputation: its blocks are freed, its outputs kept); after a preemption nobody is admitted in that
    iteration. The first waiting request that does not fit ends admission.

    Attributes:
        max_num_batched_tokens: token budget of one iteration.
        max_num_seqs: most requests running at once.
        max_model_len: most tokens of prompt and output; a request stops when it reaches it.
        queue_order: order of the waiting queue.
        policy: order of admission and choice of victims.
        enable_chunked_prefill: with it off, a prompt is admitted only when its whole length fits the budget left.
        long_prefill_token_threshold: most tokens one request is granted in an iteration; 0 is off.
        reserve_full_prompt: admit only when blocks for all known tokens are free (vLLM's
            `scheduler_reserve_full_isl`), not just those of the first chunk.
        enable_prefix_caching: reuse the KV blocks of equal prefixes.
        async_scheduling: two batches in flight, the next composed while the last runs.
    """

    kind: Literal["vllm_v1"] = "vllm_v1"
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 256
    max_model_len: int = 32768
    queue_order: Literal["fcfs"] = "fcfs"
    policy: Literal["fcfs"] = "fcfs"
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    reserve_full_prompt: bool = True
    enable_prefix_caching: bool = False
    async_scheduling: bool = True

    def __post_init__(self) -> None:
        for field in ("max_num_batched_tokens", "max_num_seqs"):
            check(self, field, lambda value: value >= 1, "at least 1")
        check(self, "max_model_len", lambda value: value >= 2, "at least 2")
        check(self, "long_prefill_token_threshold", lambda value: value == 0, "0 (off): it is not supported yet")
        if self.enable_prefix_caching:
            raise ValueError("enable_prefix_caching must be false: prefix caching is not supported yet")

    @property
    def batches_in_flight(self) -> int:
        """Asynchronous scheduling composes the next batch while one runs."""
        return 2 if self.async_scheduling else 1

    def grant(self, view: View) -> jax.Array:
        """Rules 1, 2 and 6: the tokens left to compute, cut to the budget left, if seats and blocks allow."""
        room = self.max_num_batched_tokens - view.batch_tokens
        missing = view.known - view.computed
        tokens = jnp.minimum(missing, room)
        leaving = select(view.running > 0, view.watermark_blocks, 0)
        needed = view.known if self.reserve_full_prompt else tokens
        admitted = (view.running < self.max_num_seqs) & view.fits(needed, leaving)
        if not self.enable_chunked_prefill:
            admitted = admitted & (missing <= room)
        return select((room > 0) & (~view.waiting | admitted), tokens, 0)

    def may_join(self, batch_tokens: jax.Array, running: jax.Array) -> jax.Array:
        """Budget and a seat are left."""
        return (batch_tokens < self.max_num_batched_tokens) & (running < self.max_num_seqs)

    def watermark_blocks(self, num_blocks: int, watermark: float) -> int:
        """The real pool has one more block than is usable, its null block."""
        return int(watermark * (num_blocks + 1))

    def emitted(self, prompt_tokens: np.ndarray, output_tokens: np.ndarray) -> np.ndarray:
        """Rule 7: fewer than asked for where prompt and outputs reach `max_model_len`."""
        return np.minimum(output_tokens, self.max_model_len - prompt_tokens)

    def longest_prompt(self) -> Limit:
        """vLLM refuses a prompt that leaves no room for one output token; unchunked, one that exceeds the budget waits
        for ever."""
        most = Limit(self.max_model_len - 1, "scheduler.max_model_len leaves room for one output token")
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < most.tokens:
            return Limit(self.max_num_batched_tokens, "scheduler.max_num_batched_tokens without chunked prefill")
        return most
