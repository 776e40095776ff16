"""One round of a fleet: a fixed pipeline of masked phases, about one instance.

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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsim._arrays import add_each, put, put_add, put_min, select, take
from jaxsim._status import RequestStatus
from jaxsim.engine import kv
from jaxsim.engine.fleet import composing, ending, handover, routing
from jaxsim.engine.fleet.shape import FleetShape
from jaxsim.engine.fleet.state import (
    COMPOSING,
    DECODE,
    ENDING,
    FREE,
    NEXT,
    PREFILL,
    Clock,
    Counts,
    Fleet,
    Instance,
    Kind,
    Requests,
    Router,
    RouterMemory,
    Slots,
    State,
    gather,
    scatter,
)
from jaxsim.engine.policy.base import Head
from jaxsim.engine.record import itl_bin


class Here(NamedTuple):
    """An instance's scheduler and clock, whatever its kind."""

    number: jax.Array
    kinds: list[Kind]

    def of(self, value: Callable[[Kind], Any]) -> Any:
        """What is true of the instance's kind."""
        values = [value(kind) for kind in self.kinds]
        found = values[0]
        for other, one in enumerate(values[1:], start=1):
            found = jax.tree.map(lambda a, b, other=other: select(self.number == other, a, b), one, found)
        return found

    @property
    def two(self) -> jax.Array:
        """bool: two batches in flight."""
        return self.of(lambda kind: jnp.bool_(kind.policy.batches_in_flight == 2))

    @property
    def block_size(self) -> jax.Array:
        """Tokens of a KV block."""
        return self.of(lambda kind: jnp.int32(kind.block_size))


def build(fleet: Fleet, requests: Requests, shape: FleetShape) -> Callable[[State], State]:
    """The round of one lane as a pure function of its state."""
    return _Round(fleet, requests, shape).step


def _repeated(kind: Kind, memory: jax.Array, times: jax.Array) -> jax.Array:
    """What a policy remembers once the batch composed last was composed some times more."""
    own = len(kind.policy.memory)
    return jnp.concatenate([kind.policy.repeated(memory[:own], times), memory[own:]])


class _Round:
    def __init__(self, fleet: Fleet, requests: Requests, shape: FleetShape) -> None:
        self.fleet, self.requests, self.shape = fleet, requests, shape
        self.none = shape.num_requests
        self.instances = jnp.arange(shape.instances, dtype=jnp.int32)

    def step(self, state: State) -> State:
        """One round."""
        if self.shape.transfers:
            state = self.grant(state)
            state = self.land(state)
        state = self.arrive(state)
        state = self.choose(state)
        instance, here = gather(state, state.at), self.here(state.at)
        state, instance = self.end(state, instance, here)
        state, instance = self.compose(state, instance, here)
        return scatter(state, state.at, instance)

    def here(self, index: jax.Array) -> Here:
        """An instance's kind."""
        fleet = self.fleet
        if len(fleet.kinds) == 1 and fleet.kinds[0].num_blocks.shape[0] == 1:
            return Here(jnp.int32(0), [fleet.kinds[0].of(jnp.int32(0))])
        return Here(fleet.kind[index], [kind.of(fleet.place[index]) for kind in fleet.kinds])

    # what comes to an instance ---------------------------------------------------------------------------------------

    def disturb(self, state: State, index: jax.Array, there: jax.Array, wakes: bool | jax.Array = True) -> State:
        """Somebody comes to an instance now: it is woken, or its stretch is cut."""
        counts, clock = Counts(*state.counts[index]), Clock(*state.clocks[index][: len(Clock._fields)])
        two, ends_s = self.here(index).two, state.ends_s[index]
        runs, mine = ends_s < jnp.inf, self.instances == index
        k = routing.composed(counts, clock, state.now_s, two).k
        cuts = there & runs & (k < counts.k)
        idle = there & ~runs & wakes & mine
        return replace(
            state,
            counts=state.counts.at[index, Counts._fields.index("k")].set(select(cuts, k, counts.k)),
            ends_s=select(cuts & mine, routing.cut_ends_s(clock, k, two), state.ends_s),
            ready_s=select(idle, jnp.minimum(state.now_s, state.ready_s), state.ready_s),
        )

    def disturb_all(self, state: State, there: jax.Array) -> State:
        """Somebody comes to the central queue now: all stretches are cut, and the first idle instance is woken."""
        counts, clock = Counts(*state.counts.T), Clock(*state.clocks.T[: len(Clock._fields)])
        two = jax.vmap(lambda index: self.here(index).two)(self.instances)
        serves = self.fleet.role != DECODE
        runs = state.ends_s < jnp.inf
        k = routing.composed(counts, clock, state.now_s, two).k
        cuts = there & serves & runs & (k < counts.k)
        idle = serves & ~runs & (state.ready_s == jnp.inf)
        first = there & idle & (self.instances == jnp.argmax(idle))
        return replace(
            state,
            counts=state.counts.at[:, Counts._fields.index("k")].set(select(cuts, k, counts.k)),
            ends_s=select(cuts, routing.cut_ends_s(clock, k, two), state.ends_s),
            ready_s=select(first, state.now_s, state.ready_s),
        )

    def arrives_s(self, state: State) -> jax.Array:
        """When the next request comes, for all that is known now."""
        clients, due_s = state.clients, take(self.requests.arrival_s, state.next_request)
        if clients is None:
            return due_s
        if self.shape.users:
            due_s = select(due_s < jnp.inf, jnp.min(clients.ready_s), jnp.inf)
        if self.fleet.max_in_flight is not None:
            full = state.next_request - state.ended >= self.fleet.max_in_flight
            due_s = select(full, jnp.inf, jnp.maximum(due_s, clients.freed_s))
        return due_s

    def pending(self, state: State) -> jax.Array:
        """Whether a target's memory is to be looked at before time goes on."""
        if state.handover is None:
            return jnp.bool_(False)
        return jnp.any(state.handover.check > 0) | handover.someone_leaves(state.handover)

    def settles(self, state: State) -> jax.Array:
        """Whether a target's memory is to be looked at before anything else happens now, ends of batches apart."""
        if state.handover is None:
            return jnp.bool_(False)
        return jnp.any(state.handover.check == handover.BEFORE) | handover.someone_leaves(state.handover)

    def lands_s(self, state: State) -> jax.Array:
        """When the next transfer lands."""
        return jnp.float64(jnp.inf) if state.handover is None else jnp.min(state.handover.lands_s)

    # grant, land -----------------------------------------------------------------------------------------------------

    def grant(self, state: State) -> State:
        """Look at one target: give the first that waits for its memory what it asks for, if that is free."""
        assert state.handover is not None and self.fleet.network is not None
        free = (state.doing == NEXT) & (jnp.min(state.ends_s) > state.now_s)
        rest = free & (self.lands_s(state) > state.now_s) & (self.arrives_s(state) > state.now_s)
        target, there = handover.next_target(state.handover, rest & (jnp.min(state.ready_s) > state.now_s))
        looks = free & there & ~handover.someone_leaves(state.handover)  # whoever leaves now asks first
        request, here = state.handover.waiting.first(target), self.here(target)
        tokens = take(state.records.known, request) - 1
        total = jnp.minimum(take(self.requests.total, request), here.of(lambda kind: kind.most_tokens))
        needed = here.of(lambda kind: kind.policy.landing_blocks(tokens + 1, total, here.block_size))
        used = self.load(state, target).used_blocks
        spare = here.of(lambda kind: kind.num_blocks - kind.watermark_blocks)
        fits = looks & (request < self.none) & (used + needed <= spare)
        source = jnp.maximum(take(state.records.instance, request), 0)
        passed, exceeded = handover.start(
            state.handover, self.fleet.network, self.shape, target, source, tokens, fits, looks, state.now_s
        )
        state = replace(state, handover=passed, exceeded=select((state.exceeded == 0) & exceeded, 1, state.exceeded))
        state = self.disturb(state, target, fits, wakes=False)
        return replace(state, counts=self.use_blocks(state.counts, target, select(fits, needed, 0)))

    def use_blocks(self, counts: jax.Array, index: jax.Array, blocks: jax.Array) -> jax.Array:
        """Take blocks of an instance's pool, or give them back."""
        return counts.at[index, Counts._fields.index("used_blocks")].add(blocks)

    def land(self, state: State) -> State:
        """A transfer lands: it waits to be admitted, and its blocks at the source are free."""
        assert state.handover is not None
        place, lands_s = handover.next_landing(state.handover)
        soonest = jnp.minimum(self.arrives_s(state), jnp.min(state.ready_s))
        due = (state.doing == NEXT) & ~self.settles(state) & (lands_s < jnp.min(state.ends_s)) & (lands_s <= soonest)
        due = due & (lands_s < jnp.inf) & (~self.pending(state) | (lands_s <= state.now_s))
        state = replace(state, now_s=select(due, lands_s, state.now_s))
        passed, request = handover.land(state.handover, place, due, state.now_s)
        source = jnp.maximum(take(state.records.instance, request), 0)
        target = jnp.maximum(take(passed.target, request), 0)
        freed = select(due, take(passed.held_blocks, request), 0)
        passed = handover.look_again(passed, source, due, handover.BEFORE)
        passed = handover.look_again(passed, target, due, handover.BEFORE)
        state = replace(state, handover=passed, counts=self.use_blocks(state.counts, source, -freed))
        state = self.disturb(state, target, due)
        return self.disturb(state, source, due, wakes=state.queued[source] > 0)

    # arrive ----------------------------------------------------------------------------------------------------------

    def arrive(self, state: State) -> State:
        """Route and queue the next request, if it is next."""
        arrives_s = self.arrives_s(state)
        due = (state.doing == NEXT) & ~self.settles(state) & (arrives_s < jnp.inf)
        due = due & (arrives_s < jnp.min(state.ends_s)) & (arrives_s <= jnp.min(state.ready_s))
        due = due & (arrives_s < self.lands_s(state)) & (~self.pending(state) | (arrives_s <= state.now_s))
        request = select(due, state.next_request, self.none)
        state = replace(state, now_s=select(due, arrives_s, state.now_s), arrives_s=arrives_s)
        if state.clients is not None:
            state = self.send(state, request, due)
        known, total = take(self.requests.prompt, state.next_request), take(self.requests.total, state.next_request)
        if self.shape.central:
            index = jnp.int32(self.shape.instances)
            queued = self.push(state, index, request, self.here(jnp.int32(0)))
            state = replace(state, queues=queued, central_waiting=state.central_waiting + due)
            state = self.disturb_all(state, due)
        else:
            uniform = take(self.requests.uniform, state.next_request)
            eligible = self.fleet.role != DECODE
            index, state = self.route(state, 0, self.fleet.router, eligible, request, uniform, known, total - known)
            state = self.enqueue(state, index, request, known, total, due)
            state = replace(state, records=replace(state.records, instance=put(state.records.instance, request, index)))
        state = replace(state, next_request=state.next_request + due, moves=state.moves + due)
        return replace(state, arrives_s=self.arrives_s(state))

    def send(self, state: State, request: jax.Array, due: jax.Array) -> State:
        """A client sends a request."""
        clients = state.clients
        assert clients is not None
        clients = replace(clients, sent_s=put(clients.sent_s, request, state.now_s))
        if self.shape.users:
            user = jnp.argmin(clients.ready_s).astype(jnp.int32)
            mine = (jnp.arange(self.shape.users) == user) & due
            clients = replace(
                clients,
                ready_s=select(mine, jnp.inf, clients.ready_s),
                user=put(clients.user, request, user),
            )
        return replace(state, clients=clients)

    def enqueue(
        self, state: State, index: jax.Array, request: jax.Array, known: jax.Array, total: jax.Array, there: jax.Array
    ) -> State:
        """A request joins an instance's waiting queue."""
        here = self.here(index)
        before = self.head(state, index, here)
        state = replace(state, queues=self.push(state, index, request, here))
        fresh = there & (before != self.head(state, index, here))
        state = self.disturb(state, index, fresh)
        mine = (self.instances == index) & there
        outputs = self.total_here(index, here, known, total) - known
        return replace(
            state,
            queued=state.queued + mine,
            queued_prompt=state.queued_prompt + select(mine, known, 0),
            queued_outputs=state.queued_outputs + select(mine, outputs, 0),
        )

    def total_here(self, index: jax.Array, here: Here, known: jax.Array, total: jax.Array) -> jax.Array:
        """Prompt and all the tokens that a request emits at an instance."""
        most = jnp.minimum(total, here.of(lambda kind: kind.most_tokens))
        if not self.shape.transfers:
            return most
        return select(self.fleet.role[index] == PREFILL, jnp.minimum(most, known + 1), most)

    # route -----------------------------------------------------------------------------------------------------------

    def load(self, state: State, index: jax.Array) -> routing.Load:
        """What an instance's running requests have left, and the blocks it uses, now."""
        here = self.here(index)
        clock = Clock(*state.clocks[index][: len(Clock._fields)])
        slots, counts = Slots(*state.slots[index]), Counts(*state.counts[index])
        return routing.load(slots, counts, clock, state.now_s, here.two, here.block_size)

    def route(
        self,
        state: State,
        which: int,
        router: Router,
        eligible: jax.Array,
        request: jax.Array,
        uniform: jax.Array,
        prompt: jax.Array,
        outputs: jax.Array,
    ) -> tuple[jax.Array, State]:
        """The instance a request (N: nobody) goes to, and what the router remembers."""
        there, zero = request < self.none, jnp.zeros_like(state.queued)
        loads = routing.Load(zero, zero, zero)
        if router.needs:
            loads = jax.vmap(lambda index: self.load(state, index))(self.instances)
        memory, home = state.routers[which], jnp.int32(-1)
        session = None
        if state.homes is not None and self.requests.session is not None and which == 0:
            session = take(self.requests.session, request)
            home = take(state.homes, session)
        view = routing.RouterView(
            eligible=eligible,
            group=self.fleet.group,
            queued=state.queued,
            running=state.running,
            prompt_left=state.queued_prompt + loads.prompt_left,
            outputs_left=state.queued_outputs + loads.outputs_left,
            used_blocks=loads.used_blocks,
            num_blocks=self.fleet.num_blocks,
            uniform=uniform,
            last=memory.last,
            home=home,
            prompt=prompt,
            outputs=outputs,
            blocks=kv.ceil_div(prompt + 1, self.here(jnp.int32(0)).block_size),
        )
        stale = state.now_s - memory.seen_s < getattr(router, "staleness_s", 0.0)
        measure = select(stale, memory.seen, router.measure(view).astype(jnp.float64))
        index = router.pick(view, measure).astype(jnp.int32)
        added = select(self.instances == index, jnp.asarray(router.added(view), jnp.float64), 0.0)
        after = RouterMemory(
            last=select(there, index, memory.last),
            seen=select(there, measure + added, memory.seen),
            seen_s=select(there & ~stale, state.now_s, memory.seen_s),
        )
        routers = (after, state.routers[1]) if which == 0 else (state.routers[0], after)
        state = replace(state, routers=routers)
        if session is not None and state.homes is not None:
            spare = state.homes.shape[0] - 1
            state = replace(state, homes=put(state.homes, select(there, session, spare), index))
        return index, state

    # choose ----------------------------------------------------------------------------------------------------------

    def choose(self, state: State) -> State:
        """Take up the next batch that ends, or the next that is to be composed."""
        end_s, ready_s, lands_s = jnp.min(state.ends_s), jnp.min(state.ready_s), self.lands_s(state)
        pending, arrives_s = self.pending(state), state.arrives_s
        free = state.doing == NEXT
        ends = free & (end_s < jnp.inf) & (end_s <= jnp.minimum(ready_s, jnp.minimum(arrives_s, lands_s)))
        ends = ends & (~pending | (end_s <= state.now_s))
        composes = free & ~ends & (ready_s < jnp.minimum(end_s, jnp.minimum(arrives_s, lands_s)))
        composes = composes & ~self.settles(state) & (~pending | (ready_s <= state.now_s))
        at = select(ends, jnp.argmin(state.ends_s), jnp.argmin(state.ready_s)).astype(jnp.int32)
        return replace(
            state,
            now_s=select(ends, end_s, select(composes, ready_s, state.now_s)),
            at=select(ends | composes, at, state.at),
            doing=select(ends, ENDING, select(composes, COMPOSING, state.doing)),
        )

    def nothing_else_now(self, state: State) -> jax.Array:
        """Whether nothing is to happen at this instant before the instance at hand composes its batch."""
        others = self.instances != state.at
        soonest = jnp.min(jnp.minimum(select(others, state.ends_s, jnp.inf), select(others, state.ready_s, jnp.inf)))
        soonest = jnp.minimum(soonest, jnp.minimum(state.arrives_s, self.lands_s(state)))
        return (soonest > state.now_s) & ~self.settles(state)

    # end -------------------------------------------------------------------------------------------------------------

    def end(self, state: State, instance: Instance, here: Here) -> tuple[State, Instance]:
        """Apply the results of the batch that ends; one request leaves or is queued again."""
        ends = (state.doing == ENDING) & (instance.ends_s <= state.now_s)
        times = jnp.maximum(instance.counts.k - 1, 0)
        memory = here.of(lambda kind: _repeated(kind, instance.memory, times))
        instance = instance._replace(memory=select(ends, memory, instance.memory))
        instance, emission = ending.emit(instance, ends, here.two, here.block_size)
        is_ending = state.doing == ENDING
        keeps = here.of(lambda kind: jnp.bool_(kind.policy.keeps_finished))
        most = here.of(lambda kind: kind.most_tokens)
        instance, left = ending.depart(instance, is_ending, keeps, most, jnp.int32(self.none))
        state = self._record_end(state, emission, left)
        state = self.requeue(state, left.requeued, left.known, left.total, here)
        if state.clients is not None:
            state = self.answered(state, left.finished)
        if state.handover is not None:
            state = self.hand_over(state, left)
        state = replace(state, arrives_s=self.arrives_s(state))
        done = is_ending & left.done
        return replace(
            state, doing=select(done, select(self.nothing_else_now(state), COMPOSING, NEXT), state.doing)
        ), instance

    def give_up(self, state: State, request: jax.Array) -> State:
        """A request (N: nobody) ends without having emitted all its tokens."""
        records, there = state.records, request < self.none
        given_up = put(records.given_up, request, jnp.int32(RequestStatus.ABORTED))
        state = replace(state, ended=state.ended + there, records=replace(records, given_up=given_up))
        state = state if state.clients is None else self.answered(state, request)
        return replace(state, arrives_s=self.arrives_s(state))

    def requeue(self, state: State, request: jax.Array, known: jax.Array, total: jax.Array, here: Here) -> State:
        """A preempted request (N: nobody) goes back to the queue of the instance at hand."""
        mine = (self.instances == state.at) & (request < self.none)
        return replace(
            state,
            queues=self.push(state, state.at, request, here, in_front=True),
            queued_prompt=state.queued_prompt + select(mine, known, 0),
            queued_outputs=state.queued_outputs + select(mine, total - known, 0),
        )

    def answered(self, state: State, request: jax.Array) -> State:
        """A client has its answer (N: nobody has)."""
        clients, there = state.clients, request < self.none
        assert clients is not None
        clients = replace(clients, freed_s=select(there, state.now_s, clients.freed_s))
        if self.shape.users and self.requests.think_s is not None:
            mine = (jnp.arange(self.shape.users) == take(clients.user, request)) & there
            ready_s = state.now_s + take(self.requests.think_s, request)
            clients = replace(clients, ready_s=select(mine, ready_s, clients.ready_s))
        return replace(state, clients=clients)

    def hand_over(self, state: State, left: ending.Departure) -> State:
        """A request that has its first token goes on at a decode instance, chosen once all batches that end now have."""
        assert state.handover is not None and self.fleet.decode_router is not None
        passed = handover.leave(state.handover, left.handed, left.blocks, state.now_s)
        passed = handover.look_again(passed, state.at, left.freed, handover.BEFORE)
        landed, stamps = select(left.decode_s > 0, left.left, self.none), passed.stamps
        stamps = replace(stamps, scheduled_s=put(stamps.scheduled_s, landed, left.decode_s))
        state = replace(state, handover=replace(passed, stamps=stamps))

        others = select(self.instances == state.at, jnp.inf, state.ends_s)
        ended = (jnp.min(others) > state.now_s) & (state.doing != COMPOSING)
        request = select(ended, passed.leaving.first(jnp.int32(0)), self.none)
        uniform = take(self.requests.uniform, request) * 2.0**26
        uniform = uniform - jnp.floor(uniform)
        known, total = take(state.records.known, request), take(self.requests.total, request)
        eligible, zero = self.fleet.role == DECODE, jnp.int32(0)
        router = self.fleet.decode_router
        target, state = self.route(state, 1, router, eligible, request, uniform, zero, total - known)
        assert state.handover is not None
        mine = (self.instances == target) & (request < self.none)
        outputs = jnp.minimum(total, self.here(target).of(lambda kind: kind.most_tokens)) - known
        return replace(
            state,
            handover=handover.ask(state.handover, request, target),
            queued=state.queued + mine,
            queued_outputs=state.queued_outputs + select(mine, outputs, 0),
        )

    # compose ---------------------------------------------------------------------------------------------------------

    def compose(self, state: State, instance: Instance, here: Here) -> tuple[State, Instance]:
        """One step of the policy; if it completes the batch, start it."""
        is_composing = state.doing == COMPOSING
        waiting = self.waiting(state, instance, here)
        plan = here.of(lambda kind: composing.plan_of(kind, instance, waiting, state.preempted))
        instance, done = composing.follow(
            instance,
            plan,
            waiting,
            is_composing,
            here.of(lambda kind: kind.most_tokens),
            jnp.int32(self.none),
        )
        preempted = state.preempted | done.preempted
        closes = is_composing & plan.closes & ~waiting.landed
        piece, k = here.of(lambda kind: composing.price_stretch(self.shape, kind, instance, waiting, preempted))
        instance, closed = composing.close(instance, here.two, piece, k, closes, preempted)

        state = self._record_composition(state, done, closed)
        if any(kind.policy.gives_up for kind in self.fleet.kinds):
            state = self.give_up(state, done.given_up)
        state = self.admit(state, done, waiting, here)
        state = self.requeue(state, done.requeued, done.known, done.total, here)
        if state.handover is not None:
            passed = handover.look_again(state.handover, state.at, done.freed, handover.AFTER)
            joined = is_composing & waiting.landed & (done.admitted < self.none)
            stamps = passed.stamps
            stamps = replace(
                stamps,
                scheduled_s=put(stamps.scheduled_s, select(done.decode_s > 0, done.victim, self.none), done.decode_s),
                admitted_s=put(stamps.admitted_s, select(joined, self.none, done.admitted), closed.starts_s),
            )
            passed = replace(passed, landed=passed.landed.pop(state.at, joined), stamps=stamps)
            state = replace(state, handover=passed)
        return replace(
            state,
            doing=select(closes & ~closed.again, NEXT, state.doing),
            preempted=preempted & is_composing & ~closes,
            exceeded=select((state.exceeded == 0) & done.exceeded, 1, state.exceeded),
        ), instance

    def waiting(self, state: State, instance: Instance, here: Here) -> composing.Waiting:
        """Whoever is next to be admitted."""
        request = self.head(state, state.at, here)
        num_waiting, own = instance.queued, jnp.bool_(True)
        if self.shape.central:
            central = self.head(state, jnp.int32(self.shape.instances), here)
            own = ~self.takes_central(request, central, here)
            request = select(own, request, central)
            num_waiting = num_waiting + state.central_waiting
        landed = unscheduled = jnp.bool_(False)
        if state.handover is not None:
            first = state.handover.landed.first(state.at)
            seats = here.of(lambda kind: kind.most_seqs)
            slots = instance.slots
            fresh = jnp.all((slots.status == FREE) | (slots.known == slots.goal + 1))
            forms = fresh | ~here.of(lambda kind: jnp.bool_(kind.policy.keeps_finished))
            starts = ~state.preempted & ~jnp.any(slots.granted > 0)
            landed = (first < self.none) & (instance.running < seats) & forms & starts
            request = select(landed, first, request)
            stamps = state.handover.stamps
            unscheduled = ~jnp.isnan(take(stamps.landed_s, request)) & jnp.isnan(take(stamps.scheduled_s, request))
        prompt, known = take(self.requests.prompt, request), take(state.records.known, request)
        total = take(self.requests.total, request)
        here_total = self.total_here(state.at, here, known, total)
        most = jnp.minimum(total, here.of(lambda kind: kind.most_tokens))
        head = Head(request < self.none, prompt, known, select(landed, most, here_total))
        urgency = jnp.int32(0) if self.requests.urgency is None else take(self.requests.urgency, request)
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
            blocks=here.of(lambda kind: kind.policy.landing_blocks(known, most, here.block_size)),
            decode_s=select(unscheduled, jnp.float64(jnp.nan), 0.0),
        )

    def takes_central(self, own: jax.Array, central: jax.Array, here: Here) -> jax.Array:
        """Whether the next of two heads is that of the central queue."""
        if list(self.requests.ranks):
            order = here.kinds[0].policy.order
            if order != "fcfs":
                rank = self.requests.ranks[order]
                return take(rank, central) < take(rank, own)
        return own == self.none

    def admit(self, state: State, done: composing.Done, waiting: composing.Waiting, here: Here) -> State:
        """Whoever was admitted leaves its queue."""
        there = (done.admitted < self.none) & ~waiting.landed
        if self.shape.central:
            taken = there & ~waiting.own
            central = jnp.int32(self.shape.instances)
            state = replace(
                state,
                queues=self.pop(state, central, taken, here),
                central_waiting=state.central_waiting - taken,
                records=replace(
                    state.records,
                    instance=put(state.records.instance, select(taken, done.admitted, self.none), state.at),
                ),
            )
            state = self.disturb_all(state, taken & (self.head(state, central, here) < self.none))
        state = replace(state, queues=self.pop(state, state.at, there & waiting.own, here))
        mine = (self.instances == state.at) & (done.admitted < self.none) & waiting.own
        prompt = select(waiting.landed, 0, waiting.head.known)
        return replace(
            state,
            queued_prompt=state.queued_prompt - select(mine, prompt, 0),
            queued_outputs=state.queued_outputs - select(mine, waiting.head.total - waiting.head.known, 0),
        )

    # queues ----------------------------------------------------------------------------------------------------------

    def push(self, state: State, index: jax.Array, request: jax.Array, here: Here, in_front: bool = False) -> dict:
        """The queues with a request (N: nobody) waiting at an instance."""
        found = {}
        for order, queue in state.queues.items():
            mine = here.of(lambda kind, order=order: jnp.bool_(kind.policy.order == order))
            front = in_front & ~here.of(lambda kind: jnp.bool_(kind.policy.requeues_last))
            found[order] = queue.push(index, select(mine, request, self.none), front)
        return found

    def pop(self, state: State, index: jax.Array, there: jax.Array, here: Here) -> dict:
        """The queues without the head of one."""
        found = {}
        for order, queue in state.queues.items():
            mine = here.of(lambda kind, order=order: jnp.bool_(kind.policy.order == order))
            found[order] = queue.pop(index, there & mine)
        return found

    def head(self, state: State, index: jax.Array, here: Here) -> jax.Array:
        """The request at the head of an instance's queue, N if there is none."""
        heads = {order: queue.first(index) for order, queue in state.queues.items()}
        return here.of(lambda kind: heads[kind.policy.order])

    # record ----------------------------------------------------------------------------------------------------------

    def _record_end(self, state: State, emission: ending.Emission, left: ending.Departure) -> State:
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
            bins = jnp.stack([emission.old_bin, emission.new_bin, itl_bin(left.gap_s)])
            gaps = jnp.stack([emission.old_gaps, emission.new_gaps, left.gaps])
            records = replace(records, itl_counts=add_each(r.itl_counts, bins, gaps))
        if r.kv_token_seconds is not None:
            records = replace(records, kv_token_seconds=r.kv_token_seconds + emission.token_seconds)
        return replace(
            state,
            records=records,
            ended=state.ended + (left.finished < self.none),
            moves=state.moves + emission.tokens,
        )

    def _record_composition(self, state: State, done: composing.Done, closed: composing.Closed) -> State:
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
