"""When the KV pool is the limit: counting blocks near it, preempting, resuming.

Only lanes that count blocks run these phases. Requests are admitted in order of arrival and victims are the last
admitted, so the running requests, then the preempted ones, then the queue are in order of arrival throughout: the front
of the queue is the first preempted request if there is one. A preempted decode keeps its slot.
"""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsim._arrays import (
    Pending,
    first_slot,
    phase,
    put_add,
    put_slot,
    rarely,
    reduce_slots,
    select,
    slot_numbers,
    take,
    take_slot,
)
from jaxsim.engine import kv
from jaxsim.engine.compose import Here, Victim, due, ends_s, left_blocks, near_limit
from jaxsim.engine.shape import Shape
from jaxsim.engine.state import NEVER, Candidate, Columns, Leaving, Model, Shortage, Slots, State, pack, unpack


class Blocks(NamedTuple):
    """What a round knows of the pool."""

    held: kv.Held
    limit: jax.Array
    """Blocks the decodes may hold: what the candidate's computed tokens leave."""
    near: jax.Array
    """bool: `held` is exact, not a bound."""


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

    near = phase(near_limit)(model, shape, here, candidate) & ~due(here, shape)
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


def last_admitted(shape: Shape, here: Here, needed: jax.Array, slots: Slots, last_key: jax.Array) -> Victim:
    """The running request that was admitted last, where one must be preempted."""
    leaving = jnp.bool_(False) if here.leaving is None else here.leaving.requests > 0

    def find(key: jax.Array, packed: jax.Array, last: jax.Array, iteration: jax.Array, leaving: jax.Array) -> jax.Array:
        decoding = (key[:-1] > last) & (key[:-1] < NEVER)
        lingers = (key[:-1] <= last) & ((key[:-1] >> shape.slot_bits) == iteration) & leaving
        return reduce_slots(jnp.maximum, select(decoding | lingers, _ticket(shape, packed[:-1]), -1))

    none = _no_ticket(shape)
    ticket = rarely(needed, find, none, slots.finish_key, slots.request, last_key, here.iteration, leaving)
    slot = _slot(shape, ticket)
    request, offset = unpack(take_slot(slots.request, slot))
    return _victim(shape, slot, request, offset + here.iteration, take_slot(slots.finish_key, slot) <= last_key)


def first_preempted(shape: Shape, preempted: jax.Array, finish_key: Pending, occupant: Pending) -> Victim:
    """The preempted request at the front of the queue, where there is one."""
    none = _no_ticket(shape)

    def find(keys: jax.Array, packed: jax.Array, place: jax.Array, key: jax.Array, request: jax.Array) -> jax.Array:
        ticket = _ticket(shape, Pending(packed, place, request).all())
        return reduce_slots(jnp.minimum, select(Pending(keys, place, key).all() == NEVER, ticket, none))

    slots = (finish_key.slots, occupant.slots, finish_key.place, finish_key.value, occupant.value)
    slot = _slot(shape, rarely(preempted > 0, find, none, *slots))
    request, known = unpack(occupant.at(slot))
    return _victim(shape, slot, request, known, jnp.bool_(False))


def _ticket(shape: Shape, packed: jax.Array) -> jax.Array:
    """Request and slot of every slot in one number, in order of request: one reduction finds both."""
    request = (packed >> 32).astype(_no_ticket(shape).dtype)
    return (request << shape.slot_bits) | slot_numbers(packed).astype(request.dtype)


def _no_ticket(shape: Shape) -> jax.Array:
    """Larger than every ticket; its slot bits are not those of a slot that is looked at."""
    largest = (shape.num_requests + 1) << shape.slot_bits
    return jnp.int32(2**31 - 1) if largest < 2**31 else jnp.int64(2**62 - 1)


@phase
def _slot(shape: Shape, ticket: jax.Array) -> jax.Array:
    """The slot of a ticket, S of none."""
    slot = (ticket & ((1 << shape.slot_bits) - 1)).astype(jnp.int32)
    return select(ticket == _no_ticket(shape), jnp.int32(shape.slots), slot)


@phase
def _victim(shape: Shape, slot: jax.Array, request: jax.Array, known: jax.Array, left: jax.Array) -> Victim:
    there = slot < shape.slots
    none = jnp.int32(shape.num_requests)
    return Victim(slot, select(there, request, none), select(there, known, 0), there & left)


class Gap(NamedTuple):
    """The gap between the tokens of a request before and after it was preempted."""

    slot: jax.Array
    """S when there is none."""
    since_s: jax.Array


def unrecorded_gap(shape: Shape, needed: jax.Array, finish_key: Pending, last_token_s: jax.Array) -> Gap:
    """A resumed request whose gap is yet to be recorded, where there is one."""

    def find(keys: jax.Array, slot: jax.Array, key: jax.Array, since_s: jax.Array) -> jax.Array:
        return first_slot((Pending(keys, slot, key).all() < NEVER) & (since_s[:-1] > -jnp.inf))

    slot = rarely(needed, find, jnp.int32(shape.slots), *finish_key, last_token_s)
    return Gap(slot, take_slot(last_token_s, slot))


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
    finish_key: Pending,
    occupant: Pending,
    computed: jax.Array,
    candidate: Candidate,
) -> Candidate:
    """The candidate of the next question."""
    fresh = Candidate(take(columns.arrival_s, head), take(columns.lengths, head), None, None)
    resumed = first_preempted(shape, preempted, finish_key, occupant)
    total = take(columns.lengths, resumed.request)
    return front_of_queue(shape, head, fresh, resumed, total, computed > 0, candidate)


class Relief(NamedTuple):
    """What a round of a lane that counts blocks carries from its shortage to its end."""

    short: jax.Array
    """bool: a running request lacked a block; one was preempted, and the round does nothing else."""
    busy: jax.Array
    """bool: the round preempts or records, so the candidate was not asked."""
    victim: Victim
    preempted: jax.Array
    barred: jax.Array
    recording: jax.Array | None
    unrecorded: jax.Array | None
    gap_s: jax.Array | None
    """The gap that is recorded in this round; 0 when none is."""
    preemptions: jax.Array
    recomputed_tokens: jax.Array

    def carried(self, here: Here, iterated: jax.Array, decodes: jax.Array) -> Shortage:
        """The state to carry on: nobody is barred once an iteration was composed, or when none can be and none runs."""
        awaited = decodes > 0
        if here.free_s is not None:
            awaited = awaited | (here.free_s > here.now_s)
        return Shortage(
            preempted=self.preempted,
            unrecorded=self.unrecorded,
            barred=self.barred & ~iterated & awaited,
            preemptions=self.preemptions,
            recomputed_tokens=self.recomputed_tokens,
        )


def relieve(
    model: Model, shape: Shape, state: State, here: Here, tokens: jax.Array, blocks: Blocks
) -> tuple[jax.Array, Here, Relief]:
    """In a shortage, preempt the candidate in mid-prefill, else the decode admitted last; grant nothing then."""
    was = state.shortage
    assert was is not None and state.candidate.request is not None
    recording = None if was.unrecorded is None else (was.unrecorded > 0) & (state.batch.tokens == 0)
    first = jnp.bool_(False) if recording is None else recording
    short = lacks_block(model, shape, here, state.batch.tokens, tokens, blocks, first)
    drops, evicts = short & (here.computed > 0), short & (here.computed == 0)
    victim = last_admitted(shape, here, evicts, state.slots, state.last_key)
    lost = select(drops, state.candidate.request, victim.request)
    left = victim.left
    stops = evicts & ~left
    known = select(left, 0, victim.known)
    busy = short | first
    relief = Relief(
        short=short,
        busy=busy,
        victim=victim,
        preempted=was.preempted + stops,
        barred=was.barred | short,
        recording=recording,
        unrecorded=was.unrecorded,
        gap_s=None,
        preemptions=put_add(was.preemptions, lost, jnp.int32(1)),
        recomputed_tokens=was.recomputed_tokens + select(drops, here.computed, 0) + select(stops, known - 1, 0),
    )
    after = here._replace(
        decodes=here.decodes - stops,
        context=here.context - known,
        computed=select(drops, 0, here.computed),
    )
    if here.leaving is not None and here.leaving.blocks is not None:
        freed = select(left, kv.ceil_div(victim.known - 1, shape.block_size), 0)
        after = after._replace(leaving=Leaving(here.leaving.requests - left, here.leaving.blocks - freed))
    return select(busy, 0, tokens), after, relief


def note_gap(
    shape: Shape, slots: Slots, finish_key: Pending, relief: Relief, here: Here, resumes: jax.Array
) -> tuple[Slots, Relief]:
    """Note when a victim emitted its last token; take up a gap that a resumed request has closed."""
    relief = relief._replace(preempted=relief.preempted - resumes)
    if relief.recording is None or relief.unrecorded is None or slots.last_token_s is None:
        return slots, relief
    gap = unrecorded_gap(shape, relief.recording, finish_key, slots.last_token_s)
    evicted = (relief.victim.slot < shape.slots) & ~relief.victim.left
    place = select(evicted, relief.victim.slot, gap.slot)
    since_s = select(evicted, ends_s(here), -jnp.inf)
    slots = replace(slots, last_token_s=put_slot(slots.last_token_s, place, since_s))
    return slots, relief._replace(
        gap_s=select(relief.recording, ends_s(here) - gap.since_s, 0.0),
        unrecorded=relief.unrecorded + resumes - relief.recording,
    )
