"""Gridded functions of the batch: multilinear between grid points, affine along a stretch up to the next cell.

A grid is a function of some *coordinates* of the batch:

| coordinate | of a batch |
|---|---|
| `new_tokens` | tokens computed, of prompts and decodes |
| `batch_seqs` | requests in it |
| `prefill_tokens` | prompt tokens computed |
| `prefill_context` | tokens before them |
| `decode_seqs` | decoding requests |
| `decode_context` | their context length, the token being fed included |

Requests of different lengths map onto one coordinate in the way that keeps the work of attention. Decodes read their
contexts: the mean counts. A chunk of n tokens after c earlier ones computes n (c + n/2) pairs of a token and one that
it attends to: the chunks of a batch count as the one chunk with as many tokens and as many pairs (with an empty context
if even that has more pairs, as for several short prompts).
"""

import itertools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._arrays import phase, rounded, select
from jaxsim.latency.base import Piece
from jaxsim.latency.terms import Terms

COORDINATES = ("new_tokens", "batch_seqs", "prefill_tokens", "prefill_context", "decode_seqs", "decode_context")
"""What a grid can have as axes."""


class Position(NamedTuple):
    """A coordinate along a stretch: `at` in its first iteration and `gain` more in each further one."""

    at: jax.Array
    gain: jax.Array


Positions = dict[str, Position]


def positions(terms: Terms, growth: Terms) -> Positions:
    """The coordinates of a batch, from all batch terms and what each gains per iteration."""
    chunks, decodes = jnp.maximum(terms["prefill_tokens"], 1.0), jnp.maximum(terms["decode_seqs"], 1.0)
    before = (terms["prefill_pairs"] - 0.5 * terms["prefill_squares"]) / chunks - 0.5 * terms["prefill_tokens"]
    return {
        **{name: Position(terms[name], growth[name]) for name in ("new_tokens", "prefill_tokens", "decode_seqs")},
        "batch_seqs": Position(*(part["decode_seqs"] + part["prefill_seqs"] for part in (terms, growth))),
        "prefill_context": Position(before, growth["prefill_pairs"] / chunks),
        "decode_context": Position(*(part["context_tokens"] / decodes for part in (terms, growth))),
    }


def add(a: Piece, b: Piece) -> Piece:
    """The piece of a sum: it holds as long as both do."""
    return Piece(a.first_s + b.first_s, a.growth_s + b.growth_s, jnp.minimum(a.iterations, b.iterations))


def either(condition: jax.Array, a: Piece, b: Piece) -> Piece:
    """The piece `a` where the condition holds, else `b`."""
    return Piece(*(select(condition, x, y) for x, y in zip(a, b, strict=True)))


class Grid(eqx.Module):
    """A function given on the points of a grid, 0 or greater; beyond the ends of an axis it is what it is there."""

    axes: tuple[str, ...] = eqx.field(static=True)
    """The coordinate of each axis."""
    nodes: tuple[np.ndarray, ...]
    """Points of each axis, float64: two or more, increasing."""
    values: np.ndarray
    """The function at every grid point, float64, an axis of the array for each axis of the grid."""

    def piece(self, at: Positions) -> Piece:
        """The function along a stretch. Where more than one coordinate changes it is not affine: one iteration."""
        cells = [_locate(jnp.asarray(nodes), *at[axis]) for axis, nodes in zip(self.axes, self.nodes, strict=True)]
        corners = _corners(jnp.asarray(self.values), [cell.lower for cell in cells])
        return Piece(*_blend(cells, corners))

    def grids(self) -> tuple["Grid", ...]:
        """Itself: see `jaxsim.latency.gridded.Part`."""
        return (self,)


class _Cell(NamedTuple):
    """Where a coordinate is between two nodes."""

    lower: jax.Array
    """Index of the lower node."""
    share: jax.Array
    """Of the way from the lower to the upper node, in [0, 1]."""
    slope: jax.Array
    """What the share gains per iteration."""
    iterations: jax.Array
    """For how many iterations that holds."""


@phase
def _locate(nodes: jax.Array, at: jax.Array, gain: jax.Array) -> _Cell:
    """The cell of a coordinate that is `at` and gains `gain` per iteration."""
    inside = jnp.minimum(jnp.maximum(at, nodes[0]), nodes[-1])
    lower = jnp.minimum(jnp.sum(nodes <= inside, dtype=jnp.int32), len(nodes) - 1) - 1
    low, high = _at(nodes, lower), _at(nodes, lower + 1)
    below, beyond = at < nodes[0], at >= nodes[-1]
    slope = select(below | beyond, 0.0, gain / (high - low))
    steps = 1.0 + jnp.floor((select(below, nodes[0], high) - at) / jnp.maximum(gain, 1e-300))
    return _Cell(lower, (inside - low) / (high - low), slope, select(beyond | (gain == 0), jnp.inf, steps))


@phase
def _corners(table: jax.Array, lower: list[jax.Array]) -> list[jax.Array]:
    """The values at the corners of a cell, the last axis varying fastest."""
    found = []
    for corner in itertools.product((0, 1), repeat=table.ndim):
        place = jnp.int32(0)
        for size, low, high in zip(table.shape, lower, corner, strict=True):
            place = place * size + low + high
        found.append(_at(table.reshape(-1), place))
    return found


@phase
def _blend(cells: list[_Cell], corners: list[jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Value, growth and iterations in a cell, from the values at its corners."""
    pairs = [(value, jnp.zeros_like(value)) for value in corners]
    for cell in reversed(cells):
        pairs = [
            (
                rounded((1 - cell.share) * low) + rounded(cell.share * high),
                (1 - cell.share) * low_growth + cell.share * high_growth + cell.slope * (high - low),
            )
            for (low, low_growth), (high, high_growth) in zip(pairs[::2], pairs[1::2], strict=True)
        ]
    ((value, growth),) = pairs
    until = cells[0].iterations
    for cell in cells[1:]:
        until = jnp.minimum(until, cell.iterations)
    moving = sum((cell.slope != 0).astype(jnp.int32) for cell in cells)
    return value, growth, select(moving > 1, 1.0, until)


def _at(shared: jax.Array, index: jax.Array) -> jax.Array:
    """An element, in bounds, of an array that all lanes share."""
    return shared.at[index].get(mode="promise_in_bounds")
