"""Latency models that are sums of gridded functions of the batch."""

import abc
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from jaxsim._arrays import rounded
from jaxsim.latency import terms as batch_terms
from jaxsim.latency.base import AbstractLatency, Piece
from jaxsim.latency.grid import Grid, Positions, add, positions
from jaxsim.latency.gridding import Extrapolate
from jaxsim.latency.terms import Terms


class Part(Protocol):
    """A function of the batch that is made of grids, or one."""

    def piece(self, at: Positions) -> Piece:
        """The function along a stretch."""
        ...

    def grids(self) -> tuple[Grid, ...]:
        """The grids it is made of."""
        ...


Weight = float | jax.Array


class Reach(NamedTuple):
    """The largest numbers that the batches of an instance can have, by coordinate (see `jaxsim.latency.grid`)."""

    new_tokens: float
    batch_seqs: float
    prefill_tokens: float
    prefill_context: float
    decode_seqs: float
    decode_context: float


class Gridded(AbstractLatency):
    """An iteration takes the weighted sum of its parts, plus `host_s`.

    The arrays of the parts are constants of the compiled program; weights and `host_s` are numbers that may differ
    from lane to lane.
    """

    terms: ClassVar[tuple[str, ...]] = batch_terms.NAMES
    extrapolate: Extrapolate
    host_s: float

    @abc.abstractmethod
    def parts(self, linear: bool) -> tuple[tuple[Weight, Part], ...]:
        """Functions of the batch with the seconds of one unit of each; with their last cells extended or not."""

    def price(self, terms: Terms, growth: Terms) -> Piece:
        """See `AbstractLatency.price`; a piece ends where a coordinate of the batch enters the next cell of a grid.

        Prompt chunks beside decodes move both contexts at once, which is not affine on a grid of both: there pieces
        are one iteration long.
        """
        at = positions(terms, growth)
        total = Piece(jnp.asarray(self.host_s, jnp.float64), jnp.float64(0.0), jnp.float64(jnp.inf))
        for unit_s, part in self.parts(self.extrapolate == "linear"):
            first, grows, iterations = part.piece(at)
            total = add(total, Piece(rounded(unit_s * first), unit_s * grows, iterations))
        return total

    def check_reach(self, reach: Reach) -> tuple[str, ...]:
        """What a run may ask beyond the ends of the grids, in sentences.

        Contexts of several requests are averaged, so no batch can reach further than its limits.

        Raises:
            ValueError: it may, and `extrapolate` is `error`.
        """
        ends: dict[str, float] = {}
        for grid in (grid for _, part in self.parts(linear=False) for grid in part.grids()):
            for axis, nodes in zip(grid.axes, grid.nodes, strict=True):
                ends[axis] = min(float(nodes[-1]), ends.get(axis, float("inf")))
        beyond = [
            f"{axis} may reach {getattr(reach, axis):g}, but the table ends at {end:g}"
            for axis, end in ends.items()
            if getattr(reach, axis) > end
        ]
        if beyond and self.extrapolate == "error":
            raise ValueError(
                f"{beyond[0]}; lower the limits of the scheduler or the workload, extend the table, or say what it is "
                "beyond its end: clamp or linear"
            )
        how = {"clamp": "held", "linear": "extended linearly"}
        return tuple(f"{self._source()}: {sentence}: it is {how[self.extrapolate]} there" for sentence in beyond)

    @abc.abstractmethod
    def _source(self) -> str:
        """What messages call the table."""


def pinned(paths: Sequence[str], expected: str | None) -> str:
    """The SHA-256 of the contents of some files, one after another.

    Raises:
        ValueError: one cannot be read, or it is not what is expected.
    """
    digest = hashlib.sha256()
    for path in paths:
        try:
            digest.update(Path(path).read_bytes())
        except OSError as error:
            raise ValueError(f"path: {path}: {(error.strerror or str(error)).lower()}") from None
    found = digest.hexdigest()
    if expected not in (None, found):
        raise ValueError(f"sha256 must be that of {', '.join(paths)}, {found}, or null; the file has changed")
    return found
