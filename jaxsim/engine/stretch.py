"""Closed forms of a stretch: k iterations whose batch changes only by every context growing by one token.

Iteration j of a stretch takes `first_s + j * growth_s` (an affine `Piece`), so k of them take
`k * first_s + growth_s * k (k - 1) / 2`, and the k that reaches an instant is a quadratic root.
"""

import jax
import jax.numpy as jnp

from jaxsim._arrays import rounded, select
from jaxsim.engine.record import STRETCH_SPREAD
from jaxsim.latency.base import Piece


def duration_s(piece: Piece, k: jax.Array) -> jax.Array:
    """Seconds of the first `k` iterations (float64 k). Exactly `first_s` for k = 1."""
    return rounded(k * piece.first_s) + rounded((0.5 * piece.growth_s) * (k * (k - 1)))


def token_seconds(piece: Piece, k: jax.Array, resident: jax.Array, gain: jax.Array) -> jax.Array:
    """Integral over `k` iterations of a token count that is `resident` in the first and gains `gain` in each.

    The sum over j < k of (resident + gain j)(first_s + growth_s j).
    """
    earlier = 0.5 * k * (k - 1)
    growing = piece.first_s + piece.growth_s * ((2 * k - 1) * (1 / 3))
    return resident * duration_s(piece, k) + gain * (earlier * growing)


def iterations_until(piece: Piece, wait_s: jax.Array) -> jax.Array:
    """Smallest k >= 1 with `duration_s(k) >= wait_s`, as float64; infinite if `wait_s` is.

    The root is corrected by one step either way, so that it agrees with `duration_s` to the last bit.
    """
    half = 0.5 * piece.growth_s
    linear = piece.first_s - half
    finite = wait_s < jnp.inf
    wait = select(finite, wait_s, 0.0)
    # a piece may fall (a table's cell), and then end before it gets there: the caller cuts to the piece
    root = jnp.sqrt(jnp.maximum(linear * linear + 4 * half * wait, 0.0))
    k = jnp.ceil(2 * wait / (linear + root))
    k = select(duration_s(piece, k - 1) >= wait, k - 1, select(duration_s(piece, k) < wait, k + 1, k))
    return select(finite, jnp.maximum(k, 1.0), jnp.inf)


def iterations_within_spread(piece: Piece) -> jax.Array:
    """Largest k whose iteration times differ by at most `STRETCH_SPREAD` of the first: one credit of gaps."""
    allowed = STRETCH_SPREAD * piece.first_s
    return 1 + jnp.floor(allowed / jnp.maximum(jnp.abs(piece.growth_s), 1e-300))
