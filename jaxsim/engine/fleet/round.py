"""One round of a fleet: a fixed pipeline of masked phases, about one instance.

fail      instances become unavailable, and their requests go elsewhere
grant     memory at a decode instance to a request that waits for it, and its link
land      a KV transfer
arrive    the next request: route it and queue it
choose    the instance whose batch ends first, or that is to compose one
end       apply the results of its batch; then one request leaves, or goes back to the queue
compose   ask its policy for one step, and do it
close     if the batch is complete: price it, and find for how many iterations it will be composed again

At equal times batches end, then transfers land, then requests arrive, then instances compose, by number. An instance
that is ending or composing is gone on with in the next round until it is done; nothing else happens in between.
Somebody who comes to an instance wakes it, or cuts the stretch it is in after what is composed already.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsim._arrays import add_each, first_least, put, put_add, put_min, select, take
from jaxsim._status import LaneStatus, RequestStatus
from jaxsim.engine.fleet import composing, ending, failing, handover, switching, transfers
from jaxsim.engine.fleet.lane import Here, Lane
from jaxsim.engine.fleet.shape import FleetShape
from jaxsim.engine.fleet.state import (
    COMPOSING,
    ENDING,
    FREE,
    NEXT,
    Events,
    Fleet,
    Instance,
    Kind,
    Requests,
    State,
    gather,
    scatter,
)
from jaxsim.engine.policy.base import Head
from jaxsim.engine.record import itl_bin


def build(fleet: Fleet, requests: Requests, shape: FleetShape) -> Callable[[State], State]:
    """The round of one lane as a pure function of its state."""
    lane = Lane(fleet, requests, shape)
    return lambda state: step(lane, state)


def _repeated(kind: Kind, memory: jax.Array, times: jax.Array) -> jax.Array:
    """What a policy remembers once the batch composed last was composed some times more."""
    own = len(kind.policy.memory)
    return jnp.concatenate([kind.policy.repeated(memory[:own], times), memory[own:]])


def step(lane: Lane, state: State) -> State:
    """One round."""
    if lane.shape.transfers:
        state = transfers.grant(lane, state)
        state = transfers.land(lane, state)
    if lane.shape.outages:
        state = failing.change(lane, state)
        state = failing.take_one(lane, state)
        state = failing.send_one(lane, state)
    state = arrive(lane, state)
    state = choose(lane, state)
    instance, here = gather(state, state.at), lane.here(state.at)
    state, instance = end(lane, state, instance, here)
    state, instance = compose(lane, state, instance, here)
    return scatter(state, state.at, instance)


def arrive(lane: Lane, state: State) -> State:
    """Route and queue the next request, if it is next."""
    arrives_s = lane.arrives_s(state)
    due = (state.doing == NEXT) & ~lane.settles(state) & (arrives_s < jnp.inf) & ~lane.fails(state)
    due = (
        due
        & (arrives_s < lane.changes_s(state))
        & (arrives_s < jnp.min(state.ends_s))
        & (arrives_s <= jnp.min(lane.ready_s(state)))
    )
    due = due & (arrives_s < lane.lands_s(state)) & (~lane.pending(state) | (arrives_s <= state.now_s))
    request = select(due, state.next_request, lane.none)
    state = replace(state, now_s=select(due, arrives_s, state.now_s), arrives_s=arrives_s)
    if state.clients is not None:
        state = send(lane, state, request, due)
    known, total = take(lane.requests.prompt, state.next_request), take(lane.requests.total, state.next_request)
    uniform = take(lane.requests.uniform, state.next_request)
    state = lane.send_front(state, request, uniform, known, total, due)
    state = replace(state, next_request=state.next_request + due, moves=state.moves + due)
    return replace(state, arrives_s=lane.arrives_s(state))


def send(lane: Lane, state: State, request: jax.Array, due: jax.Array) -> State:
    """A client sends a request."""
    clients = state.clients
    assert clients is not None
    clients = replace(clients, sent_s=put(clients.sent_s, request, state.now_s))
    if lane.shape.users:
        user = first_least(clients.ready_s)
        mine = (jnp.arange(lane.shape.users) == user) & due
        clients = replace(
            clients,
            ready_s=select(mine, jnp.inf, clients.ready_s),
            user=put(clients.user, request, user),
        )
    return replace(state, clients=clients)


def choose(lane: Lane, state: State) -> State:
    """Take up the next batch that ends, or the next that is to be composed."""
    ready_at_s = lane.ready_s(state)
    end_s, ready_s, lands_s = jnp.min(state.ends_s), jnp.min(ready_at_s), lane.lands_s(state)
    pending, others_s = lane.pending(state), jnp.minimum(state.arrives_s, lane.changes_s(state))
    free = state.doing == NEXT
    soonest = jnp.minimum(others_s, lands_s)
    ends = free & (end_s < jnp.inf) & (end_s <= jnp.minimum(ready_s, soonest))
    ends = ends & (~(pending | lane.fails(state)) | (end_s <= state.now_s))
    composes = free & ~ends & (ready_s < jnp.minimum(end_s, soonest))
    composes = composes & ~lane.settles(state) & ~lane.fails(state) & (~pending | (ready_s <= state.now_s))
    at = select(ends, first_least(state.ends_s), first_least(ready_at_s))
    now_s = jnp.maximum(state.now_s, select(ends, end_s, select(composes, ready_s, state.now_s)))
    return replace(
        state,
        now_s=now_s,
        at=select(ends | composes, at, state.at),
        doing=select(ends, ENDING, select(composes, COMPOSING, state.doing)),
    )


def nothing_else_now(lane: Lane, state: State) -> jax.Array:
    """Whether nothing is to happen at this instant before the instance at hand composes its batch."""
    others = lane.instances != state.at
    ready_s = select(others, state.ready_s, jnp.inf)
    soonest = jnp.min(jnp.minimum(select(others, state.ends_s, jnp.inf), ready_s))
    soonest = jnp.minimum(soonest, jnp.minimum(state.arrives_s, lane.lands_s(state)))
    soonest = jnp.minimum(soonest, lane.changes_s(state))
    return (soonest > state.now_s) & ~lane.settles(state) & lane.available(state)[state.at] & ~lane.fails(state)


def end(lane: Lane, state: State, instance: Instance, here: Here) -> tuple[State, Instance]:
    """Apply the results of the batch that ends; one request leaves or is queued again."""
    ends = (state.doing == ENDING) & (instance.ends_s <= state.now_s)
    times = jnp.maximum(instance.counts.k - 1, 0)
    memory = here.of(lambda kind: _repeated(kind, instance.memory, times))
    instance = instance._replace(memory=select(ends, memory, instance.memory))
    start_s = instance.clock.start_s
    instance, emission = ending.emit(instance, ends, here.two, here.block_size)
    row = _Row(emission.iterations, start_s, emission.end_s, emission.batch_tokens)
    state = _record_event(lane, state, instance, row)
    is_ending = state.doing == ENDING
    keeps = here.of(lambda kind: jnp.bool_(kind.policy.keeps_finished))
    most = here.of(lambda kind: kind.most_tokens)
    instance, left = ending.depart(instance, is_ending, keeps, most, jnp.int32(lane.none))
    state = _record_end(lane, state, emission, left)
    state = requeue(lane, state, left.requeued, left.known, here)
    if state.clients is not None:
        state = lane.answered(state, left.finished)
    if state.handover is not None:
        mine = lane.instances == state.at
        state = replace(  # the router looks at this instance too
            state,
            queued=select(mine, instance.queued, state.queued),
            running=select(mine, instance.running, state.running),
        )
        state = transfers.hand_over(lane, state, left)
        instance = instance._replace(queued=state.queued[state.at])
        if lane.shape.switches:
            state = transfers.stay(lane, state, left)
    state = replace(state, arrives_s=lane.arrives_s(state))
    done = is_ending & left.done
    return replace(
        state, doing=select(done, select(nothing_else_now(lane, state), COMPOSING, NEXT), state.doing)
    ), instance


def give_up(lane: Lane, state: State, request: jax.Array) -> State:
    """A request (N: nobody) ends without having emitted all its tokens."""
    records, there = state.records, request < lane.none
    given_up = put(records.given_up, request, jnp.int32(RequestStatus.ABORTED))
    state = replace(state, ended=state.ended + there, records=replace(records, given_up=given_up))
    state = state if state.clients is None else lane.answered(state, request)
    return replace(state, arrives_s=lane.arrives_s(state))


def requeue(lane: Lane, state: State, request: jax.Array, known: jax.Array, here: Here) -> State:
    """A preempted request (N: nobody) goes back to the queue of the instance at hand."""
    mine = (lane.instances == state.at) & (request < lane.none)
    total = lane.total_here(state, state.at, here, known, take(lane.requests.total, request), request)
    return replace(
        state,
        queues=lane.push(state, state.at, request, here, in_front=True),
        queued_prompt=state.queued_prompt + select(mine, known, 0),
        queued_outputs=state.queued_outputs + select(mine, total - known, 0),
    )


def compose(lane: Lane, state: State, instance: Instance, here: Here) -> tuple[State, Instance]:
    """One step of the policy; if it completes the batch, start it."""
    is_composing = state.doing == COMPOSING
    waiting = next_waiting(lane, state, instance, here)
    plan = here.of(lambda kind: composing.plan_of(kind, instance, waiting, state.preempted))
    instance, done = composing.follow(
        instance,
        plan,
        waiting,
        is_composing,
        here.of(lambda kind: kind.most_tokens),
        jnp.int32(lane.none),
    )
    preempted = state.preempted | done.preempted
    closes = is_composing & plan.closes & ~waiting.landed
    stretch = here.of(lambda kind: composing.price_stretch(lane.shape, kind, instance, waiting, preempted))
    queued = instance.queued + state.central_waiting
    instance, closed = composing.close(instance, here.two, stretch, queued, closes, preempted)
    opened = _Row(closed.iterations, closed.starts_s, closed.end_s, closed.batch_tokens)
    state = _record_event(lane, state, instance, opened)

    state = _record_composition(lane, state, done, closed)
    if any(kind.policy.gives_up for kind in lane.fleet.kinds):
        state = give_up(lane, state, done.given_up)
    state = admit(lane, state, done, waiting, here)
    state = requeue(lane, state, done.requeued, done.known, here)
    if state.handover is not None:
        passed = handover.look_again(state.handover, state.at, done.freed, handover.AFTER)
        gone = jnp.minimum(done.victim, done.given_up)
        joined = is_composing & waiting.landed & (done.admitted < lane.none)
        stamps = passed.stamps
        stamps = replace(
            stamps,
            scheduled_s=put(stamps.scheduled_s, select(done.decode_s > 0, gone, lane.none), done.decode_s),
            admitted_s=put(stamps.admitted_s, select(joined, lane.none, done.admitted), closed.starts_s),
        )
        incoming = passed.incoming - ((lane.instances == state.at) & joined)
        passed = replace(passed, landed=passed.landed.pop(state.at, joined), incoming=incoming, stamps=stamps)
        state = replace(state, handover=passed)
        if state.lending is not None:
            tokens = select((lane.instances == state.at) & joined, waiting.head.known - 1, 0)
            lending = replace(state.lending, incoming_tokens=state.lending.incoming_tokens - tokens)
            state = replace(state, lending=lending)
    if lane.shape.central:
        idle = closes & (instance.ends_s == jnp.inf) & (instance.ready_s == jnp.inf)
        state = lane.offer_next(state, idle & (state.central_waiting > 0))
    return replace(
        state,
        doing=select(closes & ~closed.again, NEXT, state.doing),
        preempted=preempted & is_composing & ~closes,
        exceeded=select(
            (state.exceeded == LaneStatus.OK) & done.exceeded, int(LaneStatus.SLOTS_EXCEEDED), state.exceeded
        ),
    ), instance


def next_waiting(lane: Lane, state: State, instance: Instance, here: Here) -> composing.Waiting:
    """Whoever is next to be admitted."""
    request = lane.head(state, state.at, here)
    num_waiting, own = instance.queued, jnp.bool_(True)
    if lane.shape.central:
        central = lane.head(state, jnp.int32(lane.shape.instances), here)
        mine = switching.takes_prefills(lane, state)[state.at]
        own = ~(mine & takes_central(lane, request, central, here))
        request = select(own, request, central)
        num_waiting = num_waiting + select(mine, state.central_waiting, 0)
    landed = unscheduled = jnp.bool_(False)
    if state.handover is not None:
        first = state.handover.landed.first(state.at)
        seats = here.of(lambda kind: kind.most_seqs)
        slots = instance.slots
        fresh = jnp.all((slots.status == FREE) | (slots.known == slots.goal + 1))
        forms = fresh | ~here.of(lambda kind: jnp.bool_(kind.policy.keeps_finished))
        starts = ~state.preempted & ~jnp.any(slots.granted > 0)
        landed = (first < lane.none) & (instance.running < seats) & forms & starts
        request = select(landed, first, request)
        num_waiting = num_waiting - state.handover.incoming[state.at]
        stamps = state.handover.stamps
        unscheduled = ~jnp.isnan(take(stamps.landed_s, request)) & jnp.isnan(take(stamps.scheduled_s, request))
    prompt, known = take(lane.requests.prompt, request), take(state.records.known, request)
    total = take(lane.requests.total, request)
    here_total = lane.total_here(state, state.at, here, known, total, request)
    most = jnp.minimum(total, here.of(lambda kind: kind.most_tokens))
    blocks = here.of(lambda kind: kind.policy.landing_blocks(known, most, here.block_size))
    if state.handover is not None and lane.shape.switches:  # one that stays has its blocks already
        stays = take(state.records.instance, request) == state.at
        blocks = select(stays, take(state.handover.held_blocks, request), blocks)
    head = Head(request < lane.none, prompt, known, select(landed, most, here_total))
    urgency = jnp.int32(0) if lane.requests.urgency is None else take(lane.requests.urgency, request)
    return composing.Waiting(
        request=request,
        head=head,
        all_tokens=total,
        urgency=urgency,
        first_token_s=take(state.records.first_token_s, request),
        last_token_s=take(state.records.last_token_s, request),
        num_waiting=num_waiting,
        own=own,
        landed=landed,
        blocks=blocks,
        decode_s=select(unscheduled, jnp.float64(jnp.nan), 0.0),
    )


def takes_central(lane: Lane, own: jax.Array, central: jax.Array, here: Here) -> jax.Array:
    """Whether the next of two heads is that of the central queue."""
    if list(lane.requests.ranks):
        order = here.kinds[0].policy.order
        if order != "fcfs":
            rank = lane.requests.ranks[order]
            return take(rank, central) < take(rank, own)
    return own == lane.none


def admit(lane: Lane, state: State, done: composing.Done, waiting: composing.Waiting, here: Here) -> State:
    """Whoever was admitted leaves its queue."""
    there = (done.admitted < lane.none) & ~waiting.landed
    if lane.shape.central:
        taken = there & ~waiting.own
        central = jnp.int32(lane.shape.instances)
        state = replace(
            state,
            queues=lane.pop(state, central, taken, here),
            central_waiting=state.central_waiting - taken,
            records=replace(
                state.records,
                instance=put(state.records.instance, select(taken, done.admitted, lane.none), state.at),
            ),
        )
        state = lane.disturb_all(state, taken & (lane.head(state, central, here) < lane.none))
    state = replace(state, queues=lane.pop(state, state.at, there & waiting.own, here))
    mine = (lane.instances == state.at) & (done.admitted < lane.none) & waiting.own
    prompt = select(waiting.landed, 0, waiting.head.known)
    return replace(
        state,
        queued_prompt=state.queued_prompt - select(mine, prompt, 0),
        queued_outputs=state.queued_outputs - select(mine, waiting.head.total - waiting.head.known, 0),
    )


class _Row(NamedTuple):
    """A batch, or a stretch of like ones."""

    iterations: jax.Array
    """0: there is none."""
    start_s: jax.Array
    end_s: jax.Array
    batch_tokens: jax.Array


def _record_event(lane: Lane, state: State, instance: Instance, row: _Row) -> State:
    """Keep a row of what the instance at hand did."""
    events = state.records.events
    if events is None:
        return state
    there, counts = row.iterations > 0, instance.counts
    full = events.count >= lane.shape.events
    place = select(there & ~full, events.count, lane.shape.events)
    numbers = (
        state.at,
        row.iterations,
        row.batch_tokens,
        counts.decodes,
        counts.context,
        instance.running,
        counts.waiting,
        counts.used_blocks,
    )
    events = Events(
        events.count + there,
        events.rows.at[place].set(jnp.stack(numbers), mode="promise_in_bounds"),
        events.times.at[place].set(jnp.stack([row.start_s, row.end_s]), mode="promise_in_bounds"),
    )
    return replace(state, records=replace(state.records, events=events))


def _record_end(lane: Lane, state: State, emission: ending.Emission, left: ending.Departure) -> State:
    r = state.records
    records = replace(
        r,
        finish_s=put(r.finish_s, left.finished, left.last_token_s),
        first_token_s=put(r.first_token_s, left.left, left.first_token_s),
        last_token_s=put(r.last_token_s, left.left, left.last_token_s),
        known=put(r.known, left.left, left.known),
        iterations=r.iterations + emission.iterations,
        makespan_s=select(state.doing == ENDING, jnp.maximum(r.makespan_s, state.now_s), r.makespan_s),
    )
    if r.itl_counts is not None:
        bins = (emission.old_bin, emission.new_bin, itl_bin(left.gap_s))
        gaps = (emission.old_gaps, emission.new_gaps, left.gaps)
        records = replace(records, itl_counts=add_each(r.itl_counts, bins, gaps))
    if r.kv_token_seconds is not None:
        records = replace(records, kv_token_seconds=r.kv_token_seconds + emission.token_seconds)
    return replace(
        state,
        records=records,
        ended=state.ended + (left.finished < lane.none),
        moves=state.moves + emission.tokens,
    )


def _record_composition(lane: Lane, state: State, done: composing.Done, closed: composing.Closed) -> State:
    r = state.records
    left = jnp.minimum(done.requeued, done.given_up)
    records = replace(
        r,
        first_scheduled_s=put_min(r.first_scheduled_s, done.admitted, closed.starts_s),
        first_token_s=put(r.first_token_s, left, done.first_token_s),
        last_token_s=put(r.last_token_s, left, done.last_token_s),
        known=put(r.known, left, done.known),
        preemptions=put_add(r.preemptions, done.victim, jnp.int32(1)),
        recomputed_tokens=r.recomputed_tokens + done.lost_tokens,
        iterations=r.iterations + closed.iterations,
    )
    if r.kv_token_seconds is not None:
        records = replace(records, kv_token_seconds=r.kv_token_seconds + closed.token_seconds)
    return replace(state, records=records)
