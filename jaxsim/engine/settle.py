"""Settling what was composed: closing a batch, stretches of decode-only iterations, retiring finished requests."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsim._arrays import Pending, least_of_slots, over_slots, phase, select
from jaxsim._status import LaneStatus
from jaxsim.engine import kv
from jaxsim.engine.compose import Here, composed, due, ends_s, f64, left, near_limit, starts_s, whole
from jaxsim.engine.record import itl_bin
from jaxsim.engine.shape import Shape
from jaxsim.engine.state import NEVER, Batch, Candidate, Leaving, Model, unpack
from jaxsim.engine.stretch import duration_s, iterations_until, iterations_within_spread, token_seconds
from jaxsim.latency import terms as batch_terms
from jaxsim.latency.base import Piece

# close ---------------------------------------------------------------------------------------------------------------


class Joining(NamedTuple):
    """What the open batch's close depends on."""

    joins: jax.Array
    """bool: a prompt was completed in this round."""
    first: jax.Array
    """bool: and it emits its first token with the batch."""
    request: jax.Array
    before: jax.Array
    """The last request before it that emits its first token with the batch; N when none."""

    def chained(self, shape: Shape) -> jax.Array:
        """Whether an earlier first token of the batch is to be linked to this one."""
        return self.first & (self.before < shape.num_requests)

    def latest(self) -> jax.Array:
        """The last request that emits its first token with the batch; N when none."""
        return select(self.first, self.request, self.before)


@phase
def closes_now(
    model: Model, shape: Shape, here: Here, batch: Batch, candidate: Candidate, joining: Joining
) -> jax.Array:
    """Whether the open batch is complete: nothing was granted, or nobody else can join.

    A batch stays open for the next candidate only if one may join, and for a round in which it has the first token of
    an earlier prompt to link.
    """
    arrived = candidate.arrival_s <= here.now_s
    another = joining.joins & arrived & model.policy.may_join(batch.tokens, here.decodes)
    return (batch.tokens > 0) & ~another & ~joining.chained(shape)


@phase
def close_seconds(model: Model, batch: Batch, closes: jax.Array) -> jax.Array:
    """Seconds of the batch, 0 if it stays open."""
    terms = {name: batch.terms.get(name, f64(batch.tokens)) for name in model.latency.terms}
    nothing = {name: jnp.zeros_like(term) for name, term in terms.items()}
    return select(closes, model.latency.price(terms, nothing).first_s, 0.0)


@phase
def after_close(here: Here, closes: jax.Array, seconds: jax.Array) -> Here:
    """The boundary after the batch: every decode's context has grown, also of those that just joined."""
    once = Piece(seconds, jnp.zeros_like(seconds), jnp.inf)
    return composed(here, once, f64(closes))._replace(
        iteration=here.iteration + closes,
        context=here.context + select(closes, here.decodes, 0),
    )


class FirstToken(NamedTuple):
    """A write to the column of first tokens: at a request, the time or the link to a later one of its batch."""

    request: jax.Array
    value: jax.Array


@phase
def first_token(shape: Shape, here: Here, joining: Joining, closes: jax.Array) -> FirstToken:
    """At the end of the batch its last prompt gets the time; each earlier one was linked to the one after it."""
    none, chained, latest = jnp.int32(shape.num_requests), joining.chained(shape), joining.latest()
    return FirstToken(
        select(chained, joining.before, select(closes, latest, none)), select(chained, f64(-1 - latest), ends_s(here))
    )


@phase
def emptied(shape: Shape, tokens: jax.Array, joining: Joining, closes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Tokens and last first-token request of the batch after the round."""
    return select(closes, 0, tokens), select(closes, jnp.int32(shape.num_requests), joining.latest())


# stretch -------------------------------------------------------------------------------------------------------------


@phase
def price_stretch(model: Model, here: Here) -> Piece:
    """The affine piece of decode-only iterations from here."""
    names = model.latency.terms
    return model.latency.price(
        batch_terms.of_decodes(names, here.decodes, here.context), batch_terms.growth_of_decodes(names, here.decodes)
    )


class Settled(NamedTuple):
    """What the round has done before its stretch."""

    closes: jax.Array
    granted: jax.Array

    def composed(self) -> jax.Array:
        """Whether it granted tokens or closed a batch."""
        return self.closes | (self.granted > 0)


class Standing(NamedTuple):
    """What a lane that counts blocks knows of them when it may start a stretch."""

    held: kv.Held
    """Of the decodes, where the round has composed nothing."""
    limit: jax.Array
    """Blocks they may hold."""
    barred: jax.Array
    busy: jax.Array
    """A preemption or a record came first in this round."""


@phase
def stretch_length(
    model: Model,
    shape: Shape,
    here: Here,
    batch_tokens: jax.Array,
    candidate: Candidate,
    piece: Piece,
    settled: Settled,
    standing: Standing | None,
) -> jax.Array:
    """How many decode-only iterations, float64, run before anything can change; 0 if that is not known yet.

    Where the round has composed something, the candidate was not asked at this boundary.
    """
    composed_here = settled.composed()
    seats = model.policy.may_join(here.decodes, here.decodes)
    arrived = candidate.arrival_s <= here.now_s
    go = (batch_tokens == 0) & (here.decodes > 0) & ~due(here, shape)
    go = go & (~composed_here | ((here.computed == 0) & (~arrived | ~seats)))
    k = left(here, shape)
    if standing is not None:
        bound = kv.bound(here.decodes, here.context, standing.limit, shape.block_size).iterations
        k = jnp.minimum(k, select(composed_here, bound, standing.held.iterations))
        k = select(standing.barred, jnp.minimum(k, 1), k)
        go = go & ~standing.busy
    if not shape.leap:
        return f64(go & (k >= 1))
    most = jnp.minimum(f64(k), piece.iterations)
    waits = arrived | (here.computed > 0) | ~seats | (candidate.arrival_s == jnp.inf)
    wait_s = select(waits, jnp.inf, candidate.arrival_s - starts_s(here))
    notice = iterations_until(piece, wait_s)
    if here.leaving is not None:
        # noticed when the batch after the one it arrives in is composed, which is a batch ahead of the device
        notice = select(wait_s <= 0, 1.0, 1 + notice)
        most = select((here.leaving.requests > 0) & arrived, jnp.minimum(most, 1.0), most)
    most = jnp.minimum(most, notice)
    if shape.itl:
        most = jnp.minimum(most, iterations_within_spread(piece))
    return select(go & (k >= 1), jnp.floor(most), 0.0)


@phase
def after_stretch(
    here: Here,
    batch_tokens: jax.Array,
    candidate: Candidate,
    k: jax.Array,
    piece: Piece,
    settled: Settled,
    busy: jax.Array | None,
) -> Here:
    """The boundary after k decode-only iterations; on an instance with nothing to compose, the end of the batch in
    flight, else the next arrival."""
    idle = (here.decodes == 0) & (here.computed == 0) & (batch_tokens == 0) & ~settled.composed()
    if busy is not None:
        idle = idle & ~busy
    steps = whole(k)
    after = composed(here, piece, k)
    arrives = select(candidate.arrival_s < jnp.inf, jnp.maximum(here.now_s, candidate.arrival_s), here.now_s)
    leaving = after.leaving
    if here.free_s is not None:
        arrives = select(here.free_s > here.now_s, here.free_s, arrives)
        leaving = leaving and jax.tree.map(lambda count: select(idle, 0, count), leaving)
    return after._replace(
        now_s=select(idle, arrives, after.now_s),
        leaving=leaving,
        iteration=here.iteration + steps,
        context=here.context + steps * here.decodes,
    )


@phase
def spent_s(piece: Piece, k: jax.Array) -> jax.Array:
    """Seconds of k iterations of a piece."""
    return duration_s(piece, k)


# retire --------------------------------------------------------------------------------------------------------------


@phase
def finisher(shape: Shape, here: Here, batch_tokens: jax.Array, held_up: jax.Array | None) -> jax.Array:
    """Slot of the request to retire, S when there is none."""
    done = due(here, shape) & (here.decodes > 0) & (batch_tokens == 0)
    if held_up is not None:
        done = done & ~held_up
    return select(done, here.next_key & ((1 << shape.slot_bits) - 1), jnp.int32(shape.slots))


class Retired(NamedTuple):
    """What retiring a request changes."""

    request: jax.Array
    """N when there is none."""
    decodes: jax.Array
    context: jax.Array
    last_key: jax.Array
    leaving: Leaving | None


@phase
def retire(shape: Shape, here: Here, last_key: jax.Array, slot: jax.Array, occupant: jax.Array) -> Retired:
    """Take the request in `slot` out of the running set; its last token comes with the batch composed last."""
    done = slot < shape.slots
    request, offset = unpack(occupant)
    leaving = here.leaving
    if leaving is not None:
        held = kv.ceil_div(offset + here.iteration - 1, shape.block_size)
        leaving = Leaving(
            leaving.requests + done, None if leaving.blocks is None else leaving.blocks + select(done, held, 0)
        )
    return Retired(
        select(done, request, jnp.int32(shape.num_requests)),
        here.decodes - done,
        here.context - select(done, offset + here.iteration, 0),
        select(done, here.next_key, last_key),
        leaving,
    )


@over_slots
def soonest(finish_key: Pending, last_key: jax.Array) -> jax.Array:
    """The smallest finish key of a decode."""
    key = finish_key.all()
    return least_of_slots(select(key > last_key, key, NEVER))


# record --------------------------------------------------------------------------------------------------------------


class Credit(NamedTuple):
    """Gaps between tokens that go into one bin."""

    bin: jax.Array
    gaps: jax.Array


@phase
def credit(seconds: jax.Array, k: jax.Array, decodes: jax.Array) -> Credit:
    """One gap per decode for each of k iterations that took `seconds` together."""
    return Credit(itl_bin(seconds / jnp.maximum(k, 1.0)), whole(k) * decodes)


@phase
def credit_close(seconds: jax.Array, closes: jax.Array, decodes: jax.Array) -> Credit:
    """One gap per decode of a batch that closes."""
    return Credit(itl_bin(seconds), select(closes, decodes, 0))


@phase
def or_gap(credit: Credit, gap_s: jax.Array) -> Credit:
    """The credit, or one gap of a resumed request in a round that does nothing but record it."""
    there = gap_s > 0
    return Credit(select(there, itl_bin(gap_s), credit.bin), credit.gaps + there)


@phase
def resident(piece: Piece, k: jax.Array, here: Here, tokens: jax.Array | int) -> jax.Array:
    """KV token-seconds of k iterations from here, each with a chunk of `tokens` beside the decodes."""
    return token_seconds(piece, k, f64(here.context + here.computed + tokens), f64(here.decodes + tokens))


@phase
def crowded(
    model: Model, shape: Shape, here: Here, candidate: Candidate, exceeded: jax.Array, seatless: jax.Array
) -> jax.Array:
    """The lane's `exceeded` after the round."""
    found = select(seatless, int(LaneStatus.SLOTS_EXCEEDED), jnp.int32(0))
    if shape.kv == "watched":
        near = near_limit(model, shape, here, candidate)
        found = select((found == 0) & near, int(LaneStatus.BLOCKS_EXCEEDED), found)
    return select(exceeded > 0, exceeded, found)
