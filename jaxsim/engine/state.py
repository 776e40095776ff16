"""The state of one lane, its inputs and what is constant over its run."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float64, Int32, Int64

from jaxsim._arrays import select
from jaxsim.engine.policy.base import AbstractPolicy
from jaxsim.engine.record import ITL_BINS
from jaxsim.engine.shape import Shape
from jaxsim.latency.base import AbstractLatency
from jaxsim.latency.terms import Terms

NEVER = jnp.int32(2**31 - 1)
"""The finish key of a slot that is not decoding: later than every other."""


class Pool(eqx.Module):
    """The KV pool of an instance."""

    num_blocks: Int32[Array, ""]
    watermark_blocks: Int32[Array, ""]


class Model(eqx.Module):
    """What is constant over a lane's run: the instance's scheduler, clock and KV pool. All leaves are numbers."""

    policy: AbstractPolicy
    latency: AbstractLatency
    pool: Pool


class Columns(eqx.Module):
    """A lane's requests in the order they arrive; element N is a sentinel that never arrives."""

    arrival_s: Float64[Array, "N+1"]
    lengths: Int64[Array, "N+1"]
    """`prompt << 32 | outputs`: one gather instead of two."""


def pack_lengths(prompt_tokens: np.ndarray, output_tokens: np.ndarray) -> np.ndarray:
    """Both lengths of a request in one int64."""
    return (prompt_tokens.astype(np.int64) << 32) | output_tokens.astype(np.int64)


def unpack_lengths(lengths: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`(prompt, outputs)`, int32."""
    return (lengths >> 32).astype(jnp.int32), (lengths & 0xFFFFFFFF).astype(jnp.int32)


class Candidate(eqx.Module):
    """The request that is next to be granted prompt tokens: in mid-prefill, preempted, or head of the queue."""

    request: Int32[Array, ""]
    """Its index; N when there is none."""
    arrival_s: Float64[Array, ""]
    known: Int32[Array, ""]
    """Tokens to compute before it emits: prompt, plus what it had emitted when it was preempted."""
    remaining: Int32[Array, ""]
    """Tokens it has yet to emit."""
    slot: Int32[Array, ""]
    """The slot it kept when it was preempted; S when it has none."""


class Slots(eqx.Module):
    """Requests that decode or were preempted while decoding, in no order. Lanes are on the last axis.

    Nothing counts down: a decode finishes when the shared count of decode iterations reaches its finish index, and its
    context is the count plus an offset. A slot is free when its key is at most the last one that finished.
    """

    finish_key: Int32[Array, "S+1"]
    """`finish index << slot_bits | slot`; NEVER for a preempted request, which keeps its slot."""
    request: Int32[Array, "S+1"]
    offset: Int32[Array, "S+1"]
    """Context in the coming iteration minus `iteration`; for a preempted request its known tokens."""
    last_token_s: Float64[Array, "S+1"] | None
    """When a preempted request emitted its last token, until the gap to its next one is recorded; else -inf."""


class Batch(eqx.Module):
    """The iteration being composed. Closed when `tokens` is 0."""

    tokens: Int32[Array, ""]
    terms: Terms
    decodes: Int32[Array, ""] | None
    """Decodes granted a token (inter-token latency weight)."""
    resident: Int32[Array, ""] | None
    """KV tokens resident while it runs."""
    first_token_of: Int32[Array, ""]
    """The last request that will emit its first token with this batch; N when none."""


class Records(eqx.Module):
    """What is kept of the run. Columns are written once or keep their first value."""

    first_scheduled_s: Float64[Array, "N+1"]
    first_token_s: Float64[Array, "N+1"]
    """Time of the first token, or `-1 - r` for "with request r", resolved after the run."""
    finish_s: Float64[Array, "N+1"]
    preemptions: Int32[Array, "N+1"] | None
    itl_counts: Int32[Array, "bins"] | None
    kv_token_seconds: Float64[Array, ""] | None
    recomputed_tokens: Int32[Array, ""] | None
    iterations: Int32[Array, ""]


class State(eqx.Module):
    """Everything that changes from round to round."""

    # clock
    now_s: Float64[Array, ""]
    """The iteration boundary the lane stands at."""
    iteration: Int32[Array, ""]
    """Decode iterations so far, counted from the start of the chunk of rounds."""
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
    # waiting
    head: Int32[Array, ""]
    """The first request that was never admitted."""
    candidate: Candidate
    preempted: Int32[Array, ""] | None
    """Requests that were preempted while decoding and wait in their slots."""
    unrecorded: Int32[Array, ""] | None
    """Resumed requests whose gap since their last token is yet to be recorded."""
    closed_to_new: Bool[Array, ""] | None
    """Somebody was preempted in the coming iteration: nobody is admitted in it."""
    # parts
    batch: Batch
    slots: Slots
    records: Records
    slots_exceeded: Bool[Array, ""]


def initial(columns: Columns, model: Model, shape: Shape) -> State:
    """An empty instance at time 0 before its first arrival."""
    n, s = shape.num_requests, shape.slots
    zero, none = jnp.int32(0), jnp.float64(0)
    first = columns.lengths[0]
    prompt, outputs = unpack_lengths(first)
    column = jnp.full(n + 1, jnp.inf)
    bounded = shape.kv_bounded
    return State(
        now_s=none,
        iteration=zero,
        decodes=zero,
        context=zero,
        computed=zero,
        next_key=NEVER,
        last_key=zero,
        head=zero,
        candidate=Candidate(zero, columns.arrival_s[0], prompt, outputs, jnp.int32(s)),
        preempted=zero if bounded else None,
        unrecorded=zero if bounded and shape.itl else None,
        closed_to_new=jnp.bool_(False) if bounded else None,
        batch=Batch(
            tokens=zero,
            terms={name: none for name in model.latency.terms},
            decodes=zero if shape.itl else None,
            resident=zero if shape.kv_integral else None,
            first_token_of=jnp.int32(n),
        ),
        slots=Slots(
            finish_key=jnp.zeros(s + 1, jnp.int32),
            request=jnp.zeros(s + 1, jnp.int32),
            offset=jnp.zeros(s + 1, jnp.int32),
            last_token_s=jnp.full(s + 1, -jnp.inf) if bounded and shape.itl else None,
        ),
        records=Records(
            first_scheduled_s=column,
            first_token_s=column,
            finish_s=column,
            preemptions=jnp.zeros(n + 1, jnp.int32) if bounded else None,
            itl_counts=jnp.zeros(ITL_BINS, jnp.int32) if shape.itl else None,
            kv_token_seconds=none if shape.kv_integral else None,
            recomputed_tokens=zero if bounded else None,
            iterations=zero,
        ),
        slots_exceeded=jnp.bool_(False),
    )


def finished(state: State, shape: Shape) -> jax.Array:
    """Whether the lane has nothing left to do (or cannot go on): a round leaves it as it is."""
    idle = (state.candidate.request == shape.num_requests) & (state.decodes == 0)
    return idle | state.slots_exceeded


def axes(state: State) -> State:
    """The lane axis of every leaf of a batch of states: last for slot arrays, first for the rest."""
    axis = jax.tree.map(lambda _: 0, state)
    return eqx.tree_at(lambda s: s.slots, axis, jax.tree.map(lambda _: 1, state.slots))


def rebased(state: State, shape: Shape) -> State:
    """The same state with decode iterations counted from 1 again, so that finish keys never overflow."""
    back = state.iteration - 1
    shift = back << shape.slot_bits
    key = state.slots.finish_key
    live = (key > state.last_key) & (key < NEVER)
    slots = eqx.tree_at(
        lambda s: (s.finish_key, s.offset),
        state.slots,
        (
            select(live, key - shift, select(key == NEVER, key, 0)),
            select(live, state.slots.offset + back, state.slots.offset),
        ),
    )
    return eqx.tree_at(
        lambda s: (s.iteration, s.next_key, s.last_key, s.slots),
        state,
        (
            jnp.int32(1),
            select(state.next_key == NEVER, NEVER, state.next_key - shift),
            jnp.int32((1 << shape.slot_bits) - 1),
            slots,
        ),
    )
