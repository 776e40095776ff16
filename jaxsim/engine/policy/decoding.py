"""Granting a token to every decode, or preempting the last of them: shared by policies."""

import jax
import jax.numpy as jnp

from jaxsim._arrays import select
from jaxsim.engine.policy.base import View, any_of, at, last_of, slot_of, total_of


def all_decodes(
    view: View, decodes: jax.Array, order: jax.Array, *, spares_block: bool, victims: jax.Array | None = None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One token for each of `decodes`, or, in a shortage, the request to preempt first.

    The rule goes through the decodes in order, and each that lacks a block preempts the last of those behind it, or
    itself when it is the last. A victim has not been granted anything then, so preempting the last before anybody is
    granted leads to the same batch: those in front see as many free blocks when it is their turn.

    Args:
        view: the instance.
        decodes: bool `[S]`, who is granted.
        order: int32 `[S]`, their order.
        spares_block: a decode needs a free block even when it takes none. It is enough to look at the last one: those
            in front of it find more.
        victims: bool `[S]`, who may be preempted; the decodes by default.

    Returns:
        Tokens and blocks per slot, and the slot to preempt (S: none, and all are granted).
    """
    blocks = jnp.maximum(view.blocks, view.blocks_of(view.computed + 1))
    grows = select(decodes, blocks - view.blocks, 0)
    total = total_of(grows)
    last = last_of(decodes, order)
    if spares_block:
        short = view.free_blocks - total + at(last, grows) < 1
    else:
        short = total > view.free_blocks
    short = short & any_of(decodes)
    tail = last if victims is None else last_of(victims, order)
    victim = slot_of(tail & short)
    return select(decodes & ~short, 1, 0).astype(jnp.int32), blocks, victim
