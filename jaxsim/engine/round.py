"""One round: a fixed pipeline of masked phases that moves a lane by about one event.

look        count the KV blocks; ask the policy about the candidate
preempt     in a shortage, take one request's blocks away (and do nothing else)
run         a run of full chunks of one prompt, in closed form
grant       give the candidate its chunk, opening the batch if needed; a completed prompt joins the decodes
close       price the batch when nothing more can join it
stretch     decode-only iterations until something can change, in closed form
complete    retire one request that has emitted its last token

Every phase is the identity on a lane it does not concern, so a finished lane is a fixed point, and every write is in
bounds: a lane with nothing to write names the spare element.
"""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import lax

from jaxsim._arrays import over_slots, phase, put, put_add, put_min, put_slot, rarely, select, take, take_slot
from jaxsim.engine import kv
from jaxsim.engine.policy.base import View
from jaxsim.engine.record import itl_bin
from jaxsim.engine.shape import Shape
from jaxsim.engine.state import NEVER, Candidate, Columns, Model, State, unpack_lengths
from jaxsim.engine.stretch import duration_s, iterations_until, iterations_within_spread, token_seconds
from jaxsim.latency import terms as batch_terms

ANY = jnp.int32(2**30)
"""More iterations than any stretch has."""


def build(model: Model, columns: Columns, shape: Shape) -> Callable[[State], State]:
    """The round of one lane as a pure function of its state."""
    policy, latency, pool = model.policy, model.latency, model.pool
    names, bits, block_size = latency.terms, shape.slot_bits, shape.block_size
    none, no_slot = jnp.int32(shape.num_requests), jnp.int32(shape.slots)
    slot_mask = jnp.int32((1 << bits) - 1)
    zero, zero_s = jnp.int32(0), jnp.float64(0)
    bounded = shape.kv_bounded

    def f64(x: jax.Array) -> jax.Array:
        return x.astype(jnp.float64)

    def whole(x: jax.Array) -> jax.Array:
        """A float64 count of iterations as int32, cut to ANY."""
        return jnp.minimum(x, f64(ANY)).astype(jnp.int32)

    # look ------------------------------------------------------------------------------------------------------------

    @phase
    def bound_blocks(iteration, decodes, context, computed, known, next_key):
        limit = pool.num_blocks - kv.ceil_div(computed, block_size)
        held = kv.bound(decodes, context, limit, block_size)
        most = held.blocks + kv.ceil_div(known, block_size) + pool.watermark_blocks + decodes
        due = (next_key >> bits) == iteration
        return held, limit, (most > pool.num_blocks) & (decodes > 0) & ~due

    def exact_blocks(key, offset, last_key, iteration, limit):
        live = (key[:-1] > last_key) & (key[:-1] < NEVER)
        return kv.exact(offset[:-1] + iteration, live, limit, block_size)

    @phase
    def ask(now, iteration, decodes, computed, next_key, batch_tokens, arrival, known, held_blocks, barred):
        """Tokens for the candidate, and whether a running request lacks a block."""
        is_open = batch_tokens > 0
        due = (next_key >> bits) == iteration
        waiting = computed == 0
        view = View(
            batch_tokens=select(is_open, batch_tokens, decodes),
            running=decodes,
            known=known,
            computed=computed,
            waiting=waiting,
            free_blocks=None if held_blocks is None else pool.num_blocks - held_blocks,
            watermark_blocks=pool.watermark_blocks,
            block_size=block_size,
        )
        here = select(waiting, (arrival <= now) & ~barred, True) & (is_open | ~due)
        tokens = select(here, policy.grant(view), 0)
        if held_blocks is None:
            return tokens, jnp.bool_(False)
        after = select(waiting, 0, kv.ceil_div(computed + tokens, block_size))
        short = ~is_open & ~due & (held_blocks + after > pool.num_blocks)
        return select(short, 0, tokens), short

    # preempt ---------------------------------------------------------------------------------------------------------

    def last_admitted(key, request, offset, last_key):
        """Slot, request and offset of the decode that was admitted last: requests are admitted in order."""
        live = (key[:-1] > last_key) & (key[:-1] < NEVER)
        latest = jnp.max(select(live, request[:-1], -1))
        slot = jnp.min(select(live & (request[:-1] == latest), lax.iota(jnp.int32, shape.slots), no_slot))
        return slot, latest, jnp.max(select(lax.iota(jnp.int32, shape.slots) == slot, offset[:-1], -(2**31)))

    def first_preempted(key, request, offset):
        """Slot, request and known tokens of the preempted request at the front of the queue."""
        there = key[:-1] == NEVER
        first = jnp.min(select(there, request[:-1], none))
        slot = jnp.min(select(there & (request[:-1] == first), lax.iota(jnp.int32, shape.slots), no_slot))
        return slot, first, jnp.max(select(lax.iota(jnp.int32, shape.slots) == slot, offset[:-1], 0))

    def unrecorded_slot(key, last_token_s):
        """A slot whose resumed request waits for its gap to be recorded, and when its last token came."""
        there = (key[:-1] < NEVER) & (last_token_s[:-1] > -jnp.inf)
        slot = jnp.min(select(there, lax.iota(jnp.int32, shape.slots), no_slot))
        return slot, jnp.max(select(lax.iota(jnp.int32, shape.slots) == slot, last_token_s[:-1], -jnp.inf))

    # run -------------------------------------------------------------------------------------------------------------

    @phase
    def run_length(iteration, decodes, context, computed, next_key, batch_tokens, known, tokens, near):
        """How many iterations are nothing but one more full chunk of the candidate beside all decodes."""
        if not shape.leap:
            return zero, zero_s, zero_s, zero_s
        growth = batch_terms.add(
            batch_terms.growth_of_decodes(names, decodes), batch_terms.growth_of_chunks(names, tokens)
        )
        first = batch_terms.add(
            batch_terms.of_decodes(names, decodes, context), batch_terms.of_chunk(names, tokens, computed)
        )
        piece = latency.price(first, growth)
        full = lax.div(known - computed - 1, jnp.maximum(tokens, 1))
        k = jnp.minimum(full, (next_key >> bits) - iteration)
        if bounded:
            spare = block_size * (pool.num_blocks - kv.ceil_div(known, block_size) - decodes) - context
            k = jnp.minimum(k, lax.div(spare, jnp.maximum(decodes, 1)))
        k = f64(k)
        if shape.itl:
            k = jnp.minimum(k, iterations_within_spread(piece))
        k = jnp.minimum(k, piece.iterations)
        exclusive = ~policy.may_join(decodes + tokens, decodes + 1)
        starts = (tokens > 0) & (batch_tokens == 0) & exclusive & (k >= 1) & ~near
        k = select(starts, k, 0.0)
        seconds = duration_s(piece, k)
        resident = token_seconds(piece, k, f64(context + computed + tokens), f64(decodes + tokens))
        return whole(k), seconds, seconds / jnp.maximum(k, 1.0), resident

    # grant -----------------------------------------------------------------------------------------------------------

    @phase
    def grant(iteration, decodes, context, computed, next_key, batch, candidate, tokens, run):
        """Add the candidate's chunk to the batch, opening it first with all decodes."""
        stopped = (run > 0) & ((next_key >> bits) == iteration)
        tokens = select(stopped, 0, jnp.minimum(tokens, candidate.known - computed))
        granted = tokens > 0
        opens = granted & (batch.tokens == 0)
        # the last prompt token of a request is indistinguishable from a decode
        as_decode = granted & (candidate.known - computed == 1)
        chunk = batch_terms.of_chunk(names, select(as_decode, 0, tokens), computed)
        single = batch_terms.of_decodes(names, f64(as_decode), f64(select(as_decode, computed + 1, 0)))
        fresh = batch_terms.of_decodes(names, decodes, context)
        terms = {
            name: select(opens, fresh[name], batch.terms[name]) + chunk[name] + single[name] for name in batch.terms
        }
        computed = computed + tokens
        joins = granted & (computed == candidate.known)
        new = replace(
            batch,
            tokens=select(opens, decodes, batch.tokens) + tokens,
            terms=terms,
            decodes=None if batch.decodes is None else select(opens, decodes, batch.decodes),
            resident=None
            if batch.resident is None
            else select(opens, context, batch.resident) + select(granted, computed, 0),
        )
        return (
            new,
            granted,
            joins,
            select(joins, 0, computed),
            decodes + joins,
            context + select(joins, candidate.known, 0),
        )

    @over_slots
    def free_slot(key, last_key):
        return jnp.min(select(key[:-1] <= last_key, lax.iota(jnp.int32, shape.slots), no_slot))

    @phase
    def seat(iteration, candidate, joins, free):
        """Where a completed prompt joins, and what its slot holds."""
        slot = select(candidate.slot < no_slot, candidate.slot, free)
        slot = select(joins, slot, no_slot)
        key = ((iteration + candidate.remaining) << bits) | slot
        return slot, key, candidate.known - iteration, joins & (slot == no_slot)

    @phase
    def next_candidate(arrival, lengths, head, keep, kept, resumed, resumed_lengths):
        """The candidate of the next question: the one in mid-prefill, else a preempted one, else the head."""
        prompt, outputs = unpack_lengths(lengths)
        fresh = Candidate(head, arrival, prompt, outputs, no_slot)
        if resumed is not None:
            slot, request, known = resumed
            was_prompt, was_outputs = unpack_lengths(resumed_lengths)
            again = Candidate(request, zero_s, known, was_prompt + was_outputs - known, slot)
            fresh = jax.tree.map(lambda a, b: select(request < none, a, b), again, fresh)
        return jax.tree.map(lambda a, b: select(keep, a, b), kept, fresh)

    # close -----------------------------------------------------------------------------------------------------------

    @phase
    def close(now, batch, decodes, computed, candidate, granted, joins, joins_first, before, short):
        """Price the batch when nothing more can join; the first tokens of its prompts come at its end."""
        may_join = joins & (candidate.arrival_s <= now) & policy.may_join(batch.tokens, decodes)
        chained = joins_first & (before < none)
        closes = (batch.tokens > 0) & ~may_join & ~chained & ~short
        nothing = {name: zero_s for name in names}
        seconds = select(closes, latency.price(batch.terms, nothing).first_s, 0.0)
        now = now + seconds
        first_token_of = batch.first_token_of
        at = select(chained, before, select(closes, first_token_of, none))
        value = select(chained, f64(-1 - first_token_of), now)
        emptied = replace(
            batch, tokens=select(closes, 0, batch.tokens), first_token_of=select(closes, none, first_token_of)
        )
        return closes, now, seconds, emptied, at, value

    # stretch ---------------------------------------------------------------------------------------------------------

    @phase
    def stretch_limits(now, iteration, decodes, context, computed, next_key, batch_tokens, candidate, held, limit, state):
        """How many decode-only iterations surely run before anything can change."""
        closes, granted, short, barred, recording, unrecorded = state
        due = (next_key >> bits) == iteration
        seats = policy.may_join(decodes, decodes)
        arrived = candidate.arrival_s <= now
        refused = ~closes & ~granted & ~recording
        clear = ~arrived | ~seats | refused
        go = (batch_tokens == 0) & (decodes > 0) & (computed == 0) & ~due & ~short & ~unrecorded & clear
        k = (next_key >> bits) - iteration
        if bounded:
            again = kv.bound(decodes, context, limit, block_size).iterations
            k = jnp.minimum(k, select(refused, held.iterations, again))
            k = select(barred, jnp.minimum(k, 1), k)
        if not shape.leap:
            k = jnp.minimum(k, 1)
        wait = select(arrived | ~seats | (candidate.request == none), jnp.inf, candidate.arrival_s - now)
        return select(go & (k >= 1), k, 0), wait

    @phase
    def stretch(now, decodes, context, computed, k, wait):
        """Advance by the iterations of one stretch, or, when idle, to the next arrival."""
        piece = latency.price(
            batch_terms.of_decodes(names, decodes, context), batch_terms.growth_of_decodes(names, decodes)
        )
        most = f64(k)
        if shape.leap:
            most = jnp.minimum(most, iterations_until(piece, wait))
            most = jnp.minimum(most, piece.iterations)
            if shape.itl:
                most = jnp.minimum(most, iterations_within_spread(piece))
        seconds = duration_s(piece, most)
        resident = token_seconds(piece, most, f64(context + computed), f64(decodes))
        return whole(most), now + seconds, seconds / jnp.maximum(most, 1.0), resident

    @phase
    def idle(now, decodes, computed, batch_tokens, candidate, short):
        waits = (decodes == 0) & (computed == 0) & (batch_tokens == 0) & (candidate.request < none) & ~short
        return select(waits, jnp.maximum(now, candidate.arrival_s), now)

    # complete --------------------------------------------------------------------------------------------------------

    @phase
    def finisher(iteration, decodes, next_key, batch_tokens, unrecorded):
        done = ((next_key >> bits) == iteration) & (decodes > 0) & (batch_tokens == 0) & ~unrecorded
        return done, select(done, next_key & slot_mask, no_slot)

    @phase
    def retire(iteration, decodes, context, next_key, last_key, done, request, offset):
        return (
            select(done, request, none),
            decodes - done,
            context - select(done, offset + iteration, 0),
            select(done, next_key, last_key),
        )

    @over_slots
    def soonest(key, last_key):
        return jnp.min(select(key[:-1] > last_key, key[:-1], NEVER))

    @phase
    def itl_credit(gap_s, weight):
        return itl_bin(gap_s), weight

    # the pipeline ----------------------------------------------------------------------------------------------------

    def step(state: State) -> State:
        now, iteration, candidate = state.now_s, state.iteration, state.candidate
        decodes, context, computed = state.decodes, state.context, state.computed
        next_key, last_key, batch, slots, records = (
            state.next_key,
            state.last_key,
            state.batch,
            state.slots,
            state.records,
        )
        preempted, unrecorded, barred = state.preempted, state.unrecorded, state.closed_to_new
        false = jnp.bool_(False)

        # look
        held, limit, near, held_blocks = None, None, false, None
        if bounded:
            bound, limit, near = bound_blocks(iteration, decodes, context, computed, candidate.known, next_key)
            held = rarely(
                near, exact_blocks, bound, slots.finish_key, slots.offset, last_key, iteration, limit
            )
            held_blocks = held.blocks
        recording = false if unrecorded is None else (unrecorded > 0) & (batch.tokens == 0)
        tokens, short = ask(
            now,
            iteration,
            decodes,
            computed,
            next_key,
            batch.tokens,
            candidate.arrival_s,
            candidate.known,
            held_blocks,
            false if barred is None else barred,
        )
        tokens, short = select(recording, 0, tokens), short & ~recording

        # preempt
        victim, head = None, state.head
        if bounded:
            drops, evicts = short & (computed > 0), short & (computed == 0)
            victim = rarely(
                evicts,
                last_admitted,
                (no_slot, none, zero),
                slots.finish_key,
                slots.request,
                slots.offset,
                last_key,
            )
            known = select(evicts, victim[2] + iteration, 0)
            lost = select(drops, candidate.request, victim[1])
            records = replace(
                records,
                preemptions=put_add(records.preemptions, lost, jnp.int32(1)),
                recomputed_tokens=records.recomputed_tokens
                + select(drops, computed, 0)
                + select(evicts, known - 1, 0),
            )
            computed = select(drops, 0, computed)
            decodes, context = decodes - evicts, context - known
            preempted = preempted + evicts
            barred = barred | short

        # run
        starts = (tokens > 0) & (computed == 0)
        records = replace(
            records,
            first_scheduled_s=put_min(
                records.first_scheduled_s, select(starts, candidate.request, none), now
            ),
        )
        run, run_s, run_gap_s, run_kv = run_length(
            iteration, decodes, context, computed, next_key, batch.tokens, candidate.known, tokens, near
        )
        ran_decodes = decodes
        now = now + run_s
        iteration, computed, context = iteration + run, computed + run * tokens, context + run * decodes

        # grant
        before = batch.first_token_of
        batch, granted, joins, computed, decodes, context = grant(
            iteration, decodes, context, computed, next_key, batch, candidate, tokens, run
        )
        slot, key, offset, exceeded = seat(iteration, candidate, joins, free_slot(slots.finish_key, last_key))
        resumes = joins & (candidate.slot < no_slot)
        joins_first = joins & ~resumes
        batch = replace(batch, first_token_of=select(joins_first, candidate.request, before))
        request = candidate.request
        if bounded:
            evicted = victim[0] < no_slot
            slot, key = select(evicted, victim[0], slot), select(evicted, NEVER, key)
            offset, request = select(evicted, known, offset), select(evicted, victim[1], request)
            preempted = preempted - resumes
        head = head + joins_first
        gap_s = None
        if unrecorded is not None:
            noted, since = rarely(
                recording, unrecorded_slot, (no_slot, -jnp.inf + zero_s), slots.finish_key, slots.last_token_s
            )
            gap_s = now - since
            mark = select(evicted, victim[0], noted)
            slots = replace(
                slots, last_token_s=put_slot(slots.last_token_s, mark, select(evicted, now, -jnp.inf))
            )
            unrecorded = unrecorded + resumes - recording
        slots = replace(
            slots,
            finish_key=put_slot(slots.finish_key, slot, key),
            request=put_slot(slots.request, slot, request),
            offset=put_slot(slots.offset, slot, offset),
        )
        next_key = soonest(slots.finish_key, last_key)
        resumed = resumed_lengths = None
        if bounded:
            resumed = rarely(
                preempted > 0, first_preempted, (no_slot, none, zero), slots.finish_key, slots.request, slots.offset
            )
            resumed_lengths = take(columns.lengths, resumed[1])
        candidate = next_candidate(
            take(columns.arrival_s, head),
            take(columns.lengths, head),
            head,
            computed > 0,
            candidate,
            resumed,
            resumed_lengths,
        )

        # close
        closes, now, close_s, batch, at, value = close(
            now, batch, decodes, computed, candidate, granted, joins, joins_first, before, short
        )
        iteration, context = iteration + closes, context + select(closes, decodes, 0)
        records = replace(records, first_token_s=put(records.first_token_s, at, value))

        # stretch
        holding = false if unrecorded is None else unrecorded > 0
        k, wait = stretch_limits(
            now,
            iteration,
            decodes,
            context,
            computed,
            next_key,
            batch.tokens,
            candidate,
            held,
            limit,
            (closes, granted, short, false if barred is None else barred, recording, holding),
        )
        k, now, stretch_gap_s, stretch_kv = stretch(now, decodes, context, computed, k, wait)
        stretch_decodes = decodes
        iteration, context = iteration + k, context + k * decodes
        now = idle(now, decodes, computed, batch.tokens, candidate, short)
        if bounded:
            barred = barred & ~closes & (k == 0) & (decodes > 0)

        # complete
        done, leaving = finisher(iteration, decodes, next_key, batch.tokens, holding)
        retired, decodes, context, last_key = retire(
            iteration,
            decodes,
            context,
            next_key,
            last_key,
            done,
            take_slot(slots.request, leaving),
            take_slot(slots.offset, leaving),
        )
        records = replace(records, finish_s=put(records.finish_s, retired, now))
        next_key = soonest(slots.finish_key, last_key)

        # record
        counts = records.itl_counts
        if counts is not None:
            if shape.leap:
                counts = put_add(counts, *itl_credit(run_gap_s, run * ran_decodes))
            counts = put_add(counts, *itl_credit(close_s, select(closes, batch.decodes, 0)))
            weight = k * stretch_decodes
            if gap_s is not None:
                weight, stretch_gap_s = weight + recording, select(recording, gap_s, stretch_gap_s)
            counts = put_add(counts, *itl_credit(stretch_gap_s, weight))
        records = replace(
            records,
            itl_counts=counts,
            kv_token_seconds=None
            if records.kv_token_seconds is None
            else records.kv_token_seconds + run_kv + close_s * f64(batch.resident) + stretch_kv,
            iterations=records.iterations + run + closes + k,
        )
        return State(
            now_s=now,
            iteration=iteration,
            decodes=decodes,
            context=context,
            computed=computed,
            next_key=next_key,
            last_key=last_key,
            head=head,
            candidate=candidate,
            preempted=preempted,
            unrecorded=unrecorded,
            closed_to_new=barred,
            batch=batch,
            slots=slots,
            records=records,
            slots_exceeded=state.slots_exceeded | exceeded,
        )

    return step
