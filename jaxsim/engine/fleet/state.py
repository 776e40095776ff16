"""The state of one fleet, its inputs and what is constant over its run."""

from typing import Any, ClassVar, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float64, Int32

from jaxsim._arrays import select, take
from jaxsim.engine.fleet import handover, queues
from jaxsim.engine.fleet.handover import Handover, Network
from jaxsim.engine.fleet.queues import Fifo, Ranked
from jaxsim.engine.fleet.shape import FleetShape
from jaxsim.engine.policy.base import AbstractPolicy
from jaxsim.engine.record import ITL_BINS
from jaxsim.latency.base import AbstractLatency

FREE, RUNNING, LIMBO, PADDING = range(4)
"""What a slot holds: nothing; a request of the running list; a preempted request that waits for the end of the batch in
flight before it is queued again; a finished request that stays in the batch."""

NEXT, ENDING, COMPOSING = range(3)
"""What a lane is about to do: look for the next event; go on ending a batch; go on composing one."""


UNIFIED, PREFILL, DECODE = range(3)
"""Roles of instances."""


UNLIMITED_BLOCKS = 1 << 30
"""Blocks of a pool without a limit."""


class Router(Protocol):
    """What the fleet needs of a router (`jaxsim.cluster.routing`)."""

    needs: ClassVar[frozenset[str]]

    def measure(self, view: Any) -> jax.Array:
        """A number per instance, float64 `[I]`, as of now or of when it was last looked at."""

    def pick(self, view: Any, measure: jax.Array) -> jax.Array:
        """The instance, int32."""

    def added(self, view: Any) -> jax.Array | float:
        """What a request adds to the measure of the instance it is sent to."""


class Kind(eqx.Module):
    """Instances whose scheduler and clock have one structure: their numbers, stacked."""

    policy: AbstractPolicy
    latency: AbstractLatency
    num_blocks: Int32[Array, " G"]
    watermark_blocks: Int32[Array, " G"]
    most_tokens: Int32[Array, " G"]
    """Of prompt and outputs together, at which a request stops."""
    most_seqs: Int32[Array, " G"]
    """Requests that run at once."""
    block_size: int = eqx.field(static=True)

    def of(self, place: jax.Array) -> "Kind":
        """One of them."""
        size = self.num_blocks.shape[0]
        return jax.tree.map(lambda leaf: leaf[0] if size == 1 else take(leaf, place), self)


class Outages(eqx.Module):
    """When instances become unavailable and available again, in order of time, what recovers at an instant first;
    element E never comes."""

    at_s: Float64[Array, " E+1"]
    instance: Int32[Array, " E+1"]
    fails: Int32[Array, " E+1"]
    """1: it fails; 0: it is available again."""
    loses: Int32[Array, " I"]
    """1: the requests of an instance that fails are lost; 0: they are queued again, somewhere."""


class Switching(eqx.Module):
    """Between which marks of queued tokens per instance others help out."""

    high: Float64[Array, ""]
    low: Float64[Array, ""]


class Away(eqx.Module):
    """Which instances are unavailable, and what becomes of their requests."""

    next: Int32[Array, ""]
    """The next of `Outages`, and when it comes."""
    next_s: Float64[Array, ""]
    expected: Int32[Array, ""]
    """Requests of the lane."""
    available: Bool[Array, " I"]
    failing: Bool[Array, " I"]
    """It failed just now, and requests are still to be taken from it."""
    requeued: Fifo
    """Requests that were taken, to be sent to other instances: one queue."""
    transit: Int32[Array, " N+1"]
    """0: not between two instances; 1: it waits for memory; 2: for its link, or is transferred."""
    ask: Int32[Array, " N+1"]
    """In which order they asked."""


class Lending(eqx.Module):
    """Instances that take the other role's requests too."""

    lent: Bool[Array, " I"]
    leaves: Int32[Array, " N+1"]
    """1: the request goes on elsewhere after its prefill, as was decided when it was sent to its instance."""
    incoming_tokens: Int32[Array, " I"]
    """Context of requests that come by transfer and are not admitted."""


class Fleet(eqx.Module):
    """What is constant over a lane's run."""

    kinds: tuple[Kind, ...]
    kind: Int32[Array, " I"]
    """Each instance's kind, and its place in it."""
    place: Int32[Array, " I"]
    role: Int32[Array, " I"]
    group: Int32[Array, " I"]
    """Place of its group among those that the same router serves."""
    num_blocks: Int32[Array, " I"]
    block_size: Int32[Array, " I"]
    most_tokens: Int32[Array, " I"]
    router: Router
    decode_router: Router | None
    network: Network | None
    outages: Outages | None
    switching: Switching | None
    max_in_flight: Int32[Array, ""] | None


class Requests(eqx.Module):
    """A lane's requests in the order they arrive; element N is a sentinel that never arrives."""

    arrival_s: Float64[Array, " N+1"]
    """Of a closed loop when its users first reach the scheduler, or infinite for those that are not sent."""
    prompt: Int32[Array, " N+1"]
    total: Int32[Array, " N+1"]
    """Prompt and all the tokens it will emit."""
    uniform: Float64[Array, " N+1"]
    urgency: Int32[Array, " N+1"] | None
    """Place in order of (priority, arrival), equal for equals."""
    session: Int32[Array, " N+1"] | None
    think_s: Float64[Array, " N+1"] | None
    """Of a closed loop, time between its end and the user's next request."""
    ranks: dict[str, Int32[Array, " N+1"]]
    """Its rank in each order of waiting queues but `fcfs`."""


class RouterMemory(eqx.Module):
    """What a router remembers of its picks."""

    last: Int32[Array, ""]
    """-1 at first."""
    seen: Float64[Array, " I"]
    """Its measure of every instance as of `seen_s`, and what it has added since."""
    seen_s: Float64[Array, ""]


class Clients(eqx.Module):
    """Users of a closed loop, or what `max_in_flight` needs."""

    ready_s: Float64[Array, " users"]
    """When each sends its next request; inf: it waits for an answer."""
    user: Int32[Array, " N+1"]
    freed_s: Float64[Array, ""]
    """When a request ended last."""
    sent_s: Float64[Array, " N+1"]
    """When each was sent; inf: it was not."""


class Slots(NamedTuple):
    """Requests at an instance, int32 `[S]` each (of a lane `[I, fields, S]`)."""

    status: jax.Array
    prompt: jax.Array
    request: jax.Array
    rank: jax.Array
    known: jax.Array
    """Prompt and emitted tokens: what must be computed before it emits the next. Tokens in flight are not counted."""
    total: jax.Array
    """Prompt and all it will emit here."""
    all_tokens: jax.Array
    """Prompt and all it will emit, wherever that is."""
    goal: jax.Array
    """Tokens that were known when it was admitted: below that it is still prefilling."""
    computed: jax.Array
    granted: jax.Array
    """Tokens per iteration in the batch that is composed, or was composed last."""
    owed: jax.Array
    """Tokens that the older of two batches in flight will emit: 0 or 1."""
    blocks: jax.Array
    urgency: jax.Array


class Times(NamedTuple):
    """Of the requests at an instance, float64 `[S]` each."""

    first_token_s: jax.Array
    """nan before it."""
    last_token_s: jax.Array
    gap_s: jax.Array
    """A gap between tokens that is longer than an iteration and yet to be recorded; 0: none."""
    decode_s: jax.Array
    """When it was first scheduled after its KV cache landed; nan: it is yet to be; 0: it never landed."""


class Counts(NamedTuple):
    """Of an instance, int32."""

    used_blocks: jax.Array
    next_rank: jax.Array
    old: jax.Array
    """1: of two batches in flight, the older one is there; its results are not applied."""
    k: jax.Array
    """Iterations of the batch composed last whose results are not applied; 0: there is none."""
    resident: jax.Array
    """KV tokens resident in its first iteration."""
    decodes: jax.Array
    """Decodes in it, and the context of all of them in its first iteration."""
    context: jax.Array
    waiting: jax.Array
    """Requests in the queue when it was composed."""


class Clock(NamedTuple):
    """Of an instance, seconds."""

    start_s: jax.Array
    """When the batch composed last starts."""
    first_s: jax.Array
    """Its first iteration, and by how much each is longer than the one before."""
    growth_s: jax.Array
    old_start_s: jax.Array
    old_end_s: jax.Array


class Instance(NamedTuple):
    """One instance, gathered from the lane."""

    slots: Slots
    times: Times
    counts: Counts
    clock: Clock
    memory: jax.Array
    queued: jax.Array
    running: jax.Array
    ends_s: jax.Array
    """When results are applied next; inf: nothing runs."""
    ready_s: jax.Array
    """When it is to compose a batch; inf: not now."""


class Events(eqx.Module):
    """Batches, or stretches of like ones, as they ended; row E is spare."""

    count: Int32[Array, ""]
    rows: Int32[Array, "E+1 fields"]
    """`EVENT_FIELDS`."""
    times: Float64[Array, "E+1 2"]
    """Start and end."""


EVENT_FIELDS = (
    "instance",
    "iterations",
    "batch_tokens",
    "decodes",
    "context_tokens",
    "running",
    "waiting",
    "kv_blocks",
)
"""Of a row of `Events`; `batch_tokens` in each iteration."""


class Records(eqx.Module):
    """What is kept of the run."""

    first_scheduled_s: Float64[Array, " N+1"]
    first_token_s: Float64[Array, " N+1"]
    last_token_s: Float64[Array, " N+1"]
    finish_s: Float64[Array, " N+1"]
    given_up: Int32[Array, " N+1"]
    """A `RequestStatus` of requests that end without having emitted all their tokens; 0 of the others."""
    known: Int32[Array, " N+1"]
    """Prompt and tokens emitted, as of when the request last left an instance's slots."""
    preemptions: Int32[Array, " N+1"]
    instance: Int32[Array, " N+1"]
    itl_counts: Int32[Array, " bins"] | None
    """Lanes are on the last axis."""
    kv_token_seconds: Float64[Array, ""] | None
    recomputed_tokens: Int32[Array, ""]
    iterations: Int32[Array, ""]
    makespan_s: Float64[Array, ""]
    events: Events | None


class State(eqx.Module):
    """Everything that changes from round to round."""

    now_s: Float64[Array, ""]
    doing: Int32[Array, ""]
    at: Int32[Array, ""]
    """The instance that is ending or composing a batch."""
    preempted: jax.Array
    """bool: somebody was preempted in the iteration being composed."""
    next_request: Int32[Array, ""]
    """The first request that has not arrived."""
    arrives_s: Float64[Array, ""]
    """When it does; inf: never."""
    ended: Int32[Array, ""]
    """Requests that have finished."""
    moves: Int32[Array, ""]
    """Arrivals and tokens so far, to see whether the lane makes progress."""
    ends_s: Float64[Array, " I"]
    ready_s: Float64[Array, " I"]
    queued: Int32[Array, " I"]
    running: Int32[Array, " I"]
    queued_prompt: Int32[Array, " I"]
    """Tokens that the requests in its queues have to prefill, and to emit."""
    queued_outputs: Int32[Array, " I"]
    clocks: Float64[Array, "I fields"]
    """`Clock`, then the policy's memory."""
    counts: Int32[Array, "I fields"]
    slots: Int32[Array, "I fields S"]
    times: Float64[Array, "I fields S"]
    central_waiting: Int32[Array, ""]
    """Requests in the central queue."""
    queues: dict[str, Fifo | Ranked]
    """Waiting queues, by their order."""
    routers: tuple[RouterMemory, RouterMemory]
    """Of arrivals, and of requests that leave their prefill instance."""
    homes: tuple[Int32[Array, " sessions+1"], Int32[Array, " sessions+1"]] | None
    """Of each router, by session, its instance; -1: none yet."""
    handover: Handover | None
    clients: Clients | None
    away: Away | None
    lending: Lending | None
    records: Records
    exceeded: Int32[Array, ""]


def memory_of(fleet: Fleet) -> int:
    """Numbers that the policies remember of an instance, at most."""
    return max(len(kind.policy.memory) for kind in fleet.kinds)


def orders_of(fleet: Fleet) -> list[str]:
    """Orders of the waiting queues."""
    return sorted({kind.policy.order for kind in fleet.kinds})


def fresh_memory(fleet: Fleet, size: int) -> jax.Array:
    """What the policies remember of instances at first, float64 `[I, size]`."""
    remembered = jnp.zeros((fleet.kind.shape[0], size))
    for number, kind in enumerate(fleet.kinds if size else ()):
        start = jnp.asarray((*kind.policy.memory, *[0.0] * (size - len(kind.policy.memory))))
        remembered = select((fleet.kind == number)[:, None], start[None], remembered)
    return remembered


def initial(fleet: Fleet, requests: Requests, shape: FleetShape) -> State:
    """Idle instances before the first arrival."""
    n, i, s = shape.num_requests, shape.instances, shape.slots
    zero, never = jnp.int32(0), jnp.full(n + 1, jnp.inf)
    memory = memory_of(fleet)
    remembered = fresh_memory(fleet, memory)
    times = jnp.zeros((i, len(Times._fields), s)).at[:, :2].set(jnp.nan)
    clocks = jnp.zeros((i, len(Clock._fields)))
    return State(
        now_s=jnp.float64(0),
        doing=zero,
        at=zero,
        preempted=jnp.bool_(False),
        next_request=zero,
        arrives_s=requests.arrival_s[0],
        ended=zero,
        moves=zero,
        ends_s=jnp.full(i, jnp.inf),
        ready_s=jnp.full(i, jnp.inf),
        queued=jnp.zeros(i, jnp.int32),
        running=jnp.zeros(i, jnp.int32),
        queued_prompt=jnp.zeros(i, jnp.int32),
        queued_outputs=jnp.zeros(i, jnp.int32),
        clocks=jnp.concatenate([clocks, remembered], axis=1),
        counts=jnp.zeros((i, len(Counts._fields)), jnp.int32),
        slots=jnp.zeros((i, len(Slots._fields), s), jnp.int32),
        times=times,
        central_waiting=zero,
        queues={order: queues.empty(order, shape.queues, n, requests.ranks.get(order)) for order in orders_of(fleet)},
        routers=(RouterMemory(jnp.int32(-1), jnp.zeros(i), jnp.float64(-jnp.inf)),) * 2,
        homes=(jnp.full(shape.sessions + 1, -1, jnp.int32),) * 2 if shape.sessions else None,
        handover=handover.initial(shape) if shape.transfers else None,
        clients=Clients(
            ready_s=jnp.full(shape.users, requests.arrival_s[0]),
            user=jnp.zeros(n + 1, jnp.int32),
            freed_s=jnp.float64(0),
            sent_s=never,
        )
        if shape.users or shape.capped
        else None,
        away=_all_there(fleet, requests, shape) if shape.outages else None,
        lending=Lending(jnp.zeros(i, bool), jnp.zeros(n + 1, jnp.int32), jnp.zeros(i, jnp.int32))
        if shape.switches
        else None,
        records=Records(
            first_scheduled_s=never,
            first_token_s=jnp.full(n + 1, jnp.nan),
            last_token_s=jnp.full(n + 1, jnp.nan),
            finish_s=jnp.full(n + 1, jnp.nan),
            given_up=jnp.zeros(n + 1, jnp.int32),
            known=requests.prompt,
            preemptions=jnp.zeros(n + 1, jnp.int32),
            instance=jnp.full(n + 1, -1, jnp.int32),
            itl_counts=jnp.zeros(ITL_BINS, jnp.int32) if shape.itl else None,
            kv_token_seconds=jnp.float64(0) if shape.kv_integral else None,
            recomputed_tokens=zero,
            iterations=zero,
            makespan_s=jnp.float64(0),
            events=None
            if not shape.events
            else Events(
                jnp.int32(0),
                jnp.zeros((shape.events + 1, len(EVENT_FIELDS)), jnp.int32),
                jnp.zeros((shape.events + 1, 2)),
            ),
        ),
        exceeded=zero,
    )


def _all_there(fleet: Fleet, requests: Requests, shape: FleetShape) -> Away:
    n, i = shape.num_requests, shape.instances
    one = queues.empty("fcfs", 1, n, None)
    assert isinstance(one, Fifo)
    zeros = jnp.zeros(n + 1, jnp.int32)
    assert fleet.outages is not None
    return Away(
        next=jnp.int32(0),
        next_s=fleet.outages.at_s[0],
        expected=jnp.sum(requests.arrival_s < jnp.inf, dtype=jnp.int32),
        available=jnp.ones(i, bool),
        failing=jnp.zeros(i, bool),
        requeued=one,
        transit=zeros,
        ask=zeros,
    )


def finished(state: State) -> jax.Array:
    """Whether nothing can happen any more, and a round leaves the lane as it is; or it cannot go on."""
    busy = (state.doing != NEXT) | jnp.any(state.ends_s < jnp.inf) | jnp.any(state.ready_s < jnp.inf)
    busy = busy | (state.arrives_s < jnp.inf)
    if state.handover is not None:
        busy = busy | jnp.any(state.handover.lands_s < jnp.inf) | jnp.any(state.handover.check > 0)
        busy = busy | handover.someone_leaves(state.handover)
    if state.away is not None:
        # an instance that is away composes nothing, but what waits there is served when it is back
        busy = busy | jnp.any(state.away.failing) | (state.away.requeued.head[0] < state.records.known.shape[0] - 1)
        busy = busy | ((state.ended < state.away.expected) & (state.away.next_s < jnp.inf))
    return ~busy | (state.exceeded > 0)


def axes(state: State) -> State:
    """The lane axis of every leaf: the last for counts by bin, the first for the rest."""
    axis = jax.tree.map(lambda _: 0, state)
    return axis if state.records.itl_counts is None else eqx.tree_at(lambda s: s.records.itl_counts, axis, 1)


def gather(state: State, index: jax.Array) -> Instance:
    """One instance of a lane."""
    clock, counts = state.clocks[index], state.counts[index]
    slots, times = state.slots[index], state.times[index]
    fields = len(Clock._fields)
    return Instance(
        slots=Slots(*slots),
        times=Times(*times),
        counts=Counts(*counts),
        clock=Clock(*clock[:fields]),
        memory=clock[fields:],
        queued=state.queued[index],
        running=state.running[index],
        ends_s=state.ends_s[index],
        ready_s=state.ready_s[index],
    )


def scatter(state: State, index: jax.Array, instance: Instance) -> State:
    """The lane with one instance changed."""
    clock = jnp.concatenate([jnp.stack(instance.clock), instance.memory])
    return eqx.tree_at(
        lambda s: (s.clocks, s.counts, s.slots, s.times, s.queued, s.running, s.ends_s, s.ready_s),
        state,
        (
            state.clocks.at[index].set(clock),
            state.counts.at[index].set(jnp.stack(instance.counts)),
            state.slots.at[index].set(jnp.stack(instance.slots)),
            state.times.at[index].set(jnp.stack(instance.times)),
            state.queued.at[index].set(instance.queued),
            state.running.at[index].set(instance.running),
            state.ends_s.at[index].set(instance.ends_s),
            state.ready_s.at[index].set(instance.ready_s),
        ),
    )
