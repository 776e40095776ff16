"""KV blocks of decoding requests: a bound that is free, and an exact pass over the slots near the limit.

A decode whose context (the token being fed included) is x tokens holds ceil(x / block_size) blocks. Counting them takes
a pass over all slots, +11 to +14 ns a round. Their sum is at most (sum of contexts + n (block_size - 1)) / block_size,
which costs nothing; only when that bound comes near the pool's limit does a lane count exactly (+0.4 ns).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsim._arrays import reduce_slots, select


class Held(NamedTuple):
    """Blocks of the decodes in the coming iteration, and for how many iterations growth surely fits."""

    blocks: jax.Array
    """Blocks all decodes hold in the coming iteration: exact near the limit, else an upper bound."""
    iterations: jax.Array
    """Iterations that can run before some decode lacks a block; at least 1 unless the coming one lacks one."""


def ceil_div(x: jax.Array, y: int | jax.Array) -> jax.Array:
    """Blocks of `y` tokens that hold `x` tokens."""
    return jax.lax.div(x + (y - 1), jnp.broadcast_to(jnp.asarray(y, x.dtype), x.shape))


def bound(seqs: jax.Array, context: jax.Array, limit: jax.Array, block_size: int) -> Held:
    """The bound from the number of decodes and the sum of their contexts; `limit` is what they may hold."""
    slack = seqs * (block_size - 1)
    most = jax.lax.div(context + slack, jnp.int32(block_size))
    spare = limit * block_size - context - slack
    return Held(most, select(spare < 0, 0, 1 + jax.lax.div(spare, jnp.maximum(seqs, 1))))


def exact(context: jax.Array, decoding: jax.Array, limit: jax.Array, block_size: int) -> Held:
    """Count over slots: `context` int32 `[S]`, `decoding` bool `[S]`; `limit` is what the decodes may hold.

    A decode takes its next block after `slack` more tokens. The pool lasts as long as no more decodes than there are
    free blocks have used up their slack, at most for the `block_size` iterations in which nobody takes two. One pass
    counts slacks by class, all classes in the bit fields of one integer (a bisection over slacks took five passes, 280
    ns a round instead of 205). The iterations are exact where a class is one slack wide, else rounded down.
    """
    bits = 8 if context.shape[0] < 1 << 8 else 16  # of a count of slots
    classes = 64 // bits
    width = -(-block_size // classes)
    blocks = select(decoding, ceil_div(context, block_size), 0)
    total = reduce_slots(jnp.add, blocks)
    free = limit - total
    place = jax.lax.div(blocks * block_size - context, jnp.int32(width)).astype(jnp.int64)
    counts = reduce_slots(jnp.add, select(decoding, jnp.int64(1) << (bits * place), jnp.int64(0)))
    takers, fitting = jnp.zeros_like(total), jnp.zeros_like(total)
    for nth in range(classes):
        takers = takers + ((counts >> (bits * nth)) & ((1 << bits) - 1)).astype(jnp.int32)
        fitting = fitting + (takers <= free)
    return Held(total, select(free < 0, 0, 1 + jnp.minimum(fitting * width, block_size)))
