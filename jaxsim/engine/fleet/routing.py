"""What routers see of a fleet, and what an instance does when somebody comes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsim._arrays import over_slots, select
from jaxsim.engine import kv
from jaxsim.engine.fleet.ending import emits
from jaxsim.engine.fleet.state import LIMBO, RUNNING, Clock, Counts, Slots
from jaxsim.engine.policy.base import total_of
from jaxsim.engine.stretch import duration_s, iterations_until
from jaxsim.latency.base import Piece


class RouterView(NamedTuple):
    """What a router sees of its group, as of everything earlier. `[I]` unless said; all int32 unless said."""

    eligible: jax.Array
    """bool: it may be chosen."""
    group: jax.Array
    """Place among the groups of its role, from 0."""
    queued: jax.Array
    """Requests assigned and not in the running list: waiting, preempted, or with their KV cache on its way."""
    running: jax.Array
    """Requests of the running list."""
    prompt_left: jax.Array
    """Tokens that are yet to be prefilled, over both."""
    outputs_left: jax.Array
    """Tokens that are yet to be emitted there, over both."""
    used_blocks: jax.Array
    num_blocks: jax.Array
    uniform: jax.Array
    """The request's own random number in [0, 1), a float64 scalar."""
    last: jax.Array
    """The instance that was picked last, a scalar; -1 at first."""
    home: jax.Array
    """The instance of the request's session, a scalar; -1: none."""
    prompt: jax.Array
    """Tokens of the request to be prefilled, a scalar."""
    outputs: jax.Array
    """Tokens that the request will emit there."""
    blocks: jax.Array
    """Blocks that the request will take there at first."""


class Composed(NamedTuple):
    """Of a stretch under way, the iterations that are composed at an instant, and those whose results are applied."""

    k: jax.Array
    applied: jax.Array


def composed(counts: Counts, clock: Clock, now_s: jax.Array, two: jax.Array) -> Composed:
    """How far a stretch is (elementwise; any `now_s` from the start of its first iteration on).

    With one batch in flight, an iteration is composed when the one before ends. With two, iteration j + 1 of the
    stretch is composed when iteration j starts.
    """
    piece = Piece(clock.first_s, clock.growth_s, jnp.inf)
    wait_s = now_s - clock.start_s
    j = jnp.minimum(iterations_until(piece, jnp.minimum(wait_s, 1e300)), 2.0**30).astype(jnp.int32)
    # results of an iteration that ends at this instant are applied already
    ended = select(duration_s(piece, j.astype(jnp.float64)) <= wait_s, j, j - 1)
    j = select(two, select(wait_s <= 0, 1, j + 1), j)
    k = jnp.minimum(counts.k, j)
    return Composed(k, jnp.clip(ended, 0, jnp.maximum(k - two, 0)))


def cut_ends_s(clock: Clock, k: jax.Array, two: jax.Array) -> jax.Array:
    """When results are applied next, once a stretch was cut to `k` iterations."""
    steps = select(two, k - 1, k).astype(jnp.float64)
    return clock.start_s + duration_s(Piece(clock.first_s, clock.growth_s, jnp.inf), steps)


class Load(NamedTuple):
    """What the running requests of an instance have left at an instant, and the blocks it has in use."""

    prompt_left: jax.Array
    outputs_left: jax.Array
    used_blocks: jax.Array
    requeued_prompt: jax.Array
    """Of preempted requests that wait for the end of the batch in flight, in `prompt_left` too."""


@over_slots
def load(
    slots: Slots,
    counts: Counts,
    clock: Clock,
    now_s: jax.Array,
    two: jax.Array,
    block_size: jax.Array,
    leaves: jax.Array,
) -> Load:
    """Of one instance, also within a stretch; from which requests leave with one token if it `leaves`."""
    done = composed(counts, clock, now_s, two)
    running = slots.status == RUNNING
    computed = slots.computed + slots.granted * done.k
    emitted = select(emits(slots), done.applied, 0)
    blocks = jnp.maximum(slots.blocks, kv.ceil_div(computed, block_size))
    grown = total_of(select((slots.granted > 0) & running, blocks - slots.blocks, 0))
    # a preempted request that waits for the end of the batch in flight waits with all it knows
    prompt_left = select(running, jnp.maximum(slots.goal - computed, 0), select(slots.status == LIMBO, slots.known, 0))
    again = select(leaves, 1, slots.total - slots.known)
    outputs_left = select(running, slots.total - slots.known - emitted, select(slots.status == LIMBO, again, 0))
    return Load(
        total_of(prompt_left),
        total_of(outputs_left),
        counts.used_blocks + grown,
        total_of(select(slots.status == LIMBO, slots.known, 0)),
    )
