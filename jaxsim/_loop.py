"""The only loops: rounds of a lane, lanes of a tile, chunks of rounds on the host."""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from jaxsim.engine import round as engine_round
from jaxsim.engine.shape import Shape
from jaxsim.engine.state import Columns, Model, State, axes, finished, initial, rebased

ROUNDS_PER_SCAN = 16
"""Rounds between two looks at whether every lane has finished."""


@functools.partial(jax.jit, static_argnames="shape")
def start(model: Model, columns: Columns, shape: Shape) -> State:
    state = jax.vmap(lambda c: initial(c, model, shape))(columns)
    return state_last(state)


def state_last(state):
    import equinox as eqx
    return eqx.tree_at(lambda s: s.slots, state, jax.tree.map(lambda a: a.T, state.slots))


def make_chunk(shape: Shape, rounds: int = 4096):
    def chunk(state: State, model: Model, columns: Columns) -> tuple[State, jax.Array]:
        lane_axes = axes(state)
        one = lambda s, c: engine_round.build(model, c, shape)(s)
        many = jax.vmap(one, in_axes=(lane_axes, 0), out_axes=lane_axes)
        done = jax.vmap(lambda s: finished(s, shape), in_axes=(lane_axes,))
        state = jax.vmap(lambda s: rebased(s, shape), in_axes=(lane_axes,), out_axes=lane_axes)(state)

        def more(carry):
            count, state = carry
            return (count < rounds) & jnp.any(~done(state))

        def body(carry):
            count, state = carry
            state, _ = lax.scan(lambda s, _: (many(s, columns), None), state, None, length=ROUNDS_PER_SCAN)
            return count + ROUNDS_PER_SCAN, state

        count, state = lax.while_loop(more, body, (jnp.int32(0), state))
        return state, count

    return chunk
