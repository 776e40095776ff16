"""What the phases of a round have in common: an instance's kind, its queue, waking it, routing to it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsim._arrays import first_there, put, select, take
from jaxsim.engine import kv
from jaxsim.engine.fleet import handover, routing, switching
from jaxsim.engine.fleet.shape import FleetShape
from jaxsim.engine.fleet.state import (
    DECODE,
    PREFILL,
    Clock,
    Counts,
    Fleet,
    Kind,
    Requests,
    Router,
    RouterMemory,
    Slots,
    State,
)


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


def _has_order(order: str) -> Callable[[Kind], jax.Array]:
    return lambda kind: jnp.bool_(kind.policy.order == order)


class Lane:
    """A fleet, its requests and its shape, and what several phases of a round do with them."""

    def __init__(self, fleet: Fleet, requests: Requests, shape: FleetShape) -> None:
        self.fleet, self.requests, self.shape = fleet, requests, shape
        self.none = shape.num_requests
        self.instances = jnp.arange(shape.instances, dtype=jnp.int32)

    def here(self, index: jax.Array) -> Here:
        """An instance's kind."""
        fleet = self.fleet
        if len(fleet.kinds) == 1 and fleet.kinds[0].num_blocks.shape[0] == 1:
            return Here(jnp.int32(0), [fleet.kinds[0].of(jnp.int32(0))])
        return Here(fleet.kind[index], [kind.of(fleet.place[index]) for kind in fleet.kinds])

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
        serves = (self.fleet.role != DECODE) & self.available(state)
        runs = state.ends_s < jnp.inf
        k = routing.composed(counts, clock, state.now_s, two).k
        cuts = there & serves & runs & (k < counts.k)
        idle = serves & ~runs & (state.ready_s == jnp.inf)
        first = there & idle & (self.instances == first_there(idle))
        return replace(
            state,
            counts=state.counts.at[:, Counts._fields.index("k")].set(select(cuts, k, counts.k)),
            ends_s=select(cuts, routing.cut_ends_s(clock, k, two), state.ends_s),
            ready_s=select(first, state.now_s, state.ready_s),
        )

    def offer_next(self, state: State, there: jax.Array) -> State:
        """The instance at hand is idle and took nothing from the central queue: the next idle one is woken."""
        serves = (self.fleet.role != DECODE) & self.available(state)
        idle = serves & (state.ends_s == jnp.inf) & (state.ready_s == jnp.inf) & (self.instances > state.at)
        first = there & idle & (self.instances == first_there(idle))
        return replace(state, ready_s=select(first, state.now_s, state.ready_s))

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

    def changes_s(self, state: State) -> jax.Array:
        """When the next instance becomes unavailable or available again."""
        return jnp.float64(jnp.inf) if state.away is None else state.away.next_s

    def fails(self, state: State) -> jax.Array:
        """Whether requests of an instance that has failed are to be taken from it or sent elsewhere before time goes
        on."""
        if state.away is None:
            return jnp.bool_(False)
        return jnp.any(state.away.failing) | (state.away.requeued.head[0] < self.none)

    def ready_s(self, state: State) -> jax.Array:
        """When each instance is to compose a batch; those that are away do not."""
        return state.ready_s if state.away is None else select(state.away.available, state.ready_s, jnp.inf)

    def available(self, state: State) -> jax.Array:
        """bool `[I]`."""
        return jnp.ones_like(self.instances, bool) if state.away is None else state.away.available

    def lands_s(self, state: State) -> jax.Array:
        """When the next transfer lands."""
        return jnp.float64(jnp.inf) if state.handover is None else jnp.min(state.handover.lands_s)

    def use_blocks(self, counts: jax.Array, index: jax.Array, blocks: jax.Array) -> jax.Array:
        """Take blocks of an instance's pool, or give them back."""
        return counts.at[index, Counts._fields.index("used_blocks")].add(blocks)

    def send_front(
        self,
        state: State,
        request: jax.Array,
        uniform: jax.Array,
        known: jax.Array,
        total: jax.Array,
        there: jax.Array,
    ) -> State:
        """A request (N: nobody) comes to the fleet: it is routed and queued."""
        if self.shape.central:
            index = jnp.int32(self.shape.instances)
            queued = self.push(state, index, request, self.here(jnp.int32(0)))
            state = replace(state, queues=queued, central_waiting=state.central_waiting + there)
            state = replace(
                state, records=replace(state.records, instance=put(state.records.instance, request, jnp.int32(-1)))
            )
            return self.disturb_all(state, there)
        state = switching.before_prefill(self, state, there)
        group = switching.takes_prefills(self, state)
        index, state = self.route(state, 0, self.fleet.router, group, request, uniform, known)
        state = switching.decide(self, state, request, index)
        state = self.enqueue(state, index, request, known, total, there)
        return replace(state, records=replace(state.records, instance=put(state.records.instance, request, index)))

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
        outputs = self.total_here(state, index, here, known, total, request) - known
        return replace(
            state,
            queued=state.queued + mine,
            queued_prompt=state.queued_prompt + select(mine, known, 0),
            queued_outputs=state.queued_outputs + select(mine, outputs, 0),
        )

    def total_here(
        self, state: State, index: jax.Array, here: Here, known: jax.Array, total: jax.Array, request: jax.Array
    ) -> jax.Array:
        """Prompt and all the tokens that a request emits at an instance."""
        most = jnp.minimum(total, here.of(lambda kind: kind.most_tokens))
        if not self.shape.transfers:
            return most
        leaves = self.fleet.role[index] == PREFILL
        if state.lending is not None:
            leaves = take(state.lending.leaves, request) > 0
        return select(leaves, jnp.minimum(most, known + 1), most)

    def load(self, state: State, index: jax.Array) -> routing.Load:
        """What an instance's running requests have left, and the blocks it uses, now."""
        here = self.here(index)
        clock = Clock(*state.clocks[index][: len(Clock._fields)])
        slots, counts = Slots(*state.slots[index]), Counts(*state.counts[index])
        leaves = self.fleet.role[index] == PREFILL
        if state.lending is not None:
            leaves = leaves & ~state.lending.lent[index]
        return routing.load(slots, counts, clock, state.now_s, here.two, here.block_size, leaves)

    def route(
        self,
        state: State,
        which: int,
        router: Router,
        eligible: jax.Array,
        request: jax.Array,
        uniform: jax.Array,
        prompt: jax.Array,
    ) -> tuple[jax.Array, State]:
        """The instance a request (N: nobody) with `prompt` tokens to prefill goes to, and what the router remembers."""
        there, zero = request < self.none, jnp.zeros_like(state.queued)
        reachable = eligible & self.available(state)
        eligible = select(jnp.any(reachable), reachable, eligible)
        loads = routing.Load(zero, zero, zero, zero)
        if router.needs:
            loads = jax.vmap(lambda index: self.load(state, index))(self.instances)
        memory, home = state.routers[which], jnp.int32(-1)
        session = None
        if state.homes is not None and self.requests.session is not None:
            session = take(self.requests.session, request)
            home = take(state.homes[which], session)
        total = jnp.minimum(take(self.requests.total, request), self.fleet.most_tokens)
        leaves = (which == 0) & (self.fleet.role == PREFILL)
        if state.lending is not None:
            leaves = leaves & ~state.lending.lent
        emits = select(leaves, 1, total - take(state.records.known, request))
        tokens = take(self.requests.prompt, request) + 1
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
            outputs=emits,
            blocks=kv.ceil_div(jnp.broadcast_to(tokens, emits.shape), self.fleet.block_size),
        )
        stale = state.now_s - memory.seen_s < getattr(router, "staleness_s", 0.0)
        measure = select(stale, memory.seen, router.measure(view).astype(jnp.float64))
        index = router.pick(view, measure).astype(jnp.int32)
        added = jnp.asarray(router.added(view), jnp.float64)
        added = select(self.instances == index, added, 0.0)
        after = RouterMemory(
            last=select(there, index, memory.last),
            seen=select(there, measure + added, memory.seen),
            seen_s=select(there & ~stale, state.now_s, memory.seen_s),
        )
        routers = (after, state.routers[1]) if which == 0 else (state.routers[0], after)
        state = replace(state, routers=routers)
        if session is not None and state.homes is not None:
            spare = state.homes[which].shape[0] - 1
            mine = put(state.homes[which], select(there, session, spare), index)
            state = replace(state, homes=(mine, state.homes[1]) if which == 0 else (state.homes[0], mine))
        return index, state

    def push(self, state: State, index: jax.Array, request: jax.Array, here: Here, in_front: bool = False) -> dict:
        """The queues with a request (N: nobody) waiting at an instance."""
        found = {}
        for order, queue in state.queues.items():
            mine = here.of(_has_order(order))
            front = in_front & ~here.of(lambda kind: jnp.bool_(kind.policy.requeues_last))
            found[order] = queue.push(index, select(mine, request, self.none), front)
        return found

    def pop(self, state: State, index: jax.Array, there: jax.Array, here: Here) -> dict:
        """The queues without the head of one."""
        found = {}
        for order, queue in state.queues.items():
            mine = here.of(_has_order(order))
            found[order] = queue.pop(index, there & mine)
        return found

    def head(self, state: State, index: jax.Array, here: Here) -> jax.Array:
        """The request at the head of an instance's queue, N if there is none."""
        heads = {order: queue.first(index) for order, queue in state.queues.items()}
        return here.of(lambda kind: heads[kind.policy.order])

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
