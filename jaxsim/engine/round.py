"""One round: a fixed pipeline of masked phases that moves a lane by about one event.

count, preempt   where blocks are counted: the pool's state; in a shortage one request loses its blocks
ask, run, grant  offer the candidate to the policy; leap over a run of full chunks; add its chunk to the batch, and if
                 that completes its prompt, seat it among the decodes
close            price the batch when nothing more can join it
stretch          leap over decode-only iterations until something can change
retire           take out one request that has emitted its last token

A phase is the identity on a lane it does not concern, so a finished lane is a fixed point, and every write is in
bounds: a lane with nothing to write names the spare element.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsim._arrays import add_each, phase, put, put_add, put_min, put_slot, select, take, take_slot
from jaxsim._status import LaneStatus
from jaxsim.engine import compose, kv, settle, shortage
from jaxsim.engine.compose import Here
from jaxsim.engine.shape import Shape
from jaxsim.engine.state import NEVER, Candidate, Columns, Leaving, Model, Shortage, Slots, State, pack, unpack


def build(model: Model, columns: Columns, shape: Shape) -> Callable[[State], State]:
    """The round of one lane as a pure function of its state."""

    def step(state: State) -> State:
        here = Here(
            state.now_s,
            state.free_s,
            state.iteration,
            state.decodes,
            state.context,
            state.computed,
            state.next_key,
            state.leaving,
        )
        batch, slots, records, candidate = state.batch, state.slots, state.records, state.candidate

        # count, ask, preempt
        blocks = None
        if state.shortage is not None:
            blocks = shortage.count_blocks(model, shape, here, candidate, slots, state.last_key)
        tokens = compose.ask(
            model,
            shape,
            here,
            batch.tokens,
            candidate,
            None if blocks is None else blocks.held.blocks,
            None if state.shortage is None else state.shortage.barred,
        )
        relief = None
        if state.shortage is not None and blocks is not None:
            tokens, here, relief = _relieve(model, shape, state, here, tokens, blocks)

        # run
        request = state.head if candidate.request is None else candidate.request
        starting = _starting(shape, request, here.computed, tokens)
        records = replace(records, first_scheduled_s=put_min(records.first_scheduled_s, starting, compose.starts_s(here)))
        run = run_piece = None
        before_run = here
        if shape.leap:
            run_piece = compose.price_run(model, shape, here, tokens)
            near = None if blocks is None else blocks.near
            run = compose.run_length(model, shape, here, batch.tokens, candidate, tokens, run_piece, near)
            run_s = settle.spent_s(run_piece, run)
            here = compose.after_run(here, tokens, run, run_piece)

        # grant
        granted = compose.granted_now(shape, here, candidate, tokens)
        batch = compose.extend(model, here, batch, candidate, granted)
        joins = compose.completes(here, candidate, granted)
        slot = compose.free_slot(slots.finish_key, compose.gone_key(shape, here, state.last_key))
        seating = _seat(shape, here, candidate, request, joins, slot, None if relief is None else relief.victim)
        here = compose.after_grant(here, candidate, granted, joins)
        slots = replace(
            slots,
            finish_key=put_slot(slots.finish_key, seating.slot, seating.key),
            request=put_slot(slots.request, seating.slot, seating.occupant),
        )
        head, preempted, next_key = state.head + seating.first, None, jnp.minimum(here.next_key, seating.key)
        if relief is not None:
            preempted = relief.preempted - (joins & ~seating.first)
            slots, relief = _note_gap(shape, slots, relief, here, joins & ~seating.first)
            next_key = settle.soonest(slots.finish_key, state.last_key)
            candidate = shortage.next_candidate(shape, columns, head, preempted, slots, here.computed, candidate)
        else:
            candidate = Candidate(take(columns.arrival_s, head), take(columns.lengths, head), None, None)
        here = here._replace(next_key=next_key)

        # close
        before = batch.first_token_of
        latest = select(seating.first, request, before)
        chained = seating.first & (before < shape.num_requests)
        closes = settle.closes_now(model, here, batch, candidate, joins, chained)
        close_s = settle.close_seconds(model, batch, closes)
        here = settle.after_close(here, closes, close_s)
        first_token = settle.first_token(shape, here, before, latest, chained, closes)
        records = replace(records, first_token_s=put(records.first_token_s, first_token.request, first_token.value))
        open_tokens, first_token_of = settle.emptied(shape, batch.tokens, latest, closes)

        # stretch
        piece = settle.price_stretch(model, here)
        standing = None
        if relief is not None and blocks is not None:
            busy = relief.busy if relief.unrecorded is None else relief.busy | (relief.unrecorded > 0)
            standing = settle.Standing(blocks.held, blocks.limit, relief.barred, busy)
        composed = closes | (granted > 0)
        k = settle.stretch_length(model, shape, here, open_tokens, candidate, piece, composed, standing)
        stretch_s = settle.spent_s(piece, k)
        before_stretch = here
        busy = None if relief is None else relief.busy
        here = settle.after_stretch(here, open_tokens, candidate, k, piece, composed, busy)
        exceeded = jnp.maximum(state.exceeded, select(seating.exceeded, int(LaneStatus.SLOTS_EXCEEDED), jnp.int32(0)))
        if shape.kv == "watched":
            near = shortage.near_limit(model, shape, here, candidate)
            exceeded = select((exceeded == 0) & near, int(LaneStatus.BLOCKS_EXCEEDED), exceeded)

        # retire
        holding = None if relief is None or relief.unrecorded is None else relief.unrecorded > 0
        leaving = settle.finisher(shape, here, open_tokens, holding)
        retired = settle.retire(shape, here, state.last_key, leaving, take_slot(slots.request, leaving))
        records = replace(records, finish_s=put(records.finish_s, retired.request, compose.ends_s(here)))

        # record
        if records.itl_counts is not None and batch.decodes is not None:
            last = settle.credit(stretch_s, k, before_stretch.decodes)
            if relief is not None and relief.gap_s is not None:
                last = settle.or_gap(last, relief.gap_s)
            credits = [last, settle.credit(close_s, closes.astype(jnp.float64), batch.decodes)]
            if run is not None:
                credits.append(settle.credit(run_s, run, before_run.decodes))
            bins, gaps = (jnp.stack(column) for column in zip(*credits, strict=True))
            records = replace(records, itl_counts=add_each(records.itl_counts, bins, gaps))
        if records.kv_token_seconds is not None and batch.resident is not None:
            spent = settle.resident(
                piece, k, before_stretch.context + before_stretch.computed, before_stretch.decodes
            )
            spent = spent + close_s * batch.resident
            if run is not None and run_piece is not None:
                spent = spent + settle.resident(
                    run_piece, run, before_run.context + before_run.computed + tokens, before_run.decodes + tokens
                )
            records = replace(records, kv_token_seconds=records.kv_token_seconds + spent)

        return State(
            now_s=here.now_s,
            free_s=here.free_s,
            iteration=here.iteration,
            rebased=state.rebased,
            decodes=retired.decodes,
            context=retired.context,
            computed=here.computed,
            next_key=settle.soonest(slots.finish_key, retired.last_key),
            last_key=retired.last_key,
            leaving=retired.leaving,
            head=head,
            candidate=candidate,
            batch=replace(batch, tokens=open_tokens, first_token_of=first_token_of),
            slots=slots,
            shortage=None if relief is None else relief.shortage(preempted, here, composed | (k > 0), retired.decodes),
            records=records,
            exceeded=exceeded,
        )

    return step


@phase
def _starting(shape: Shape, request: jax.Array, computed: jax.Array, tokens: jax.Array) -> jax.Array:
    """The request that gets its first tokens, N when none does."""
    return select((tokens > 0) & (computed == 0), request, jnp.int32(shape.num_requests))


class Seating(NamedTuple):
    """A write to the slots: a completed prompt that joins, or a victim that keeps its slot."""

    slot: jax.Array
    key: jax.Array
    """NEVER when nobody joins."""
    occupant: jax.Array
    first: jax.Array
    """bool: a request joins for the first time."""
    exceeded: jax.Array
    """bool: there was no free slot."""


@phase
def _seat(
    shape: Shape,
    here: Here,
    candidate: Candidate,
    request: jax.Array,
    joins: jax.Array,
    free: jax.Array,
    victim: shortage.Victim | None,
) -> Seating:
    known, remaining = unpack(candidate.lengths)
    no_slot = jnp.int32(shape.slots)
    slot, first = free, joins
    if candidate.slot is not None:
        resumes = candidate.slot < no_slot
        slot, first = select(resumes, candidate.slot, free), joins & ~resumes
    slot = select(joins, slot, no_slot)
    exceeded = joins & (slot == no_slot)
    key = select(joins, ((here.iteration + remaining) << shape.slot_bits) | slot, NEVER)
    occupant = pack(request, known - here.iteration)
    if victim is not None:
        evicted = victim.slot < no_slot
        slot = select(evicted, victim.slot, slot)
        key = select(evicted & victim.left, 0, key)
        occupant = select(evicted, pack(victim.request, victim.known), occupant)
    return Seating(slot, key, occupant, first, exceeded)


class Relief(NamedTuple):
    """What a round of a lane that counts blocks carries from its shortage to its end."""

    short: jax.Array
    """bool: a running request lacked a block; one was preempted, and the round does nothing else."""
    busy: jax.Array
    """bool: the round preempts or records, so the candidate was not asked."""
    victim: shortage.Victim
    preempted: jax.Array
    barred: jax.Array
    recording: jax.Array | None
    unrecorded: jax.Array | None
    gap_s: jax.Array | None
    """The gap that is recorded in this round; 0 when none is."""
    preemptions: jax.Array
    recomputed_tokens: jax.Array

    def shortage(self, preempted: jax.Array, here: Here, iterated: jax.Array, decodes: jax.Array) -> Shortage:
        """The state to carry on: nobody is barred once an iteration was composed, or when none can be and none runs."""
        awaited = decodes > 0
        if here.free_s is not None:
            awaited = awaited | (here.free_s > here.now_s)
        return Shortage(
            preempted=preempted,
            unrecorded=self.unrecorded,
            barred=self.barred & ~iterated & awaited,
            preemptions=self.preemptions,
            recomputed_tokens=self.recomputed_tokens,
        )


def _relieve(
    model: Model, shape: Shape, state: State, here: Here, tokens: jax.Array, blocks: shortage.Blocks
) -> tuple[jax.Array, Here, Relief]:
    """In a shortage, preempt the candidate in mid-prefill, else the decode admitted last; grant nothing then."""
    was = state.shortage
    assert was is not None and state.candidate.request is not None
    recording = None if was.unrecorded is None else (was.unrecorded > 0) & (state.batch.tokens == 0)
    first = jnp.bool_(False) if recording is None else recording
    short = shortage.lacks_block(model, shape, here, state.batch.tokens, tokens, blocks, first)
    drops, evicts = short & (here.computed > 0), short & (here.computed == 0)
    victim = shortage.last_admitted(shape, here, evicts, state.slots, state.last_key)
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
        recomputed_tokens=was.recomputed_tokens
        + select(drops, here.computed, 0)
        + select(stops, known - 1, 0),
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


def _note_gap(
    shape: Shape, slots: Slots, relief: Relief, here: Here, resumes: jax.Array
) -> tuple[Slots, Relief]:
    """Note when a victim emitted its last token; take up a gap that a resumed request has closed."""
    if relief.recording is None or relief.unrecorded is None or slots.last_token_s is None:
        return slots, relief
    gap = shortage.unrecorded_gap(shape, relief.recording, slots)
    evicted = (relief.victim.slot < shape.slots) & ~relief.victim.left
    place = select(evicted, relief.victim.slot, gap.slot)
    slots = replace(slots, last_token_s=put_slot(slots.last_token_s, place, select(evicted, compose.ends_s(here), -jnp.inf)))
    return slots, relief._replace(
        gap_s=select(relief.recording, compose.ends_s(here) - gap.since_s, 0.0),
        unrecorded=relief.unrecorded + resumes - relief.recording,
    )
