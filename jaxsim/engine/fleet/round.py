"""One round of a fleet: a fixed pipeline of masked phases, about one instance.

arrive    the next request, if nothing is due before it: route it, queue it, wake its instance or cut its stretch short
choose    the instance whose batch ends first, or that is to compose one
end       apply the results of its batch; then one request leaves, or goes back to the queue
compose   ask its policy for one step, and do it
close     if the batch is complete: price it, and find for how many iterations it will be composed again

At equal times batches end, then requests arrive, then instances compose, by number. An instance that is ending or
composing is gone on with in the next round until it is done; nothing else happens in between.
"""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp

from jaxsim._arrays import add_each, put, put_add, put_min, select, take
from jaxsim.engine.fleet import composing, ending
from jaxsim.engine.fleet.arriving import RouterView, cut_stretch
from jaxsim.engine.fleet.shape import FleetShape
from jaxsim.engine.fleet.state import (
    COMPOSING,
    ENDING,
    NEXT,
    Clock,
    Counts,
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
    none = shape.num_requests

    def step(state: State) -> State:
        state = arrive(fleet, requests, shape, state)
        state = choose(state)
        instance = gather(state, state.at)
        kinds = [kind.of(fleet.place[state.at]) for kind in fleet.kinds]
        number = fleet.kind[state.at]
        two = _of_kind(number, [jnp.bool_(kind.policy.batches_in_flight == 2) for kind in kinds])
        keeps = _of_kind(number, [jnp.bool_(kind.policy.keeps_finished) for kind in kinds])
        now_s = state.now_s

        # end
        ends = (state.doing == ENDING) & (instance.ends_s <= now_s)
        block_size = _of_kind(number, [jnp.int32(kind.block_size) for kind in kinds])
        instance, emission = ending.emit(instance, ends, two, block_size)
        instance, departure = ending.depart(instance, state.doing == ENDING, keeps, none)
        state = _record_end(state, emission, departure, now_s)
        waiting_queues = _push(fleet, kinds, number, state, state.at, departure.requeued, in_front=True)
        doing = select((state.doing == ENDING) & departure.done, NEXT, state.doing)
        first = (state.doing == ENDING) & departure.done & _nothing_else_now(state)
        doing = select(first, COMPOSING, doing)
        state = replace(state, queues=waiting_queues, doing=doing)

        # compose
        compose = doing == COMPOSING
        waiting = _waiting(kinds, number, requests, state, instance)
        plans = [composing.plan_of(kind, instance, waiting, state.preempted) for kind in kinds]
        plan = _of_kind(number, plans)
        instance, done = composing.follow(instance, plan, waiting, compose, none)
        preempted = state.preempted | done.preempted
        popped = _pop(kinds, number, state, state.at, done.admitted < none)
        state = replace(state, queues=popped)
        state = replace(state, queues=_push(fleet, kinds, number, state, state.at, done.requeued, in_front=True))

        # close
        closes = compose & plan.closes
        views = [composing.view_of(kind, instance, waiting, preempted) for kind in kinds]
        pieces = [composing.price(kind, instance, view) for kind, view in zip(kinds, views, strict=True)]
        lengths = [
            composing.repeats(shape, kind, instance, view, piece, preempted)
            for kind, view, piece in zip(kinds, views, pieces, strict=True)
        ]
        piece, k = _of_kind(number, pieces), _of_kind(number, lengths)
        instance, closed = composing.close(instance, two, piece, k, closes, preempted)
        state = _record_composition(state, done, closed)
        doing = select(closes & ~closed.again, NEXT, doing)
        preempted = preempted & compose & ~closes
        state = replace(
            state,
            doing=doing,
            preempted=preempted,
            exceeded=select((state.exceeded == 0) & done.exceeded, 1, state.exceeded),
        )
        return scatter(state, state.at, instance)

    return step


def _of_kind(number: jax.Array, values: list) -> jax.Array:
    """The value of the kind with that number."""
    found = values[0]
    for other, value in enumerate(values[1:], start=1):
        found = jax.tree.map(lambda a, b, other=other: select(number == other, a, b), value, found)
    return found


# arrive --------------------------------------------------------------------------------------------------------------


def arrive(fleet: Fleet, requests: Requests, shape: FleetShape, state: State) -> State:
    """Route and queue the next request, if it is next."""
    first_end = jnp.min(state.ends_s)
    due = (state.doing == NEXT) & (state.arrives_s < first_end) & (state.arrives_s <= jnp.min(state.ready_s))
    due = due & (state.arrives_s < jnp.inf)
    now_s = state.arrives_s
    request = select(due, state.next_request, shape.num_requests)
    if requests.assigned is not None:
        index = take(requests.assigned, state.next_request)
    else:
        view = RouterView(
            eligible=jnp.ones(shape.instances, bool),
            queued=state.queued,
            running=state.running,
            uniform=None if requests.uniform is None else take(requests.uniform, state.next_request),
        )
        index = fleet.router.pick(view).astype(jnp.int32)
    kinds = [kind.of(fleet.place[index]) for kind in fleet.kinds]
    number = fleet.kind[index]
    two = _of_kind(number, [jnp.bool_(kind.policy.batches_in_flight == 2) for kind in kinds])
    before = _head(kinds, number, state, index)
    state = replace(state, queues=_push(fleet, kinds, number, state, index, request))
    fresh = due & (before != _head(kinds, number, state, index))

    here = jnp.arange(shape.instances, dtype=jnp.int32) == index
    counts, clock = Counts(*state.counts[index]), Clock(*state.clocks[index][: len(Clock._fields)])
    ends_s = state.ends_s[index]
    cut = cut_stretch(counts, clock, ends_s, now_s, two)
    runs = ends_s < jnp.inf
    k_at = Counts._fields.index("k")
    idle = due & here & ~runs
    return replace(
        state,
        counts=state.counts.at[index, k_at].set(select(fresh & runs, cut.k, counts.k)),
        ends_s=select(fresh & here & runs, cut.ends_s, state.ends_s),
        ready_s=select(idle, jnp.minimum(now_s, state.ready_s), state.ready_s),
        queued=state.queued + (due & here),
        next_request=state.next_request + due,
        arrives_s=take(requests.arrival_s, state.next_request + due),
        moves=state.moves + due,
        records=replace(state.records, instance=put(state.records.instance, request, index)),
    )


# choose --------------------------------------------------------------------------------------------------------------


def choose(state: State) -> State:
    """Take up the next batch that ends, or the next that is to be composed."""
    end_s, ready_s = jnp.min(state.ends_s), jnp.min(state.ready_s)
    free = state.doing == NEXT
    ends = free & (end_s < jnp.inf) & (end_s <= jnp.minimum(ready_s, state.arrives_s))
    composes = free & ~ends & (ready_s < jnp.minimum(end_s, state.arrives_s))
    at = select(ends, jnp.argmin(state.ends_s), jnp.argmin(state.ready_s)).astype(jnp.int32)
    return replace(
        state,
        now_s=select(ends, end_s, select(composes, ready_s, state.now_s)),
        at=select(ends | composes, at, state.at),
        doing=select(ends, ENDING, select(composes, COMPOSING, state.doing)),
    )


def _nothing_else_now(state: State) -> jax.Array:
    """Whether no other batch ends at this instant and nobody arrives or composes before this instance does."""
    others = select(jnp.arange(state.ends_s.shape[0]) == state.at, jnp.inf, state.ends_s)
    ready = select(jnp.arange(state.ends_s.shape[0]) == state.at, jnp.inf, state.ready_s)
    return (jnp.min(others) > state.now_s) & (state.arrives_s > state.now_s) & (jnp.min(ready) > state.now_s)


# queues --------------------------------------------------------------------------------------------------------------


def _push(
    fleet: Fleet,
    kinds: list[Kind],
    number: jax.Array,
    state: State,
    index: jax.Array,
    request: jax.Array,
    in_front: bool = False,
) -> dict:
    """The queues with a request (N: nobody) waiting at an instance."""
    none = state.records.known.shape[0] - 1
    found = {}
    for order, queue in state.queues.items():
        mine = _of_kind(number, [jnp.bool_(kind.policy.order == order) for kind in kinds])
        front = in_front & ~_of_kind(number, [jnp.bool_(kind.policy.requeues_last) for kind in kinds])
        found[order] = queue.push(index, select(mine, request, none), front)
    return found


def _pop(kinds: list[Kind], number: jax.Array, state: State, index: jax.Array, there: jax.Array) -> dict:
    found = {}
    for order, queue in state.queues.items():
        mine = _of_kind(number, [jnp.bool_(kind.policy.order == order) for kind in kinds])
        found[order] = queue.pop(index, there & mine)
    return found


def _head(kinds: list[Kind], number: jax.Array, state: State, index: jax.Array) -> jax.Array:
    """The request at the head of an instance's queue, N if there is none."""
    heads = {order: queue.first(index) for order, queue in state.queues.items()}
    return _of_kind(number, [heads[kind.policy.order] for kind in kinds])


def _waiting(
    kinds: list[Kind], number: jax.Array, requests: Requests, state: State, instance: Instance
) -> composing.Waiting:
    none = state.records.known.shape[0] - 1
    request = _head(kinds, number, state, state.at)
    prompt = take(requests.prompt, request)
    head = Head(
        there=request < none,
        prompt=prompt,
        known=take(state.records.known, request),
        total=jnp.minimum(take(requests.total, request), _of_kind(number, [kind.most_tokens for kind in kinds])),
    )
    urgency = jnp.int32(0) if requests.urgency is None else take(requests.urgency, request)
    first, last = take(state.records.first_token_s, request), take(state.records.last_token_s, request)
    return composing.Waiting(request, head, urgency, first, last, instance.queued)


# record --------------------------------------------------------------------------------------------------------------


def _record_end(state: State, emission: ending.Emission, departure: ending.Departure, now_s: jax.Array) -> State:
    r, left = state.records, departure.left
    none = r.known.shape[0] - 1
    records = replace(
        r,
        finish_s=put(r.finish_s, departure.finished, departure.last_token_s),
        first_token_s=put(r.first_token_s, left, departure.first_token_s),
        last_token_s=put(r.last_token_s, left, departure.last_token_s),
        known=put(r.known, left, departure.known),
        iterations=r.iterations + emission.iterations,
        makespan_s=jnp.maximum(r.makespan_s, now_s),
    )
    if r.itl_counts is not None:
        bins = jnp.concatenate([emission.bins, itl_bin(departure.gap_s)[None]])
        gaps = jnp.concatenate([emission.gaps, departure.gaps[None]])
        records = replace(records, itl_counts=add_each(r.itl_counts, bins, gaps))
    if r.kv_token_seconds is not None:
        records = replace(records, kv_token_seconds=r.kv_token_seconds + emission.token_seconds)
    return replace(
        state,
        records=records,
        ended=state.ended + (departure.finished < none),
        moves=state.moves + emission.tokens,
    )


def _record_composition(state: State, done: composing.Done, closed: composing.Closed) -> State:
    r = state.records
    records = replace(
        r,
        first_scheduled_s=put_min(r.first_scheduled_s, done.admitted, closed.starts_s),
        first_token_s=put(r.first_token_s, done.requeued, done.first_token_s),
        last_token_s=put(r.last_token_s, done.requeued, done.last_token_s),
        known=put(r.known, done.requeued, done.known),
        preemptions=put_add(r.preemptions, done.victim, jnp.int32(1)),
        recomputed_tokens=r.recomputed_tokens + done.lost_tokens,
        iterations=r.iterations + closed.iterations,
    )
    if r.kv_token_seconds is not None:
        records = replace(records, kv_token_seconds=r.kv_token_seconds + closed.token_seconds)
    return replace(state, records=records)
