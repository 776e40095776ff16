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

import jax.numpy as jnp

from jaxsim._arrays import Pending, add_each, put, put_min, take
from jaxsim.engine import compose, settle, shortage
from jaxsim.engine.compose import Here
from jaxsim.engine.shape import Shape
from jaxsim.engine.state import Candidate, Columns, Model, State


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
            tokens, here, relief = shortage.relieve(model, shape, state, here, tokens, blocks)

        # run
        request = state.head if candidate.request is None else candidate.request
        starting = compose.starting(shape, request, here.computed, tokens)
        first_scheduled_s = put_min(records.first_scheduled_s, starting, compose.starts_s(here))
        records = replace(records, first_scheduled_s=first_scheduled_s)
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
        seating = compose.seat(shape, here, candidate, request, joins, slot, None if relief is None else relief.victim)
        here = compose.after_grant(here, candidate, granted, joins)
        finish_key = Pending(slots.finish_key, seating.slot, seating.key)
        occupant = Pending(slots.request, seating.slot, seating.occupant)
        head, next_key = state.head + seating.first, jnp.minimum(here.next_key, seating.key)
        if relief is not None:
            slots, relief = shortage.note_gap(shape, slots, finish_key, relief, here, joins & ~seating.first)
            next_key = settle.soonest(finish_key, state.last_key)
            candidate = shortage.next_candidate(
                shape, columns, head, relief.preempted, finish_key, occupant, here.computed, candidate
            )
        else:
            candidate = Candidate(take(columns.arrival_s, head), take(columns.lengths, head), None, None)
        here = here._replace(next_key=next_key)

        # close
        joining = settle.Joining(joins, seating.first, request, batch.first_token_of)
        closes = settle.closes_now(model, shape, here, batch, candidate, joining)
        close_s = settle.close_seconds(model, batch, closes)
        here = settle.after_close(here, closes, close_s)
        first_token = settle.first_token(shape, here, joining, closes)
        records = replace(records, first_token_s=put(records.first_token_s, first_token.request, first_token.value))
        open_tokens, first_token_of = settle.emptied(shape, batch.tokens, joining, closes)

        # stretch
        piece = settle.price_stretch(model, here)
        standing = None
        if relief is not None and blocks is not None:
            held_up = relief.busy if relief.unrecorded is None else relief.busy | (relief.unrecorded > 0)
            standing = settle.Standing(blocks.held, blocks.limit, relief.barred, held_up)
        settled = settle.Settled(closes, granted)
        k = settle.stretch_length(model, shape, here, open_tokens, candidate, piece, settled, standing)
        stretch_s = settle.spent_s(piece, k)
        before_stretch = here
        busy = None if relief is None else relief.busy
        here = settle.after_stretch(here, open_tokens, candidate, k, piece, settled, busy)
        exceeded = settle.crowded(model, shape, here, candidate, state.exceeded, seating.exceeded)

        # retire
        holding = None if relief is None or relief.unrecorded is None else relief.unrecorded > 0
        leaving = settle.finisher(shape, here, open_tokens, holding)
        retired = settle.retire(shape, here, state.last_key, leaving, occupant.at(leaving))
        records = replace(records, finish_s=put(records.finish_s, retired.request, compose.ends_s(here)))

        # record
        if records.itl_counts is not None and batch.decodes is not None:
            last = settle.credit(stretch_s, k, before_stretch.decodes)
            if relief is not None and relief.gap_s is not None:
                last = settle.or_gap(last, relief.gap_s)
            credits = [last, settle.credit_close(close_s, closes, batch.decodes)]
            if run is not None:
                credits.append(settle.credit(run_s, run, before_run.decodes))
            bins, gaps = zip(*credits, strict=True)
            records = replace(records, itl_counts=add_each(records.itl_counts, bins, gaps))
        if records.kv_token_seconds is not None and batch.resident is not None:
            spent = settle.resident(piece, k, before_stretch, 0) + close_s * batch.resident
            if run is not None and run_piece is not None:
                spent = spent + settle.resident(run_piece, run, before_run, tokens)
            records = replace(records, kv_token_seconds=records.kv_token_seconds + spent)

        return State(
            now_s=here.now_s,
            free_s=here.free_s,
            iteration=here.iteration,
            rebased=state.rebased,
            decodes=retired.decodes,
            context=retired.context,
            computed=here.computed,
            next_key=settle.soonest(finish_key, retired.last_key),
            last_key=retired.last_key,
            leaving=retired.leaving,
            head=head,
            candidate=candidate,
            batch=replace(batch, tokens=open_tokens, first_token_of=first_token_of),
            slots=replace(slots, finish_key=finish_key.written(), request=occupant.written()),
            shortage=None if relief is None else relief.carried(here, settled.composed() | (k > 0), retired.decodes),
            records=records,
            exceeded=exceeded,
        )

    return step
