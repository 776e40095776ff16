"""Phases of requests between two instances: they are sent on, get memory and a link, and land."""

from dataclasses import replace

import jax.numpy as jnp

from jaxsim._arrays import put, select, take
from jaxsim._status import LaneStatus
from jaxsim.engine.fleet import ending, handover, switching
from jaxsim.engine.fleet.lane import Lane
from jaxsim.engine.fleet.state import ENDING, NEXT, UNIFIED, State


def grant(lane: Lane, state: State) -> State:
    """Look at one target: give the first that waits for its memory what it asks for, if that is free."""
    assert state.handover is not None and lane.fleet.network is not None
    free = (state.doing == NEXT) & (jnp.min(state.ends_s) > state.now_s) & ~lane.fails(state)
    rest = free & (lane.lands_s(state) > state.now_s) & (lane.arrives_s(state) > state.now_s)
    target, there = handover.next_target(state.handover, rest & (jnp.min(lane.ready_s(state)) > state.now_s))
    looks = free & there & ~handover.someone_leaves(state.handover)  # whoever leaves now asks first
    request, here = state.handover.waiting.first(target), lane.here(target)
    tokens = take(state.records.known, request) - 1
    total = jnp.minimum(take(lane.requests.total, request), here.of(lambda kind: kind.most_tokens))
    needed = here.of(lambda kind: kind.policy.landing_blocks(tokens + 1, total, here.block_size))
    used = lane.load(state, target).used_blocks
    spare = here.of(lambda kind: kind.num_blocks - kind.watermark_blocks)
    fits = looks & (request < lane.none) & (used + needed <= spare) & lane.available(state)[target]
    source = jnp.maximum(take(state.records.instance, request), 0)
    passed, exceeded = handover.start(
        state.handover, lane.fleet.network, lane.shape, target, source, tokens, fits, looks, state.now_s
    )
    full = (state.exceeded == LaneStatus.OK) & exceeded
    code = select(full, int(LaneStatus.TRANSFERS_EXCEEDED), state.exceeded)
    state = replace(state, handover=passed, exceeded=code)
    if state.away is not None:
        moving = put(state.away.transit, select(fits, request, lane.none), jnp.int32(2))
        state = replace(state, away=replace(state.away, transit=moving))
    state = lane.disturb(state, target, fits, wakes=False)
    return replace(state, counts=lane.use_blocks(state.counts, target, select(fits, needed, 0)))


def land(lane: Lane, state: State) -> State:
    """A transfer lands: it waits to be admitted, and its blocks at the source are free."""
    assert state.handover is not None
    passed = state.handover
    place, lands_s = handover.next_landing(passed)
    soonest = jnp.minimum(lane.arrives_s(state), jnp.min(lane.ready_s(state)))
    soonest = jnp.minimum(soonest, lane.changes_s(state))
    due = (state.doing == NEXT) & ~lane.settles(state) & (lands_s < jnp.min(state.ends_s)) & (lands_s <= soonest)
    due = due & (lands_s < jnp.inf) & ~lane.fails(state) & (~lane.pending(state) | (lands_s <= state.now_s))
    state = replace(state, now_s=select(due, lands_s, state.now_s))
    passed, request = handover.land(passed, place, due, state.now_s)
    source = jnp.maximum(take(state.records.instance, request), 0)
    target = jnp.maximum(take(passed.target, request), 0)
    if state.away is not None:
        state = replace(state, away=replace(state.away, transit=put(state.away.transit, request, jnp.int32(0))))
    freed = select(due, take(passed.held_blocks, request), 0)
    passed = handover.look_again(passed, source, due, handover.BEFORE)
    passed = handover.look_again(passed, target, due, handover.BEFORE)
    state = replace(state, handover=passed, counts=lane.use_blocks(state.counts, source, -freed))
    state = lane.disturb(state, target, due)
    return lane.disturb(state, source, due, wakes=state.queued[source] + state.central_waiting > 0)


def hand_over(lane: Lane, state: State, left: ending.Departure) -> State:
    """A request that has its first token goes on at a decode instance, chosen once all batches that end now have."""
    assert state.handover is not None and lane.fleet.decode_router is not None
    passed = handover.leave(state.handover, left.handed, left.blocks, state.now_s)
    passed = handover.look_again(passed, state.at, left.freed, handover.BEFORE)
    landed, stamps = select(left.decode_s > 0, left.left, lane.none), passed.stamps
    stamps = replace(stamps, scheduled_s=put(stamps.scheduled_s, landed, left.decode_s))
    state = replace(state, handover=replace(passed, stamps=stamps))

    others = select(lane.instances == state.at, jnp.inf, state.ends_s)
    ended = (jnp.min(others) > state.now_s) & ((state.doing == NEXT) | ((state.doing == ENDING) & left.done))
    request = select(ended, passed.leaving.first(jnp.int32(0)), lane.none)
    uniform = take(lane.requests.uniform, request) * 2.0**26
    uniform = uniform - jnp.floor(uniform)
    known, total = take(state.records.known, request), take(lane.requests.total, request)
    there, zero = request < lane.none, jnp.int32(0)
    state = switching.before_decode(lane, state, there)
    group = switching.takes_decodes(lane, state)
    target, state = lane.route(state, 1, lane.fleet.decode_router, group, request, uniform, zero)
    assert state.handover is not None
    mine = (lane.instances == target) & there
    here = lane.here(target)
    outputs = jnp.minimum(total, here.of(lambda kind: kind.most_tokens)) - known
    number = state.handover.asks
    stays = there & (take(state.records.instance, request) == target)
    passed = handover.ask(state.handover, select(stays, lane.none, request), target)
    if state.lending is not None:
        passed = handover.stay(passed, select(stays, request, lane.none), target, state.now_s)
        lending = replace(
            state.lending,
            leaves=put(state.lending.leaves, request, zero),
            incoming_tokens=state.lending.incoming_tokens + select(mine, known - 1, 0),
        )
        state = replace(state, lending=lending)
    if state.away is not None:
        transit = put(state.away.transit, select(stays, lane.none, request), jnp.int32(1))
        ask = put(state.away.ask, request, number)
        state = replace(state, away=replace(state.away, transit=transit, ask=ask))
    passed = replace(passed, incoming=passed.incoming + mine)
    return replace(
        state,
        handover=passed,
        queued=state.queued + mine,
        queued_outputs=state.queued_outputs + select(mine, outputs, 0),
    )


def stay(lane: Lane, state: State, left: ending.Departure) -> State:
    """A request that has finished where it was prefilled, on an instance with a role, decoded there too."""
    passed, request = state.handover, left.finished
    assert passed is not None
    more = left.known > left.goal + 1
    here = more & (take(passed.target, request) < 0) & (lane.fleet.role[state.at] != UNIFIED)
    return replace(
        state, handover=replace(passed, target=put(passed.target, select(here, request, lane.none), state.at))
    )
