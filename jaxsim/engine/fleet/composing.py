"""A batch is composed: the policy is asked, and what it answers is done; a complete batch is priced and starts."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsim._arrays import over_slots, phase, select, slot_numbers
from jaxsim.engine import kv
from jaxsim.engine.fleet.ending import emits
from jaxsim.engine.fleet.shape import FleetShape
from jaxsim.engine.fleet.state import FREE, LIMBO, PADDING, RUNNING, Instance, Kind
from jaxsim.engine.policy.base import Head, Plan, View, any_of, at, first_of, total_of
from jaxsim.engine.stretch import duration_s, iterations_within_spread
from jaxsim.latency.base import AbstractLatency, Piece
from jaxsim.latency.terms import NAMES, Terms


class Waiting(NamedTuple):
    """The head of the queue, as the records know it."""

    request: jax.Array
    """N: nobody."""
    head: Head
    all_tokens: jax.Array
    """Prompt and all it will emit, wherever that is."""
    urgency: jax.Array
    first_token_s: jax.Array
    last_token_s: jax.Array
    num_waiting: jax.Array
    own: jax.Array
    """bool: it waits in the instance's own queue, not in the central one."""
    landed: jax.Array
    """bool: its KV cache is here already; it joins the running list whatever the policy says."""
    blocks: jax.Array
    """Blocks it holds then."""
    decode_s: jax.Array
    """nan if it has yet to be scheduled after it landed, else 0."""


def view_of(kind: Kind, instance: Instance, waiting: Waiting, preempted: jax.Array) -> View:
    """What the policy sees."""
    s = instance.slots
    return View(
        running=(s.status == RUNNING) | (s.status == PADDING),
        prompt=s.prompt,
        request=s.request,
        rank=s.rank,
        urgency=s.urgency,
        known=s.known + s.owed,
        total=s.total,
        goal=s.goal,
        computed=s.computed,
        blocks=s.blocks,
        granted=s.granted,
        num_running=instance.running,
        num_waiting=waiting.num_waiting,
        head=waiting.head,
        free_blocks=kind.num_blocks - instance.counts.used_blocks,
        num_blocks=kind.num_blocks,
        watermark_blocks=kind.watermark_blocks,
        preempted=preempted,
        next_rank=instance.counts.next_rank,
        memory=instance.memory[: len(kind.policy.memory)],
        block_size=kind.block_size,
    )


@over_slots
def plan_of(kind: Kind, instance: Instance, waiting: Waiting, preempted: jax.Array) -> Plan:
    """The policy's next step."""
    view = view_of(kind, instance, waiting, preempted)
    plan = kind.policy.plan(view)
    memory = jnp.concatenate([plan.memory, instance.memory[len(kind.policy.memory) :]])
    return plan._replace(memory=memory)


class Done(NamedTuple):
    """What following a plan gives the records. Nobody: request N."""

    admitted: jax.Array
    victim: jax.Array
    given_up: jax.Array
    """The victim, if it is not to be queued again."""
    requeued: jax.Array
    """The victim, if it is queued again at once."""
    known: jax.Array
    first_token_s: jax.Array
    last_token_s: jax.Array
    decode_s: jax.Array
    """Of the victim."""
    freed: jax.Array
    """bool: it held blocks."""
    lost_tokens: jax.Array
    preempted: jax.Array
    exceeded: jax.Array
    """bool: there was no free slot."""


@over_slots
def follow(
    instance: Instance,
    plan: Plan,
    waiting: Waiting,
    composing: jax.Array,
    most_tokens: jax.Array,
    none: jax.Array,
) -> tuple[Instance, Done]:
    """Grant, preempt and admit as planned, if the lane is `composing`. What has landed joins first, and nothing else is
    done then."""
    asked = composing & ~waiting.landed
    s, t, counts = instance.slots, instance.times, instance.counts
    places = slot_numbers(s.status)
    # grants
    grant = select(asked, plan.grant, 0)
    granted = s.granted + grant
    blocks = select(grant > 0, plan.blocks, s.blocks)
    used = counts.used_blocks + total_of(blocks - s.blocks)
    # a preemption
    victim = (places == plan.victim) & asked
    evicts = any_of(victim)
    limbo, aborts = counts.old > 0, jnp.asarray(plan.aborts)
    status = select(victim, select(limbo, LIMBO, FREE), s.status)
    # whoever lost its KV cache here does not leave with the token in flight
    all_its = jnp.minimum(at(victim, s.all_tokens), most_tokens)
    lost = select(aborts, 0, at(victim & (s.known + s.owed < all_its), s.computed))
    used = used - at(victim, blocks)
    granted, blocks = select(victim, 0, granted), select(victim, 0, blocks)
    computed = select(victim, 0, s.computed)
    rank = select(asked, plan.rank, s.rank)
    # an admission
    joins = composing & waiting.landed
    tokens = select(composing & ~joins, plan.admit, 0)
    admits = (tokens > 0) | joins
    takes = select(joins, 0, plan.admit_blocks)  # those of a landed request are in use already
    free = first_of(s.status == FREE, places)
    seat = free & admits
    slots = s._replace(
        status=select(seat, RUNNING, status),
        prompt=select(seat, waiting.head.prompt, s.prompt),
        request=select(seat, waiting.request, s.request),
        rank=select(seat, counts.next_rank + 1, rank),
        known=select(seat, waiting.head.known, s.known),
        total=select(seat, waiting.head.total, select(victim, all_its, s.total)),
        all_tokens=select(seat, waiting.all_tokens, s.all_tokens),
        goal=select(seat, waiting.head.known - joins, s.goal),
        computed=select(seat, select(joins, waiting.head.known - 1, 0), computed),
        granted=select(seat, tokens, granted),
        owed=select(seat, 0, s.owed),
        blocks=select(seat, select(joins, waiting.blocks, plan.admit_blocks), blocks),
        urgency=select(seat, waiting.urgency, s.urgency),
    )
    times = t._replace(
        first_token_s=select(seat, waiting.first_token_s, t.first_token_s),
        last_token_s=select(seat, waiting.last_token_s, t.last_token_s),
        gap_s=select(seat, 0.0, t.gap_s),
        decode_s=select(seat, waiting.decode_s, t.decode_s),
    )
    seated = any_of(seat)
    after = instance._replace(
        slots=slots,
        times=times,
        counts=counts._replace(
            used_blocks=used + select(seated, takes, 0),
            next_rank=counts.next_rank + select(composing, 2, 0),
        ),
        memory=select(asked, plan.memory, instance.memory),
        running=instance.running - evicts + seated,
        queued=instance.queued + (evicts & ~aborts) - (seated & waiting.own),
    )
    who = select(evicts, at(victim, s.request), none)
    return after, Done(
        admitted=select(seated, waiting.request, none),
        victim=select(aborts, none, who),
        given_up=select(aborts, who, none),
        requeued=select(limbo | aborts, none, who),
        known=at(victim, s.known),
        first_token_s=at(victim, t.first_token_s),
        last_token_s=at(victim, t.last_token_s),
        decode_s=at(victim, t.decode_s),
        freed=at(victim, s.blocks) > 0,
        lost_tokens=lost,
        preempted=evicts,
        exceeded=admits & ~seated,
    )


@over_slots
def _terms(kind: Kind, instance: Instance, waiting: Waiting, preempted: jax.Array) -> tuple[Terms, Terms]:
    """Terms of the composed batch, and what they gain if it is composed again."""
    view = view_of(kind, instance, waiting, preempted)
    decode = kind.policy.is_decode(view)
    granted = instance.slots.granted
    feeds, chunk = decode & (granted > 0), ~decode & (granted > 0)

    def total(values: jax.Array) -> jax.Array:  # exact: whole numbers below 2**53
        return jnp.sum(values.astype(jnp.float64), axis=0)

    sizes = select(chunk, granted, 0).astype(jnp.float64)
    squares = total(sizes * sizes)
    terms = {
        "new_tokens": total(granted),
        "decode_seqs": total(feeds),
        "context_tokens": total(select(feeds, view.computed + 1, 0)),
        "prefill_seqs": total(chunk),
        "prefill_tokens": total(sizes),
        "prefill_pairs": total(sizes * (view.computed + granted)),
        "prefill_squares": squares,
    }
    nothing = jnp.zeros_like(squares)
    growth = dict.fromkeys(NAMES, nothing) | {"context_tokens": terms["decode_seqs"], "prefill_pairs": squares}
    return terms, growth


@phase
def _price(latency: AbstractLatency, terms: Terms, growth: Terms) -> Piece:
    """Seconds of the composed batch, and of it again and again. Of one lane: a table's axes are no slots."""
    piece = latency.price({name: terms[name] for name in latency.terms}, {name: growth[name] for name in latency.terms})
    return Piece(*(jnp.asarray(part, jnp.float64) for part in piece))


def repeats(
    shape: FleetShape, kind: Kind, instance: Instance, view: View, piece: Piece, preempted: jax.Array
) -> jax.Array:
    """For how many iterations, int32, exactly this batch is composed; at least 1."""
    if not shape.leap:
        return jnp.ones_like(instance.counts.k)
    s, t, old = instance.slots, instance.times, instance.counts.old > 0
    two = kind.policy.batches_in_flight == 2
    member = s.granted > 0
    emitting = emits(s)
    many = jnp.int32(2**30)
    k = jnp.minimum(many, kind.policy.stretch_limit(view))
    k = jnp.minimum(k, jnp.min(select(emitting & (s.status == RUNNING), s.total - s.known - s.owed, many), axis=0))
    piece_left = jax.lax.div(jnp.maximum(s.known + s.owed - s.computed - 1, 0), jnp.maximum(s.granted, 1))
    k = jnp.minimum(k, jnp.min(select(member & ~emitting, piece_left, many), axis=0))
    decode = kind.policy.is_decode(view)
    changes = preempted | any_of(emitting & (jnp.isnan(t.first_token_s) | ~decode)) | any_of(s.status == LIMBO)
    if two:
        ending = (s.owed > 0) & (jnp.isnan(t.first_token_s) | (s.known + s.owed >= s.total))
        changes = changes | ~old | any_of(ending)
    if shape.itl:
        expected = instance.clock.old_end_s if two else instance.ready_s
        last = select(s.owed > 0, expected, t.last_token_s) if two else t.last_token_s
        changes = changes | any_of(emitting & (s.status == RUNNING) & (last < expected))
        k = jnp.minimum(k, jnp.minimum(iterations_within_spread(piece), 2.0**30).astype(jnp.int32))
    k = jnp.minimum(k, jnp.minimum(piece.iterations, 2.0**30).astype(jnp.int32))
    k = jnp.minimum(k, _blocks_last(kind, instance, member, decode))
    return select(changes, 1, jnp.maximum(k, 1))


def _blocks_last(kind: Kind, instance: Instance, member: jax.Array, decode: jax.Array) -> jax.Array:
    """For how many iterations of this batch there are blocks; this one has them."""
    if kind.policy.reserves:
        return jnp.full_like(instance.counts.k, 2**30)
    s, bs = instance.slots, kind.block_size
    limit = kind.num_blocks - instance.counts.used_blocks + total_of(select(member, s.blocks, 0))
    limit = limit - kind.policy.spares_block
    after = s.computed + s.granted
    feeds, chunk = member & decode, member & ~decode
    exact = kv.exact(after, feeds, limit, bs).iterations
    # with pieces of prompts beside them: every member's last block counted as full
    held = jnp.sum(
        select(feeds, after + bs - 1, 0) + select(chunk, jnp.maximum(after + bs - 1, s.blocks * bs), 0),
        axis=0,
        dtype=jnp.int64,
    )
    spare = limit.astype(jnp.int64) * bs - held
    per_iteration = jnp.maximum(total_of(s.granted), 1).astype(jnp.int64)
    rough = jnp.minimum(select(spare < 0, 1, 1 + jax.lax.div(spare, per_iteration)), 2**30).astype(jnp.int32)
    return select(any_of(chunk), rough, exact)


class Stretch(NamedTuple):
    """The composed batch again and again."""

    piece: Piece
    k: jax.Array
    """For how many iterations it will be composed; at least 1."""
    decodes: jax.Array
    context: jax.Array
    """Decodes in it, and the context of all of them in its first iteration."""


@over_slots
def _lasts(
    shape: FleetShape, kind: Kind, instance: Instance, waiting: Waiting, preempted: jax.Array, piece: Piece
) -> Stretch:
    view = view_of(kind, instance, waiting, preempted)
    feeds = kind.policy.is_decode(view) & (view.granted > 0)
    return Stretch(
        piece=piece,
        k=repeats(shape, kind, instance, view, piece, preempted),
        decodes=total_of(feeds),
        context=total_of(select(feeds, view.computed + 1, 0)),
    )


def price_stretch(shape: FleetShape, kind: Kind, instance: Instance, waiting: Waiting, preempted: jax.Array) -> Stretch:
    """The composed batch again and again."""
    terms, growth = _terms(kind, instance, waiting, preempted)
    piece = _price(kind.latency, terms, growth)
    return _lasts(shape, kind, instance, waiting, preempted, piece)


class Closed(NamedTuple):
    """What closing a batch gives the lane."""

    starts_s: jax.Array
    """When it starts."""
    again: jax.Array
    """bool: another batch is composed at once."""
    iterations: jax.Array
    """1 for the first of two batches in flight, which is the older one from the start; and its KV token-seconds."""
    token_seconds: jax.Array
    end_s: jax.Array
    """When it ends, if it is that; and its tokens."""
    batch_tokens: jax.Array


@over_slots
def close(
    instance: Instance,
    two: jax.Array,
    stretch: Stretch,
    waiting: jax.Array,
    closes: jax.Array,
    preempted: jax.Array,
) -> tuple[Instance, Closed]:
    """Start the complete batch: at once, or after the one in flight. An empty one is composed again if somebody was
    preempted and nothing runs."""
    s, counts, clock, now = instance.slots, instance.counts, instance.clock, instance.ready_s
    piece, k = stretch.piece, stretch.k
    old = counts.old > 0
    starts = select(old, clock.old_end_s, now)
    nothing = ~any_of(s.granted > 0)
    some = closes & ~nothing
    opens = some & two & ~old  # the first of two batches: the next is composed at once, knowing what it will do
    runs = some & ~opens
    one = duration_s(piece, jnp.float64(1))
    steps = k.astype(jnp.float64)
    there = (s.status == RUNNING) | (s.status == PADDING)
    passed = two & (s.granted == 0) & (s.known + s.owed >= s.total)
    kept = select(s.status == PADDING, s.total - 1, s.computed + s.granted)  # what padding feeds is not kept
    resident = total_of(select(there & ~passed, kept, 0))
    emitting = emits(s)
    ends = select(two, starts + duration_s(piece, jnp.maximum(steps - 1, 0.0)), starts + duration_s(piece, steps))
    waits = closes & nothing & old
    after = instance._replace(
        slots=s._replace(
            computed=select(opens, s.computed + s.granted, s.computed),
            owed=select(opens, emitting.astype(jnp.int32), s.owed),
            granted=select(opens, 0, s.granted),
        ),
        counts=counts._replace(
            old=select(opens, 1, counts.old),
            k=select(runs, k, counts.k),
            resident=select(some, resident, counts.resident),
            decodes=select(some, stretch.decodes, counts.decodes),
            context=select(some, stretch.context, counts.context),
            waiting=select(some, waiting, counts.waiting),
        ),
        times=instance.times._replace(
            decode_s=select(
                some & (s.granted > 0) & jnp.isnan(instance.times.decode_s), starts, instance.times.decode_s
            )
        ),
        clock=clock._replace(
            start_s=select(runs, starts, clock.start_s),
            first_s=select(runs, piece.first_s, clock.first_s),
            growth_s=select(runs, piece.growth_s, clock.growth_s),
            old_start_s=select(opens, starts, clock.old_start_s),
            old_end_s=select(opens, starts + one, clock.old_end_s),
        ),
        ends_s=select(runs, ends, select(waits, clock.old_end_s, instance.ends_s)),
        ready_s=select(closes & ~opens & ~(nothing & preempted & ~old), jnp.inf, instance.ready_s),
    )
    again = opens | (closes & nothing & preempted & ~old)
    return after, Closed(
        starts_s=starts,
        again=again,
        iterations=opens.astype(jnp.int32),
        token_seconds=select(opens, one * resident, 0.0),
        end_s=starts + one,
        batch_tokens=total_of(s.granted),
    )
