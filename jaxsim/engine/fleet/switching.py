"""Instances that take the other role's requests too while there are many.

Looked at when a router is about to pick. Nobody is moved: an instance that is lent is in both groups, and what it is
sent meanwhile stays with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from jaxsim._arrays import first_least, put, select
from jaxsim.engine.fleet.state import DECODE, PREFILL, State

if TYPE_CHECKING:
    from jaxsim.engine.fleet.lane import Lane


def takes_prefills(lane: Lane, state: State) -> jax.Array:
    """bool `[I]`: instances that arrivals may be sent to."""
    front = lane.fleet.role != DECODE
    return front if state.lending is None else front | state.lending.lent


def takes_decodes(lane: Lane, state: State) -> jax.Array:
    """bool `[I]`: instances that requests may go on at after their prefill elsewhere."""
    back = lane.fleet.role == DECODE
    return back if state.lending is None else back | ((lane.fleet.role == PREFILL) & state.lending.lent)


def decide(lane: Lane, state: State, request: jax.Array, index: jax.Array) -> State:
    """Whether a request goes on elsewhere after its prefill: decided when it is sent to its instance."""
    if state.lending is None:
        return state
    leaves = (lane.fleet.role[index] == PREFILL) & ~state.lending.lent[index]
    return replace(
        state,
        lending=replace(state.lending, leaves=put(state.lending.leaves, request, leaves.astype(jnp.int32))),
    )


def before_prefill(lane: Lane, state: State, there: jax.Array) -> State:
    """A request is about to be sent to a prefill instance: decode instances may help, or go back."""
    if state.lending is None:
        return state
    takers = ((lane.fleet.role == PREFILL) | (state.lending.lent & (lane.fleet.role == DECODE))) & lane.available(state)
    limbo = jax.vmap(lambda index: lane.load(state, index))(lane.instances).requeued_prompt
    return _switch(lane, state, there, lane.fleet.role == DECODE, takers, state.queued_prompt + limbo)


def before_decode(lane: Lane, state: State, there: jax.Array) -> State:
    """A request is about to be sent on to a decode instance: prefill instances may help, or go back."""
    if state.lending is None:
        return state
    takers = takes_decodes(lane, state) & lane.available(state)
    return _switch(lane, state, there, lane.fleet.role == PREFILL, takers, state.lending.incoming_tokens)


def _switch(
    lane: Lane, state: State, there: jax.Array, lenders: jax.Array, takers: jax.Array, tokens: jax.Array
) -> State:
    marks, lending = lane.fleet.switching, state.lending
    assert marks is not None and lending is not None
    count = jnp.sum(takers, dtype=jnp.int32)
    mean = jnp.sum(select(takers, tokens, 0), dtype=jnp.int64) / jnp.maximum(count, 1)
    there = there & (count > 0)
    free = lenders & ~lending.lent & lane.available(state)
    fewest = first_least(select(free, state.running, 2**31 - 1))
    lend = there & (mean > marks.high) & jnp.any(free)
    call_back = there & (mean < marks.low) & ~(mean > marks.high)
    lent = (lending.lent | ((lane.instances == fewest) & lend)) & ~(lenders & call_back)
    return replace(state, lending=replace(lending, lent=lent))
