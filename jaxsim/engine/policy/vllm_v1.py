"""vLLM's V1 scheduler: one token budget for prefill and decode (release 0.33)."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._arrays import select
from jaxsim._component import check, component
from jaxsim.engine.policy.base import (
    AbstractPolicy,
    Limit,
    Plan,
    View,
    any_of,
    at,
    first_of,
    last_of,
    slot_of,
    total_of,
)
from jaxsim.engine.policy.orders import QueueOrder
from jaxsim.engine.policy.stream import Offer, StreamPolicy


@component
class VllmV1(AbstractPolicy, StreamPolicy):
    """Running requests first in admission order, then waiting ones, under one budget of tokens per iteration.

    Prompts are chunked to the budget left. A running request that lacks a KV block preempts the last of the running
    list (by recomputation: its blocks are freed, its outputs kept), under `priority` the least urgent; after a
    preemption nobody is admitted in that iteration. The first waiting request that does not fit ends admission.

    Attributes:
        max_num_batched_tokens: token budget of one iteration.
        max_num_seqs: most requests running at once.
        max_model_len: most tokens of prompt and output; a request stops when it reaches it.
        queue_order: order of the waiting queue; `policy: priority` has its own.
        policy: who is admitted first and who is preempted: `fcfs`, or `priority` (smaller numbers first, then arrival).
        enable_chunked_prefill: with it off, a prompt is admitted only when its whole length fits the budget left.
        long_prefill_token_threshold: most tokens one request is granted in an iteration; 0 is off, and so it is while
            there is only one request.
        reserve_full_prompt: admit only when blocks for all known tokens are free (vLLM's
            `scheduler_reserve_full_isl`), not just those of the first chunk.
        enable_prefix_caching: reuse the KV blocks of equal prefixes.
        async_scheduling: two batches in flight, the next composed while the last runs.
    """

    memory = (0.0,)  # tokens of the request that is tried again after a preemption

    kind: Literal["vllm_v1"] = "vllm_v1"
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 256
    max_model_len: int = 32768
    queue_order: QueueOrder = "fcfs"
    policy: Literal["fcfs", "priority"] = "fcfs"
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    reserve_full_prompt: bool = True
    enable_prefix_caching: bool = False
    async_scheduling: bool = True

    def __post_init__(self) -> None:
        for field in ("max_num_batched_tokens", "max_num_seqs"):
            check(self, field, lambda value: value >= 1, "at least 1")
        check(self, "max_model_len", lambda value: value >= 2, "at least 2")
        check(self, "long_prefill_token_threshold", lambda value: value >= 0, "0 (off) or greater")
        if self.enable_prefix_caching:
            raise ValueError("enable_prefix_caching must be false: prefix caching is not supported yet")

    @property
    def batches_in_flight(self) -> int:
        """Asynchronous scheduling composes the next batch while one runs."""
        return 2 if self.async_scheduling else 1

    @property
    def order(self) -> str:
        """The order of the waiting queue."""
        return "priority" if self.policy == "priority" else self.queue_order

    @property
    def is_stream(self) -> bool:
        """Whether running list, preempted requests and queue are all in order of arrival, one prompt at a time."""
        threshold = self.long_prefill_token_threshold
        return self.order == "fcfs" and isinstance(threshold, int) and threshold == 0

    def plan(self, view: View) -> Plan:
        """Rules 1 to 6. Running requests up to and including the first that is not a decode are granted at once."""
        none = view.running.shape[0]
        room = self.max_num_batched_tokens - view.tokens
        capped = (self.long_prefill_token_threshold > 0) & (view.num_running + view.num_waiting > 1)
        threshold = select(capped, jnp.asarray(self.long_prefill_token_threshold, jnp.int32), jnp.int32(2**30))
        todo = view.running & (view.granted == 0) & (view.known < view.total) & (room > 0)
        want = jnp.minimum(view.known - view.computed, threshold)
        want = jnp.minimum(want, self.max_model_len - 1 - view.computed)

        long = first_of(todo & (want > 1), view.rank)
        ahead = todo & (want == 1) & (view.rank < select(any_of(long), at(long, view.rank), 2**31 - 1))
        rest = room - total_of(ahead)
        together = select(ahead, 1, select(long & (rest > 0), jnp.minimum(want, rest), 0)).astype(jnp.int32)
        first = first_of(todo, view.rank)
        pinned = view.memory[0].astype(jnp.int32)
        alone = select(first, select(pinned > 0, pinned, jnp.minimum(want, room)), 0).astype(jnp.int32)

        def lacking(grant: jax.Array) -> tuple[jax.Array, jax.Array]:
            blocks = jnp.maximum(view.blocks, view.blocks_of(view.computed + grant))
            grows = total_of(select(grant > 0, blocks - view.blocks, 0))
            return grows > view.free_blocks, grows

        short, _ = lacking(together)
        single = (rest < 0) | (pinned > 0)
        if self.policy == "priority":
            single = single | short
        grant = select(single, alone, together)
        short, grows = lacking(grant)
        grant = select(short, 0, grant)
        victim = self._victim(view)
        retries = short & single & ~any_of(first & victim)
        left = room - total_of(grant)
        settled = ~short & ((left == 0) | ~any_of(todo & (grant == 0)))

        head = view.head
        tokens = jnp.minimum(head.known, threshold)
        fits_budget = True if self.enable_chunked_prefill else tokens <= left
        tokens = jnp.minimum(tokens, left)
        needed = view.blocks_of(tokens)
        asked = jnp.maximum(view.blocks_of(head.known), needed) if self.reserve_full_prompt else needed
        spare = select(view.num_running > 0, view.watermark_blocks, 0)
        admits = (
            settled
            & ~view.preempted
            & head.there
            & (left > 0)
            & (view.num_running < self.max_num_seqs)
            & fits_budget
            & (asked + spare <= view.free_blocks - grows)
        )
        more = admits & (view.num_waiting > 1) & (left > tokens) & (view.num_running + 1 < self.max_num_seqs)
        return Plan(
            grant=grant,
            blocks=jnp.maximum(view.blocks, view.blocks_of(view.computed + grant)),
            admit=select(admits, tokens, 0),
            admit_blocks=needed.astype(jnp.int32),
            victim=select(short, slot_of(victim), none),
            closes=settled & ~more,
            rank=view.rank,
            memory=select(retries, total_of(alone), 0).astype(jnp.float64)[None],
        )

    def _victim(self, view: View) -> jax.Array:
        """bool `[S]`. Rule 3: the last of the running list; under `priority` the least urgent, the first of equals."""
        if self.policy == "fcfs":
            return last_of(view.running, view.rank)
        worst = jnp.max(select(view.running, view.urgency, -1), axis=0)
        return first_of(view.running & (view.urgency == worst), view.rank)

    def is_decode(self, view: View) -> jax.Array:
        """Rule 9: also the one-token last piece of a prompt."""
        return (view.granted == 1) & (view.known - view.computed == 1)

    def grant(self, offer: Offer) -> jax.Array:
        """Rules 1, 2 and 6: the tokens left to compute, cut to the budget left, if seats and blocks allow."""
        room = self.max_num_batched_tokens - offer.batch_tokens
        missing = offer.known - offer.computed
        tokens = jnp.minimum(missing, room)
        leaving = select(offer.running > 0, offer.watermark_blocks, 0)
        needed = offer.known if self.reserve_full_prompt else tokens
        admitted = (offer.running < self.max_num_seqs) & offer.fits(needed, leaving)
        if not self.enable_chunked_prefill:
            admitted = admitted & (missing <= room)
        return select((room > 0) & (~offer.waiting | admitted), tokens, 0)

    def may_join(self, batch_tokens: jax.Array, running: jax.Array) -> jax.Array:
        """Budget and a seat are left."""
        return (batch_tokens < self.max_num_batched_tokens) & (running < self.max_num_seqs)

    def watermark_blocks(self, num_blocks: int, watermark: float) -> int:
        """The real pool has one more block than is usable, its null block."""
        return int(watermark * (num_blocks + 1))

    @property
    def most_tokens(self) -> int:
        """Rule 7: a request stops when prompt and outputs reach `max_model_len`."""
        return self.max_model_len

    def least_blocks(
        self, prompt_tokens: np.ndarray, output_tokens: np.ndarray, block_size: int, watermark_blocks: int
    ) -> np.ndarray:
        """Those of its last iteration; the watermark does not count while nothing runs."""
        return super().least_blocks(prompt_tokens, output_tokens, block_size, 0)

    def longest_prompt(self) -> Limit:
        """vLLM refuses a prompt that leaves no room for one output token; unchunked, one that exceeds the budget waits
        for ever."""
        most = Limit(self.max_model_len - 1, "scheduler.max_model_len leaves room for one output token")
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < most.tokens:
            return Limit(self.max_num_batched_tokens, "scheduler.max_num_batched_tokens without chunked prefill")
        return most
