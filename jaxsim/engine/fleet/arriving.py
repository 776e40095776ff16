"""A request arrives: it is routed and queued, and a stretch it finds under way is cut short."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsim._arrays import select
from jaxsim.engine.fleet.state import Clock, Counts
from jaxsim.engine.stretch import duration_s, iterations_until
from jaxsim.latency.base import Piece


class RouterView(NamedTuple):
    """What a router sees of the instances it may choose from, as of everything earlier. `[I]` unless said."""

    eligible: jax.Array
    """bool: it may be chosen."""
    queued: jax.Array
    """Requests assigned and not admitted, int32."""
    running: jax.Array
    """Requests admitted and not finished there, int32."""
    uniform: jax.Array | None
    """The request's own random number in [0, 1), a scalar."""


class Cut(NamedTuple):
    """Where a stretch ends once somebody has arrived."""

    k: jax.Array
    ends_s: jax.Array


def cut_stretch(counts: Counts, clock: Clock, ends_s: jax.Array, now_s: jax.Array, two: jax.Array) -> Cut:
    """The stretch under way without the iterations that are not composed yet at `now_s`.

    With one batch in flight, an iteration is composed when the one before ends. With two, iteration j + 1 of the
    stretch is composed when iteration j starts.
    """
    piece = Piece(clock.first_s, clock.growth_s, jnp.inf)
    wait_s = now_s - clock.start_s
    j = jnp.minimum(iterations_until(piece, wait_s), 2.0**30).astype(jnp.int32)
    j = select(two, select(wait_s <= 0, 1, j + 1), j)
    k = jnp.minimum(counts.k, j)
    steps = select(two, k - 1, k).astype(jnp.float64)
    return Cut(k, select(counts.k > 1, clock.start_s + duration_s(piece, steps), ends_s))
