"""Composing a batch: what the candidate gets, runs of full chunks, the grant itself, the slot of a completed prompt.

The phases here, in `settle` and in `shortage` are about one lane. They return what changes and nothing else: every
output is a kernel of its own, so an output with a long derivation is a phase of its own too (`_arrays.phase`).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxsim._arrays import least_of_slots, over_slots, phase, select, slot_numbers
from jaxsim.engine import kv
from jaxsim.engine.policy.stream import Offer
from jaxsim.engine.shape import Shape
from jaxsim.engine.state import NEVER, Batch, Candidate, Leaving, Model, pack, unpack
from jaxsim.engine.stretch import duration_s, iterations_within_spread
from jaxsim.latency import terms as batch_terms
from jaxsim.latency.base import Piece
from jaxsim.latency.terms import Terms


class Here(NamedTuple):
    """The boundary a lane stands at and what runs there (fields of `State`)."""

    now_s: jax.Array
    free_s: jax.Array | None
    iteration: jax.Array
    decodes: jax.Array
    context: jax.Array
    computed: jax.Array
    next_key: jax.Array
    leaving: Leaving | None


def starts_s(here: Here) -> jax.Array:
    """When a batch composed here starts: at once, or when the one in flight ends."""
    return here.now_s if here.free_s is None else jnp.maximum(here.now_s, here.free_s)


def ends_s(here: Here) -> jax.Array:
    """When the batch composed last ends: here, or later where it is still in flight."""
    return here.now_s if here.free_s is None else here.free_s


def seated(here: Here) -> jax.Array:
    """Running requests, those included whose last token is in flight."""
    return here.decodes if here.leaving is None else here.decodes + here.leaving.requests


def composed(here: Here, piece: Piece, k: jax.Array) -> Here:
    """The clock after `k` (float64) iterations of a piece were composed.

    With one batch in flight, the next is composed when it ends. With two, batch j + 1 is composed when batch j starts
    (and batch j - 1 ends), knowing the results before it: the boundary is one batch behind the device, and requests
    that were leaving have left by then.
    """
    if here.free_s is None:
        return here._replace(now_s=here.now_s + duration_s(piece, k))
    some, start = k > 0, starts_s(here)
    leaving = here.leaving
    return here._replace(
        now_s=select(some, start + duration_s(piece, jnp.maximum(k - 1, 0.0)), here.now_s),
        free_s=select(some, start + duration_s(piece, k), here.free_s),
        leaving=leaving and jax.tree.map(lambda count: select(some, 0, count), leaving),
    )


def due(here: Here, shape: Shape) -> jax.Array:
    """Whether a request has emitted its last token and is yet to be retired."""
    return (here.next_key >> shape.slot_bits) == here.iteration


def left_blocks(here: Here) -> jax.Array | int:
    """KV blocks of requests whose last token is in flight."""
    return 0 if here.leaving is None or here.leaving.blocks is None else here.leaving.blocks


def left(here: Here, shape: Shape) -> jax.Array:
    """Iterations until the next request finishes."""
    return (here.next_key >> shape.slot_bits) - here.iteration


def f64(x: jax.Array) -> jax.Array:
    """As float64."""
    return x.astype(jnp.float64)


def whole(x: jax.Array) -> jax.Array:
    """A float64 count of iterations as int32, cut to more than any stretch has."""
    return jnp.minimum(x, 2.0**30).astype(jnp.int32)


@phase
def ask(
    model: Model,
    shape: Shape,
    here: Here,
    batch_tokens: jax.Array,
    candidate: Candidate,
    held_blocks: jax.Array | None,
    barred: jax.Array | None,
) -> jax.Array:
    """Tokens for the candidate, int32: 0 if it is not there or not admitted, or a request is yet to be retired."""
    is_open = batch_tokens > 0
    waiting = here.computed == 0
    known, _ = unpack(candidate.lengths)
    free_blocks = None
    if held_blocks is not None:
        free_blocks = model.pool.num_blocks - held_blocks - left_blocks(here)
    offer = Offer(
        batch_tokens=select(is_open, batch_tokens, here.decodes),
        running=seated(here),
        known=known,
        computed=here.computed,
        waiting=waiting,
        free_blocks=free_blocks,
        watermark_blocks=model.pool.watermark_blocks,
        block_size=shape.block_size,
    )
    arrived = candidate.arrival_s <= here.now_s
    if barred is not None:
        arrived = arrived & ~barred
    return select((~waiting | arrived) & (is_open | ~due(here, shape)), model.policy.grant(offer), 0)


def near_limit(model: Model, shape: Shape, here: Here, candidate: Candidate) -> jax.Array:
    """Whether the bound leaves room for doubt: what is held, the candidate whole, and a block more for every decode."""
    known, _ = unpack(candidate.lengths)
    most = kv.bound(here.decodes, here.context, jnp.int32(0), shape.block_size).blocks
    most = most + kv.ceil_div(known, shape.block_size) + model.pool.watermark_blocks + here.decodes + left_blocks(here)
    return (most > model.pool.num_blocks) & (here.decodes > 0)


# runs of full chunks -------------------------------------------------------------------------------------------------


@phase
def price_run(model: Model, shape: Shape, here: Here, tokens: jax.Array) -> Piece:
    """The affine piece of iterations that each take one more chunk of `tokens` of the candidate beside all decodes."""
    names = model.latency.terms
    first = batch_terms.add(
        batch_terms.of_decodes(names, here.decodes, here.context), batch_terms.of_chunk(names, tokens, here.computed)
    )
    growth = batch_terms.add(
        batch_terms.growth_of_decodes(names, here.decodes), batch_terms.growth_of_chunks(names, tokens)
    )
    return model.latency.price(first, growth)


@phase
def run_length(
    model: Model,
    shape: Shape,
    here: Here,
    batch_tokens: jax.Array,
    candidate: Candidate,
    tokens: jax.Array,
    piece: Piece,
    near: jax.Array | None,
) -> jax.Array:
    """How many iterations, float64, are nothing but one more such chunk: the last, shorter chunk is not among them."""
    known, _ = unpack(candidate.lengths)
    k = lax.div(known - here.computed - 1, jnp.maximum(tokens, 1))
    k = jnp.minimum(k, left(here, shape))
    if near is not None:
        spare = shape.block_size * (model.pool.num_blocks - kv.ceil_div(known, shape.block_size) - here.decodes)
        k = jnp.minimum(k, lax.div(spare - here.context, jnp.maximum(here.decodes, 1)))
    k = jnp.minimum(f64(k), piece.iterations)
    if shape.itl:
        k = jnp.minimum(k, iterations_within_spread(piece))
    exclusive = ~model.policy.may_join(here.decodes + tokens, here.decodes + 1)
    starts = (tokens > 0) & (batch_tokens == 0) & exclusive & (k >= 1)
    if near is not None:
        starts = starts & ~near
    return select(starts, jnp.floor(k), 0.0)


@phase
def after_run(here: Here, tokens: jax.Array, k: jax.Array, piece: Piece) -> Here:
    """The boundary after a run of k iterations."""
    steps = whole(k)
    return composed(here, piece, k)._replace(
        iteration=here.iteration + steps,
        context=here.context + steps * here.decodes,
        computed=here.computed + steps * tokens,
    )


@phase
def starting(shape: Shape, request: jax.Array, computed: jax.Array, tokens: jax.Array) -> jax.Array:
    """The request that gets its first tokens, N when none does."""
    return select((tokens > 0) & (computed == 0), request, jnp.int32(shape.num_requests))


# the grant -----------------------------------------------------------------------------------------------------------


@phase
def granted_now(shape: Shape, here: Here, candidate: Candidate, tokens: jax.Array) -> jax.Array:
    """What the candidate gets of `tokens` after a run: at most what it lacks, nothing if a request must retire."""
    known, _ = unpack(candidate.lengths)
    return select(due(here, shape), 0, jnp.minimum(tokens, known - here.computed))


@phase
def extend(model: Model, here: Here, batch: Batch, candidate: Candidate, tokens: jax.Array) -> Batch:
    """The batch with the candidate's chunk, opened with a token for every decode if it was closed."""
    names = tuple(batch.terms)
    known, _ = unpack(candidate.lengths)
    opens = (tokens > 0) & (batch.tokens == 0)
    # the last prompt token of a request looks like a decode to the engine
    single = (tokens > 0) & (known - here.computed == 1)
    fresh = batch_terms.of_decodes(names, here.decodes, here.context)
    chunk = batch_terms.of_chunk(names, select(single, 0, tokens), here.computed)
    decode = batch_terms.of_decodes(names, single.astype(jnp.int32), select(single, here.computed + 1, 0))
    terms: Terms = {
        name: select(opens, fresh[name], batch.terms[name]) + (chunk[name] + decode[name]) for name in names
    }
    resident = decodes = None
    if batch.decodes is not None:
        decodes = select(opens, here.decodes, batch.decodes)
    if batch.resident is not None:
        resident = select(opens, here.context, batch.resident) + select(tokens > 0, here.computed + tokens, 0)
    return Batch(
        tokens=select(opens, here.decodes, batch.tokens) + tokens,
        terms=terms,
        decodes=decodes,
        resident=resident,
        first_token_of=batch.first_token_of,
    )


@phase
def completes(here: Here, candidate: Candidate, tokens: jax.Array) -> jax.Array:
    """Whether the grant computes the last of the candidate's known tokens: it joins the decodes."""
    known, _ = unpack(candidate.lengths)
    return (tokens > 0) & (here.computed + tokens == known)


@phase
def after_grant(here: Here, candidate: Candidate, tokens: jax.Array, joins: jax.Array) -> Here:
    """The running set with the candidate's progress, or with the candidate among the decodes."""
    known, _ = unpack(candidate.lengths)
    return here._replace(
        decodes=here.decodes + joins,
        context=here.context + select(joins, known, 0),
        computed=select(joins, 0, here.computed + tokens),
    )


@phase
def gone_key(shape: Shape, here: Here, last_key: jax.Array) -> jax.Array:
    """The largest finish key of a slot that is free: requests whose last token is in flight keep theirs."""
    if here.leaving is None:
        return last_key
    before = (here.iteration << shape.slot_bits) - 1
    return select(here.leaving.requests > 0, jnp.minimum(last_key, before), last_key)


@over_slots
def free_slot(finish_key: jax.Array, last_key: jax.Array) -> jax.Array:
    """The first free slot, S when there is none."""
    free = finish_key[:-1] <= last_key
    return least_of_slots(select(free, slot_numbers(free), jnp.int32(free.shape[0])))


class Victim(NamedTuple):
    """A preempted decode."""

    slot: jax.Array
    """S when there is none."""
    request: jax.Array
    known: jax.Array
    """Its prompt and what it has emitted."""
    left: jax.Array | bool
    """Its last token is in flight: it loses its blocks, but waits for nothing."""


class Seating(NamedTuple):
    """A write to the slots: a completed prompt that joins, or a victim that keeps its slot."""

    slot: jax.Array
    key: jax.Array
    """NEVER when nobody joins."""
    occupant: jax.Array
    first: jax.Array
    """bool: a request joins for the first time."""
    exceeded: jax.Array
    """bool: there was no free slot."""


@phase
def seat(
    shape: Shape,
    here: Here,
    candidate: Candidate,
    request: jax.Array,
    joins: jax.Array,
    free: jax.Array,
    victim: Victim | None,
) -> Seating:
    """Seat a completed prompt; a victim writes its slot instead, since a round does only one of both."""
    known, remaining = unpack(candidate.lengths)
    no_slot = jnp.int32(shape.slots)
    slot, first = free, joins
    if candidate.slot is not None:
        resumes = candidate.slot < no_slot
        slot, first = select(resumes, candidate.slot, free), joins & ~resumes
    slot = select(joins, slot, no_slot)
    exceeded = joins & (slot == no_slot)
    key = select(joins, ((here.iteration + remaining) << shape.slot_bits) | slot, NEVER)
    occupant = pack(request, known - here.iteration)
    if victim is not None:
        evicted = victim.slot < no_slot
        slot = select(evicted, victim.slot, slot)
        key = select(evicted & victim.left, 0, key)
        occupant = select(evicted, pack(victim.request, victim.known), occupant)
    return Seating(slot, key, occupant, first, exceeded)
