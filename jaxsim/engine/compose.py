"""Composing a batch: what the candidate gets, runs of full chunks, the grant itself, and the seat of a completed prompt.

The phases here, in `settle` and in `shortage` are about one lane. They return what changes and nothing else: every
output is a kernel of its own, so an output with a long derivation is a phase of its own too (`_arrays.phase`).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxsim._arrays import over_slots, phase, select
from jaxsim.engine import kv
from jaxsim.engine.policy.base import View
from jaxsim.engine.shape import Shape
from jaxsim.engine.state import Batch, Candidate, Model, unpack
from jaxsim.engine.stretch import iterations_within_spread
from jaxsim.latency import terms as batch_terms
from jaxsim.latency.base import Piece
from jaxsim.latency.terms import Terms


class Here(NamedTuple):
    """The boundary a lane stands at and what runs there (fields of `State`)."""

    now_s: jax.Array
    iteration: jax.Array
    decodes: jax.Array
    context: jax.Array
    computed: jax.Array
    next_key: jax.Array


def due(here: Here, shape: Shape) -> jax.Array:
    """Whether a request has emitted its last token and is yet to be retired."""
    return (here.next_key >> shape.slot_bits) == here.iteration


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
    """Tokens for the candidate, int32: 0 when it is not there, may not be admitted, or a request is yet to be retired."""
    is_open = batch_tokens > 0
    waiting = here.computed == 0
    known, _ = unpack(candidate.lengths)
    view = View(
        batch_tokens=select(is_open, batch_tokens, here.decodes),
        running=here.decodes,
        known=known,
        computed=here.computed,
        waiting=waiting,
        free_blocks=None if held_blocks is None else model.pool.num_blocks - held_blocks,
        watermark_blocks=model.pool.watermark_blocks,
        block_size=shape.block_size,
    )
    arrived = candidate.arrival_s <= here.now_s
    if barred is not None:
        arrived = arrived & ~barred
    return select((~waiting | arrived) & (is_open | ~due(here, shape)), model.policy.grant(view), 0)


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
def after_run(here: Here, tokens: jax.Array, k: jax.Array, seconds: jax.Array) -> Here:
    """The boundary after a run of k iterations."""
    k = whole(k)
    return here._replace(
        now_s=here.now_s + seconds,
        iteration=here.iteration + k,
        context=here.context + k * here.decodes,
        computed=here.computed + k * tokens,
    )


# the grant -----------------------------------------------------------------------------------------------------------


@phase
def granted_now(shape: Shape, here: Here, candidate: Candidate, tokens: jax.Array) -> jax.Array:
    """What the candidate gets of `tokens` after a run: no more than it lacks, nothing if a request must retire first."""
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


@over_slots
def free_slot(finish_key: jax.Array, last_key: jax.Array) -> jax.Array:
    """The first free slot, S when there is none."""
    slots = finish_key.shape[0] - 1
    return jnp.min(select(finish_key[:-1] <= last_key, lax.iota(jnp.int32, slots), jnp.int32(slots)))
