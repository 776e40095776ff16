"""When the KV pool is the limit: counting blocks near it, preempting, resuming.

Only lanes that count blocks run these phases. Requests are admitted in order of arrival and victims are the last
admitted, so the running requests, then the preempted ones, then the queue are in order of arrival throughout: the front
of the queue is the first preempted request if there is one. A preempted decode keeps its slot.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsim._arrays import first_slot, phase, rarely, select, slot_numbers, take
from jaxsim.engine import kv
from jaxsim.engine.compose import Here, due, left_blocks
from jaxsim.engine.shape import Shape
from jaxsim.engine.state import NEVER, Candidate, Columns, Model, Slots, pack, unpack


class Blocks(NamedTuple):
    """What a round knows of the pool."""

    held: kv.Held
    limit: jax.Array
    """Blocks the decodes may hold: what the candidate's computed tokens leave."""
    near: jax.Array
    """bool: `held` is exact, not a bound."""


@phase
def near_limit(model: Model, shape: Shape, here: Here, candidate: Candidate) -> jax.Array:
    """Whether the bound leaves room for doubt: what is held, the candidate whole, and a block more for every decode."""
    known, _ = unpack(candidate.lengths)
    most = kv.bound(here.decodes, here.context, jnp.int32(0), shape.block_size).blocks
    most = most + kv.ceil_div(known, shape.block_size) + model.pool.watermark_blocks + here.decodes + left_blocks(here)
    return (most > model.pool.num_blocks) & (here.decodes > 0)


@phase
def bound(model: Model, shape: Shape, here: Here) -> tuple[kv.Held, jax.Array]:
    limit = model.pool.num_blocks - kv.ceil_div(here.computed, shape.block_size) - left_blocks(here)
    return kv.bound(here.decodes, here.context, limit, shape.block_size), limit


def count_blocks(
    model: Model, shape: Shape, here: Here, candidate: Candidate, slots: Slots, last_key: jax.Array
) -> Blocks:
    """Blocks the decodes hold in the coming iteration: exact where it matters."""

    def exact(key: jax.Array, request: jax.Array, last: jax.Array, iteration: jax.Array, limit: jax.Array) -> kv.Held:
        live = (key[:-1] > last) & (key[:-1] < NEVER)
        _, offset = unpack(request[:-1])
        return kv.exact(offset + iteration, live, limit, shape.block_size)

    near = near_limit(model, shape, here, candidate) & ~due(here, shape)
    most, limit = bound(model, shape, here)
    held = rarely(near, exact, most, slots.finish_key, slots.request, last_key, here.iteration, limit)
    return Blocks(held, limit, near)


@phase
def lacks_block(
    model: Model, shape: Shape, here: Here, batch_tokens: jax.Array, tokens: jax.Array, blocks: Blocks, busy: jax.Array
) -> jax.Array:
    """Whether some running request cannot get its blocks for the coming iteration."""
    running = here.computed > 0
    after = select(running, kv.ceil_div(here.computed + tokens, shape.block_size), 0)
    short = blocks.held.blocks + after + left_blocks(here) > model.pool.num_blocks
    return short & (batch_tokens == 0) & ~due(here, shape) & ~busy


class Victim(NamedTuple):
    """A preempted decode."""

    slot: jax.Array
    """S when there is none."""
    request: jax.Array
    known: jax.Array
    """Its prompt and what it has emitted."""
    left: jax.Array | bool
    """Its last token is in flight: it loses its blocks, but waits for nothing."""


def last_admitted(shape: Shape, here: Here, needed: jax.Array, slots: Slots, last_key: jax.Array) -> Victim:
    """The running request that was admitted last, where one must be preempted."""
    false = jnp.bool_(False)
    none = Victim(jnp.int32(shape.slots), jnp.int32(shape.num_requests), jnp.int32(0), false)
    leaving = false if here.leaving is None else here.leaving.requests > 0

    def find(
        key: jax.Array, packed: jax.Array, last: jax.Array, iteration: jax.Array, leaving: jax.Array
    ) -> Victim:
        decoding = (key[:-1] > last) & (key[:-1] < NEVER)
        lingers = (key[:-1] <= last) & ((key[:-1] >> shape.slot_bits) == iteration) & leaving
        # packed by request first: the largest is the last admitted
        latest = jnp.max(select(decoding | lingers, packed[:-1], jnp.int64(-1)), axis=0)
        found = (decoding | lingers) & (packed[:-1] == latest)
        request, offset = unpack(latest)
        return Victim(first_slot(found), request, offset + iteration, jnp.any(found & lingers, axis=0))

    return rarely(needed, find, none, slots.finish_key, slots.request, last_key, here.iteration, leaving)


def first_preempted(shape: Shape, preempted: jax.Array, slots: Slots) -> Victim:
    """The preempted request at the front of the queue, where there is one."""
    none = Victim(jnp.int32(shape.slots), jnp.int32(shape.num_requests), jnp.int32(0), jnp.bool_(False))

    def find(key: jax.Array, packed: jax.Array) -> Victim:
        there = key[:-1] == NEVER
        first = jnp.min(select(there, packed[:-1], jnp.int64(2**62)), axis=0)
        request, known = unpack(first)
        slot = first_slot(there & (packed[:-1] == first))
        return Victim(slot, request, known, jnp.zeros_like(slot, bool))

    return rarely(preempted > 0, find, none, slots.finish_key, slots.request)


class Gap(NamedTuple):
    """The gap between the tokens of a request before and after it was preempted."""

    slot: jax.Array
    since_s: jax.Array


def unrecorded_gap(shape: Shape, needed: jax.Array, slots: Slots) -> Gap:
    """A resumed request whose gap is yet to be recorded, where there is one."""
    none = Gap(jnp.int32(shape.slots), jnp.float64(0))

    def find(key: jax.Array, last_token_s: jax.Array) -> Gap:
        since_s = last_token_s[:-1]
        slot = first_slot((key[:-1] < NEVER) & (since_s > -jnp.inf))
        return Gap(slot, jnp.max(select(slot_numbers(since_s) == slot, since_s, -jnp.inf), axis=0))

    return rarely(needed, find, none, slots.finish_key, slots.last_token_s)


@phase
def front_of_queue(
    shape: Shape, head: jax.Array, fresh: Candidate, resumed: Victim, total: jax.Array, keep: jax.Array, kept: Candidate
) -> Candidate:
    """The candidate: the one in mid-prefill, else the first preempted request, else the head of the queue."""
    there = resumed.slot < shape.slots
    prompt, outputs = unpack(total)
    again = pack(resumed.known, prompt + outputs - resumed.known)
    found = Candidate(
        arrival_s=select(there, 0.0, fresh.arrival_s),
        lengths=select(there, again, fresh.lengths),
        request=select(there, resumed.request, head),
        slot=resumed.slot,
    )
    return jax.tree.map(lambda a, b: select(keep, a, b), kept, found)


def next_candidate(
    shape: Shape,
    columns: Columns,
    head: jax.Array,
    preempted: jax.Array,
    slots: Slots,
    computed: jax.Array,
    candidate: Candidate,
) -> Candidate:
    """The candidate of the next question."""
    fresh = Candidate(take(columns.arrival_s, head), take(columns.lengths, head), None, None)
    resumed = first_preempted(shape, preempted, slots)
    total = take(columns.lengths, resumed.request)
    return front_of_queue(shape, head, fresh, resumed, total, computed > 0, candidate)
