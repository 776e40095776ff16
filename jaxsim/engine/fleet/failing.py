"""Phases of instances that become unavailable: what they run is dropped, and their requests go elsewhere or are lost.

Iterations that have ended by then are applied first. Then the requests of the instance are taken from it one by one: of
its running list, its waiting queue, those that have landed, those that are to come by transfer or to leave by one. Only
when all failing instances are empty are they sent to others, as if they arrived.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp

from jaxsim._arrays import first_least, first_there, put, select, take
from jaxsim._status import RequestStatus
from jaxsim.engine.fleet import handover, routing
from jaxsim.engine.fleet.lane import Lane
from jaxsim.engine.fleet.state import FREE, LIMBO, NEXT, RUNNING, Clock, Counts, State, fresh_memory, gather, scatter
from jaxsim.engine.policy.base import any_of, at, first_of


def change(lane: Lane, state: State) -> State:
    """The next instance fails, or is available again, if that is next."""
    outages, away = lane.fleet.outages, state.away
    assert outages is not None and away is not None
    at_s, fails = take(outages.at_s, away.next), take(outages.fails, away.next) > 0
    end_s, lands_s = jnp.min(state.ends_s), lane.lands_s(state)
    others_s = jnp.minimum(state.arrives_s, jnp.min(lane.ready_s(state)))
    due = (state.doing == NEXT) & ~lane.settles(state) & (at_s < jnp.inf) & (at_s <= others_s)
    due = due & select(fails, (at_s < end_s) & (at_s < lands_s), at_s <= jnp.minimum(end_s, lands_s))
    due = due & (~(lane.pending(state) | lane.fails(state)) | (at_s <= state.now_s))
    index = take(outages.instance, away.next)
    mine = (lane.instances == index) & due
    down, up = mine & fails, mine & ~fails
    now_s = select(due, jnp.maximum(at_s, state.now_s), state.now_s)
    state = replace(
        state,
        now_s=now_s,
        away=replace(
            away,
            next=away.next + due,
            next_s=take(outages.at_s, away.next + due),
            available=(away.available | up) & ~down,
            failing=away.failing | down,
        ),
    )
    state = _drop(lane, state, index, due & fails)
    waits = state.queued[index] + state.central_waiting > 0
    memory = fresh_memory(lane.fleet, state.clocks.shape[1] - len(Clock._fields))
    clocks = state.clocks.at[:, len(Clock._fields) :].set(
        select(up[:, None], memory, state.clocks[:, len(Clock._fields) :])
    )
    state = replace(
        state, clocks=clocks, ready_s=select(up, select(waits, now_s, jnp.inf), select(down, jnp.inf, state.ready_s))
    )
    if state.handover is not None:
        passed = handover.look_again(state.handover, index, due & ~fails, handover.BEFORE)
        state = replace(state, handover=passed)
    return state


def _drop(lane: Lane, state: State, index: jax.Array, there: jax.Array) -> State:
    """The batches in flight at an instance come to nothing, but for iterations that have ended."""
    counts, clock = Counts(*state.counts[index]), Clock(*state.clocks[index][: len(Clock._fields)])
    two, runs = lane.here(index).two, state.ends_s[index] < jnp.inf
    done = routing.composed(counts, clock, state.now_s, two).applied
    begun = runs & (counts.k > 0) & (state.now_s >= clock.start_s)
    keeps = begun & select(two, True, done > 0)
    k = select(keeps, select(two, done + 1, done), 0)
    ends_s = select(keeps, routing.cut_ends_s(clock, k, two), jnp.inf)
    after = counts._replace(k=k, old=select(keeps, counts.old, 0))
    return replace(
        state,
        counts=state.counts.at[index].set(select(there, jnp.stack(after), state.counts[index])),
        ends_s=select((lane.instances == index) & there, ends_s, state.ends_s),
    )


def take_one(lane: Lane, state: State) -> State:
    """Take one request from the first failing instance; if it has none, it has failed."""
    away, outages = state.away, lane.fleet.outages
    assert away is not None and outages is not None
    more = (away.next_s <= state.now_s) & (take(outages.fails, away.next) > 0)
    goes = (state.doing == NEXT) & jnp.any(away.failing) & (jnp.min(state.ends_s) > state.now_s) & ~more
    index = first_there(away.failing)
    here, instance = lane.here(index), gather(state, index)
    s, t = instance.slots, instance.times
    none = lane.none

    in_slot = goes & ((s.status == RUNNING) | (s.status == LIMBO))
    one = first_of(in_slot, s.rank)
    from_slot = any_of(one)
    queued = lane.head(state, index, here)
    from_queue = goes & ~from_slot & (queued < none)
    landed, moving = jnp.int32(none), jnp.int32(none)
    if state.handover is not None:
        landed = state.handover.landed.first(index)
        mine = (state.records.instance[:-1] == index) | (state.handover.target[:-1] == index)
        ask = select((away.transit[:-1] > 0) & mine, away.ask[:-1], 2**31 - 1)
        moving = select(jnp.min(ask) < 2**31 - 1, first_least(ask), none)
    from_landed = goes & ~from_slot & ~from_queue & (landed < none)
    from_transfer = goes & ~from_slot & ~from_queue & ~from_landed & (moving < none)
    request = select(from_landed, landed, select(from_transfer, moving, none))
    request = select(from_slot, at(one, s.request), select(from_queue, queued, request))
    empty = goes & (request == none)
    gone = one | empty

    # where it was
    was_running = from_slot & any_of(one & (s.status == RUNNING))
    state = scatter(
        state,
        index,
        instance._replace(
            slots=s._replace(
                status=select(gone, FREE, s.status),
                blocks=select(gone, 0, s.blocks),
                granted=select(gone, 0, s.granted),
                owed=select(gone, 0, s.owed),
            ),
            counts=instance.counts._replace(
                used_blocks=select(empty, 0, instance.counts.used_blocks - at(one, s.blocks)),
                old=select(goes, 0, instance.counts.old),
            ),
            running=instance.running - was_running,
            queued=instance.queued - (goes & ~was_running & ~from_transfer & ~empty),
        ),
    )
    known = select(from_slot, at(one, s.known), take(state.records.known, request))
    total = take(lane.requests.total, request)
    slot_request = select(from_slot, request, none)
    r = state.records
    unstarted = take(r.first_scheduled_s, request) >= state.now_s
    state = replace(
        state,
        queues=lane.pop(state, index, from_queue, here),
        away=replace(away, failing=away.failing & ~((lane.instances == index) & empty)),
        records=replace(
            r,
            known=put(r.known, slot_request, known),
            first_token_s=put(r.first_token_s, slot_request, at(one, t.first_token_s)),
            last_token_s=put(r.last_token_s, slot_request, at(one, t.last_token_s)),
            first_scheduled_s=put(r.first_scheduled_s, select(unstarted, request, none), jnp.float64(jnp.inf)),
        ),
    )
    here_now = (lane.instances == index) & (from_queue | from_landed)
    outputs = lane.total_here(state, index, here, known, total, request) - known
    state = replace(
        state,
        queued_prompt=state.queued_prompt - select(here_now & from_queue, known, 0),
        queued_outputs=state.queued_outputs - select(here_now, outputs, 0),
    )
    if state.handover is not None:
        state = _out_of_transfer(lane, state, index, request, known, total, from_landed, from_transfer)
    return _send_or_lose(lane, state, index, request)


def _out_of_transfer(
    lane: Lane,
    state: State,
    index: jax.Array,
    request: jax.Array,
    known: jax.Array,
    total: jax.Array,
    from_landed: jax.Array,
    from_transfer: jax.Array,
) -> State:
    """A request is no longer between two instances: its blocks are free at both."""
    passed, away, none = state.handover, state.away, lane.none
    assert passed is not None and away is not None
    source = jnp.maximum(take(state.records.instance, request), 0)
    target = jnp.maximum(take(passed.target, request), 0)
    there = lane.here(target)
    most = jnp.minimum(total, there.of(lambda kind: kind.most_tokens))
    reserved = there.of(lambda kind: kind.policy.landing_blocks(known, most, there.block_size))
    waits = from_transfer & (take(away.transit, request) == 1)
    moves = from_transfer & ~waits
    mine = (passed.request == request) & moves
    state = replace(
        state,
        handover=replace(
            passed,
            landed=passed.landed.pop(index, from_landed),
            incoming=passed.incoming - ((lane.instances == target) & (from_landed | from_transfer)),
            waiting=passed.waiting.remove(target, select(waits, request, none)),
            lands_s=select(mine, jnp.inf, passed.lands_s),
            request=select(mine, none, passed.request),
            target=put(passed.target, request, jnp.int32(-1)),
        ),
        away=replace(away, transit=put(away.transit, request, jnp.int32(0))),
        queued=state.queued - ((lane.instances == target) & from_transfer),
        queued_outputs=state.queued_outputs - select((lane.instances == target) & from_transfer, most - known, 0),
    )
    held = select(from_transfer, take(passed.held_blocks, request), 0)
    counts = lane.use_blocks(state.counts, source, -held)
    counts = lane.use_blocks(counts, target, -select(moves | from_landed, reserved, 0))
    state = replace(state, counts=counts)
    assert state.handover is not None
    passed = handover.look_again(state.handover, source, from_transfer, handover.BEFORE)
    passed = handover.look_again(passed, target, from_transfer, handover.BEFORE)
    if state.lending is not None:
        tokens = select((lane.instances == target) & (from_transfer | from_landed), known - 1, 0)
        lending = replace(state.lending, incoming_tokens=state.lending.incoming_tokens - tokens)
        state = replace(state, lending=lending)
    state = lane.disturb(
        replace(state, handover=passed), source, from_transfer, wakes=state.queued[source] + state.central_waiting > 0
    )
    return lane.disturb(state, target, moves, wakes=state.queued[target] > 0)


def _send_or_lose(lane: Lane, state: State, index: jax.Array, request: jax.Array) -> State:
    """A request that was taken waits to be sent elsewhere, or is lost."""
    away, outages, none = state.away, lane.fleet.outages, lane.none
    assert away is not None and outages is not None
    loses = outages.loses[index] > 0
    lost, kept = select(loses, request, none), select(loses, none, request)
    given_up = put(state.records.given_up, lost, jnp.int32(RequestStatus.LOST))
    state = replace(
        state,
        ended=state.ended + (lost < none),
        records=replace(state.records, given_up=given_up),
        away=replace(away, requeued=away.requeued.push(jnp.int32(0), kept)),
    )
    return state if state.clients is None else lane.answered(state, lost)


def send_one(lane: Lane, state: State) -> State:
    """Send one of the requests that were taken to an instance, as if it arrived."""
    away = state.away
    assert away is not None
    goes = (state.doing == NEXT) & ~jnp.any(away.failing) & (away.requeued.head[0] < lane.none)
    request = select(goes, away.requeued.head[0], lane.none)
    state = replace(state, away=replace(away, requeued=away.requeued.pop(jnp.int32(0), goes)))
    uniform, known = take(lane.requests.uniform, request), take(state.records.known, request)
    state = lane.send_front(state, request, uniform, known, take(lane.requests.total, request), goes)
    return replace(state, arrives_s=lane.arrives_s(state))
