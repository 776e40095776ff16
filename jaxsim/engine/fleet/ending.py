"""A batch ends: its tokens are emitted, requests that are finished leave, preempted ones are queued again."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsim._arrays import over_slots, select
from jaxsim.engine import kv
from jaxsim.engine.fleet.state import FREE, LIMBO, PADDING, RUNNING, Clock, Instance, Slots
from jaxsim.engine.policy.base import any_of, at, first_of, last_of, total_of
from jaxsim.engine.record import itl_bin
from jaxsim.engine.stretch import duration_s, token_seconds
from jaxsim.latency.base import Piece


def piece_of(clock: Clock) -> Piece:
    """Iterations of the batch composed last."""
    return Piece(clock.first_s, clock.growth_s, jnp.inf)


def emits(s: Slots) -> jax.Array:
    """bool `[S]`: who emits a token in every iteration of the batch composed last."""
    return (s.granted > 0) & (s.computed + s.granted == s.known + s.owed)


class Emission(NamedTuple):
    """What emitting gives the records."""

    tokens: jax.Array
    old_bin: jax.Array
    old_gaps: jax.Array
    new_bin: jax.Array
    new_gaps: jax.Array
    """Gaps between tokens, and the bins they go into, of the older batch in flight and of the newer."""
    token_seconds: jax.Array
    iterations: jax.Array
    end_s: jax.Array
    """When the newest batch ends, whose results are applied now or soon."""
    batch_tokens: jax.Array
    """Tokens of each of its iterations."""


def emit(instance: Instance, ends: jax.Array, two: jax.Array, block_size: jax.Array) -> tuple[Instance, Emission]:
    """Apply the results that are due, if the instance's batch `ends` now.

    With one batch in flight (`two` false) those of all its k iterations. With two, those of the older one and of k - 1
    of the newer: its last iteration is the older batch from now on. Blocks are taken for all that was composed.
    """
    s, t, counts, clock = instance.slots, instance.times, instance.counts, instance.clock
    now, k = instance.ends_s, counts.k
    applied = select(two, jnp.maximum(k - 1, 0), k)
    emitting = emits(s)
    old, new = s.owed, select(emitting, applied, 0)
    gained = old + new
    piece = piece_of(clock)
    before_s = select(two, clock.old_end_s, clock.start_s)
    first = jnp.isnan(t.first_token_s) & (gained > 0)
    old_s = clock.old_end_s - clock.old_start_s
    live = s.status != PADDING

    # gaps of requests that emitted with the batch before are credited together, others one by one
    due_old = live & (old > 0) & (t.last_token_s == clock.old_start_s)
    due_new = live & (new > 0) & (select(two & (old > 0), before_s, t.last_token_s) == before_s)
    since = select(old > 0, clock.old_end_s, now) - t.last_token_s
    late = live & (gained > 0) & ~jnp.isnan(t.last_token_s) & select(old > 0, ~due_old, ~due_new)
    mean_s = duration_s(piece, applied.astype(jnp.float64)) / jnp.maximum(applied, 1)

    computed = s.computed + s.granted * k
    grows = (s.granted > 0) & live
    blocks = select(grows, jnp.maximum(s.blocks, kv.ceil_div(computed, block_size)), s.blocks)
    then = s._replace(
        known=s.known + gained,
        computed=computed,
        blocks=blocks,
        owed=select(emitting & two & (k > 0), 1, 0),
        granted=jnp.zeros_like(s.granted),
    )
    times = t._replace(
        first_token_s=select(first, select(old > 0, clock.old_end_s, now), t.first_token_s),
        last_token_s=select(new > 0, now, select(old > 0, clock.old_end_s, t.last_token_s)),
        gap_s=select(late, since, t.gap_s),
    )
    turned = two & (k > 0)
    total = k.astype(jnp.float64)
    after = instance._replace(
        slots=then,
        times=times,
        counts=counts._replace(
            used_blocks=counts.used_blocks + total_of(blocks - s.blocks),
            old=turned.astype(jnp.int32),
            k=jnp.int32(0),
        ),
        clock=clock._replace(
            old_start_s=select(
                turned, clock.start_s + duration_s(piece, jnp.maximum(total - 1, 0.0)), clock.old_start_s
            ),
            old_end_s=select(turned, clock.start_s + duration_s(piece, total), clock.old_end_s),
        ),
        ends_s=jnp.float64(jnp.inf),
        ready_s=now,
    )
    batch_tokens = total_of(s.granted)
    grown = total_of(select(live, s.granted, 0)).astype(jnp.float64)
    spent = token_seconds(piece, total, counts.resident.astype(jnp.float64), grown)
    emission = Emission(
        tokens=select(ends, total_of(select(live, gained, 0)), 0),
        old_bin=itl_bin(old_s),
        old_gaps=select(ends, total_of(due_old), 0),
        new_bin=itl_bin(mean_s),
        new_gaps=select(ends, applied * total_of(due_new), 0),
        token_seconds=select(ends & (k > 0), spent, 0.0),
        iterations=select(ends, k, 0),
        end_s=clock.start_s + duration_s(piece, total),
        batch_tokens=batch_tokens,
    )
    return jax.tree.map(lambda a, b: select(ends, a, b), after, instance), emission


class Departure(NamedTuple):
    """One step of what follows an emission. Nobody: request N."""

    finished: jax.Array
    """The request that emitted its last token."""
    handed: jax.Array
    """The request that emitted its first and only token here, and goes on elsewhere."""
    requeued: jax.Array
    """A preempted request that goes back to the queue."""
    left: jax.Array
    """Whoever leaves its slot: one of them."""
    known: jax.Array
    goal: jax.Array
    """Tokens that were known when it was admitted."""
    blocks: jax.Array
    """What it holds."""
    first_token_s: jax.Array
    last_token_s: jax.Array
    decode_s: jax.Array
    freed: jax.Array
    """bool: blocks of the pool were freed."""
    gap_s: jax.Array
    """A gap between tokens, and how many requests had it."""
    gaps: jax.Array
    done: jax.Array
    """bool: nothing is left to do."""


@over_slots
def depart(
    instance: Instance,
    ending: jax.Array,
    keeps_finished: jax.Array,
    most_tokens: jax.Array,
    none: jax.Array,
) -> tuple[Instance, Departure]:
    """One request leaves or is queued again, one group of equal long gaps is recorded; if the lane is `ending`.

    Args:
        instance: whose batch has ended.
        ending: bool.
        keeps_finished: bool, finished requests stay as padding.
        most_tokens: at which a request stops.
        none: N.
    """
    s, t = instance.slots, instance.times
    there = ((s.status == RUNNING) | (s.status == LIMBO)) & ending
    complete = there & (s.known >= s.total)
    finishes = first_of(complete, s.rank)
    limbo = there & (s.status == LIMBO) & ~any_of(complete)
    requeues = last_of(limbo, s.rank)
    one = finishes | requeues
    was_running = at(finishes, (s.status == RUNNING).astype(jnp.int32))
    request = select(any_of(one), at(one, s.request), none)
    goes_on = any_of(finishes) & (at(one, s.known) < jnp.minimum(at(one, s.all_tokens), most_tokens))
    stays = keeps_finished & finishes & ~goes_on
    status = select(one, select(stays, PADDING, FREE), s.status)
    freed = select(goes_on, 0, at(finishes & ~stays, s.blocks))
    blocks = select(one & ~stays, 0, s.blocks)
    # the batch is over when only padding is left
    over = keeps_finished & any_of(status == PADDING) & ~any_of(status == RUNNING)
    freed = freed + select(over, total_of(select(status == PADDING, blocks, 0)), 0)
    blocks = select(over & (status == PADDING), 0, blocks)
    status = select(over & (status == PADDING), FREE, status)

    longest = jnp.max(select(ending, t.gap_s, 0.0), axis=0)
    group = (t.gap_s == longest) & (longest > 0)
    after = instance._replace(
        slots=s._replace(status=status, blocks=blocks),
        times=t._replace(gap_s=select(group, 0.0, t.gap_s)),
        counts=instance.counts._replace(used_blocks=instance.counts.used_blocks - freed),
        running=instance.running - was_running,
        queued=instance.queued - any_of(finishes & (s.status == LIMBO)),
    )
    still = ((status == RUNNING) & (s.known >= s.total)) | (status == LIMBO)
    return after, Departure(
        finished=select(any_of(finishes) & ~goes_on, request, none),
        handed=select(goes_on, request, none),
        requeued=select(any_of(requeues), request, none),
        left=request,
        known=at(one, s.known),
        goal=at(one, s.goal),
        blocks=at(one, s.blocks),
        first_token_s=at(one, t.first_token_s),
        last_token_s=at(one, t.last_token_s),
        decode_s=at(one, t.decode_s),
        freed=freed > 0,
        gap_s=longest,
        gaps=total_of(group),
        done=ending & ~any_of(still) & ~any_of(after.times.gap_s > 0),
    )
