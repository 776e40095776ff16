"""The state of one lane, its inputs and what is constant over its run."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float64, Int32, Int64

from jaxsim._arrays import select
from jaxsim.engine.policy.stream import StreamPolicy
from jaxsim.engine.record import ITL_BINS
from jaxsim.engine.shape import Shape
from jaxsim.latency.base import AbstractLatency
from jaxsim.latency.terms import Terms

NEVER = np.int32(2**31 - 1)
"""The finish key of a slot that is not decoding: later than every other."""


class Pool(eqx.Module):
    """The KV pool of an instance."""

    num_blocks: Int32[Array, ""]
    watermark_blocks: Int32[Array, ""]


class Model(eqx.Module):
    """What is constant over a lane's run: the instance's scheduler, clock and KV pool. All leaves are numbers."""

    policy: StreamPolicy
    latency: AbstractLatency
    pool: Pool


class Columns(eqx.Module):
    """A lane's requests in the order they arrive; element N is a sentinel that never arrives."""

    arrival_s: Float64[Array, " N+1"]
    lengths: Int64[Array, " N+1"]
    """Prompt and outputs, packed: one gather instead of two."""


def pack(high: Any, low: Any) -> Any:
    """Two int32 arrays, of which the second may be negative, in one int64 (NumPy or JAX, as they come)."""
    return (high.astype(np.int64) << 32) | (low.astype(np.int64) & 0xFFFFFFFF)


def unpack(packed: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The two int32 of `pack`."""
    return (packed >> 32).astype(jnp.int32), packed.astype(jnp.int32)


class Candidate(eqx.Module):
    """The request that is next to be granted prompt tokens: in mid-prefill, preempted, or head of the queue."""

    arrival_s: Float64[Array, ""]
    lengths: Int64[Array, ""]
    """Packed: tokens to compute before it emits (its prompt, and what it emitted before), tokens to emit."""
    request: Int32[Array, ""] | None
    """Its index, N when there is none. None where blocks are not counted: it is the head."""
    slot: Int32[Array, ""] | None
    """The slot it kept when it was preempted; S when it has none. None where blocks are not counted."""


class Slots(eqx.Module):
    """Requests that decode or were preempted while decoding, in no order. Lanes are on the last axis.

    Nothing counts down: a decode finishes when the shared count of iterations reaches its finish index, and its context
    is the count plus an offset. A slot is free when its key is at most the last one that finished.
    """

    finish_key: Int32[Array, " S+1"]
    """`finish index << slot_bits | slot`; NEVER for a preempted request, which keeps its slot."""
    request: Int64[Array, " S+1"]
    """Packed: the request, and its context in the coming iteration minus `iteration` (for a preempted request its known
    tokens)."""
    last_token_s: Float64[Array, " S+1"] | None
    """When a preempted request emitted its last token, until the gap to its next one is recorded; else -inf."""


class Leaving(eqx.Module):
    """With two batches in flight: requests whose last token is in the one that runs. They keep seats and blocks until
    the next composition is over, though they are granted nothing in it."""

    requests: Int32[Array, ""]
    blocks: Int32[Array, ""] | None
    """None where the pool can never be full."""


class Batch(eqx.Module):
    """The iteration being composed. Closed when `tokens` is 0."""

    tokens: Int32[Array, ""]
    terms: Terms
    """The latency model's terms but `new_tokens`, which is `tokens`."""
    decodes: Int32[Array, ""] | None
    """Decodes granted a token (inter-token latency weight)."""
    resident: Int32[Array, ""] | None
    """KV tokens resident while it runs."""
    first_token_of: Int32[Array, ""]
    """The last request that will emit its first token with this batch; N when none."""


class Shortage(eqx.Module):
    """What only lanes that count blocks carry."""

    preempted: Int32[Array, ""]
    """Requests that were preempted while decoding and wait in their slots."""
    unrecorded: Int32[Array, ""] | None
    """Resumed requests whose gap since their last token is yet to be recorded."""
    barred: Bool[Array, ""]
    """Somebody was preempted in the coming iteration: nobody is admitted in it."""
    preemptions: Int32[Array, " N+1"]
    recomputed_tokens: Int32[Array, ""]


class Records(eqx.Module):
    """What is kept of the run. Columns are written once or keep their first value."""

    first_scheduled_s: Float64[Array, " N+1"]
    first_token_s: Float64[Array, " N+1"]
    """Time of the first token, or `-1 - r` for "with request r", resolved after the run."""
    finish_s: Float64[Array, " N+1"]
    itl_counts: Int32[Array, " bins"] | None
    """Lanes are on the last axis."""
    kv_token_seconds: Float64[Array, ""] | None


class State(eqx.Module):
    """Everything that changes from round to round."""

    # clock
    now_s: Float64[Array, ""]
    """The iteration boundary the lane stands at: when the next batch is composed."""
    free_s: Float64[Array, ""] | None
    """When the batch composed last ends, with two batches in flight; None where that is `now_s`."""
    iteration: Int32[Array, ""]
    """Iterations so far, plus 1, minus `rebased`."""
    rebased: Int32[Array, ""]
    # running
    decodes: Int32[Array, ""]
    context: Int32[Array, ""]
    """Sum over decodes of their context in the coming iteration."""
    computed: Int32[Array, ""]
    """Tokens computed of the candidate, when it is in mid-prefill."""
    next_key: Int32[Array, ""]
    """Smallest finish key of a decode; NEVER when there is none."""
    last_key: Int32[Array, ""]
    """The finish key that finished last."""
    leaving: Leaving | None
    # waiting
    head: Int32[Array, ""]
    """The first request that was never admitted."""
    candidate: Candidate
    # parts
    batch: Batch
    slots: Slots
    shortage: Shortage | None
    records: Records
    exceeded: Int32[Array, ""]
    """A `LaneStatus`: OK, or why the lane must be run again; what it does from then on does not matter."""


def initial(columns: Columns, model: Model, shape: Shape) -> State:
    """An empty instance at time 0 before its first arrival."""
    n, s = shape.num_requests, shape.slots
    zero, none, false = jnp.int32(0), jnp.float64(0), jnp.bool_(False)
    column = jnp.full(n + 1, jnp.inf)
    counted = shape.counted
    return State(
        now_s=none,
        free_s=none if model.policy.batches_in_flight == 2 else None,
        iteration=jnp.int32(1),
        rebased=zero,
        decodes=zero,
        context=zero,
        computed=zero,
        next_key=jnp.int32(NEVER),
        last_key=jnp.int32((1 << shape.slot_bits) - 1),
        leaving=Leaving(zero, None if shape.kv == "unlimited" else zero)
        if model.policy.batches_in_flight == 2
        else None,
        head=zero,
        candidate=Candidate(
            arrival_s=columns.arrival_s[0],
            lengths=columns.lengths[0],
            request=zero if counted else None,
            slot=jnp.int32(s) if counted else None,
        ),
        batch=Batch(
            tokens=zero,
            terms={name: none for name in model.latency.terms if name != "new_tokens"},
            decodes=zero if shape.itl else None,
            resident=zero if shape.kv_integral else None,
            first_token_of=jnp.int32(n),
        ),
        slots=Slots(
            finish_key=jnp.zeros(s + 1, jnp.int32),
            request=jnp.zeros(s + 1, jnp.int64),
            last_token_s=jnp.full(s + 1, -jnp.inf) if counted and shape.itl else None,
        ),
        shortage=Shortage(
            preempted=zero,
            unrecorded=zero if shape.itl else None,
            barred=false,
            preemptions=jnp.zeros(n + 1, jnp.int32),
            recomputed_tokens=zero,
        )
        if counted
        else None,
        records=Records(
            first_scheduled_s=column,
            first_token_s=jnp.full(n + 1, jnp.nan),
            finish_s=jnp.full(n + 1, jnp.nan),
            itl_counts=jnp.zeros(ITL_BINS, jnp.int32) if shape.itl else None,
            kv_token_seconds=none if shape.kv_integral else None,
        ),
        exceeded=zero,
    )


def finished(state: State) -> jax.Array:
    """Whether the lane has nothing left to do, and a round leaves it as it is; or cannot go on."""
    waiting = state.candidate.arrival_s < jnp.inf
    if state.shortage is not None:
        waiting = waiting | (state.shortage.preempted > 0)
    return (~waiting & (state.decodes == 0)) | (state.exceeded > 0)


def axes(state: State) -> State:
    """The lane axis of every leaf of a batch of states: last for slot arrays and counts, first for the rest."""
    axis = jax.tree.map(lambda _: 0, state)
    axis = eqx.tree_at(lambda s: s.slots, axis, jax.tree.map(lambda _: 1, state.slots))
    if state.records.itl_counts is None:
        return axis
    return eqx.tree_at(lambda s: s.records.itl_counts, axis, 1)


def rebase(state: State, shape: Shape) -> State:
    """The same state with iterations counted from 1 again, so that finish keys never overflow."""
    back = state.iteration - 1
    key = state.slots.finish_key
    live = ((key > state.last_key) | (key >> shape.slot_bits == state.iteration)) & (key < NEVER)
    shift = back << shape.slot_bits
    request, offset = unpack(state.slots.request)
    return eqx.tree_at(
        lambda s: (s.iteration, s.rebased, s.next_key, s.last_key, s.slots.finish_key, s.slots.request),
        state,
        (
            jnp.int32(1),
            state.rebased + back,
            select(state.next_key == NEVER, NEVER, state.next_key - shift),
            jnp.maximum(state.last_key - shift, (1 << shape.slot_bits) - 1),
            select(live, key - shift, select(key == NEVER, key, 0)),
            pack(request, select(live, offset + back, offset)),
        ),
    )
