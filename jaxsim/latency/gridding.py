"""From measured points to grids: on the host, before a run."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from jaxsim.latency.grid import Grid

Extrapolate = Literal["error", "clamp", "linear"]
"""What happens beyond the largest number of an axis."""

FAR = 2.0**30
"""How far beyond the last node of an axis a linear extrapolation is carried."""

MOST_POINTS = 1 << 22
"""Most points of a grid."""

_COUNTS = ("prefill_tokens", "decode_seqs")

Points = Mapping[str, np.ndarray]
"""Points by coordinate, float64 `[M]` each."""


def grid_of(points: Points, values: np.ndarray, *, linear: bool = False) -> Grid:
    """The grid through scattered points of a product of axes.

    Holes (two sweeps of different steps, say, or combinations that did not fit in memory) are interpolated along one
    axis after another; those beyond the measured points are what the nearest along an axis is.

    Args:
        points: no point twice.
        values: float64 `[M]`, 0 or greater.
        linear: extend the last cell of every axis linearly, but never fall.

    Raises:
        ValueError: the grid would have more than `MOST_POINTS`.
    """
    nodes = [np.unique(column) for column in points.values()]
    return _grid(tuple(points), nodes, _completed(points, values, nodes), linear)


def joint_grid_of(
    prompts: Grid,
    decodes: Grid,
    beside: Callable[[Points], np.ndarray],
    points: Points,
    values: np.ndarray,
    *,
    linear: bool = False,
) -> Grid:
    """The grid of all iterations, from those with prompt tokens only, those with decodes only, and mixed ones.

    Mixed iterations follow a rule, plus what the rule misses at the points that were measured: held beyond them, it is
    a small error, where to hold the measured values would be a large one.

    Args:
        prompts: iterations without decodes.
        decodes: iterations without prompt tokens.
        beside: the rule: the values of mixed iterations at points, roughly.
        points: mixed iterations that were measured, if any.
        values: what was measured there, float64 `[M]`.
        linear: as in `grid_of`.
    """
    measured = [np.unique(column) if len(values) else np.ones(1) for column in points.values()]
    missed = _completed(points, values - beside(points), measured) if len(values) else np.zeros([1] * len(measured))
    alone = {axis: line for grid in (prompts, decodes) for axis, line in zip(grid.axes, grid.nodes, strict=True)}
    nodes = [np.union1d(line, alone[axis]) for axis, line in zip(points, measured, strict=True)]
    # an iteration has no prompt tokens, or at least one: below the smallest measured number it is what it is there
    nodes = [np.union1d(line, [0, 1]) if axis in _COUNTS else line for axis, line in zip(points, nodes, strict=True)]
    _check_size(points, nodes)
    meshes = np.meshgrid(*nodes, indexing="ij")
    everywhere = dict(zip(points, (mesh.reshape(-1) for mesh in meshes), strict=True))
    tokens, seqs = (everywhere[axis] for axis in _COUNTS)
    mixed = np.maximum(beside(everywhere) + _interpolated(measured, missed, everywhere), 0)
    table = np.where(
        tokens == 0, evaluate(decodes, everywhere), np.where(seqs == 0, evaluate(prompts, everywhere), mixed)
    )
    return _grid(tuple(points), nodes, table.reshape(meshes[0].shape), linear)


def evaluate(grid: Grid, points: Points) -> np.ndarray:
    """The values of a grid at points, float64 `[M]`; what `Grid.piece` computes, on the host."""
    return _interpolated(grid.nodes, grid.values, {axis: points[axis] for axis in grid.axes})


def _grid(axes: tuple[str, ...], nodes: Sequence[np.ndarray], table: np.ndarray, linear: bool) -> Grid:
    ends = []
    for axis, line in enumerate(nodes):
        if len(line) == 1:
            table, line = np.repeat(table, 2, axis), np.append(line, line + 1)
        if linear:
            last, before = table.take(-1, axis), table.take(-2, axis)
            slope = np.maximum(last - before, 0) / (line[-1] - line[-2])
            table = np.concatenate([table, np.expand_dims(last + slope * FAR, axis)], axis)
            line = np.append(line, line[-1] + FAR)
        ends.append(line)
    return Grid(axes, tuple(ends), table)


def _completed(points: Points, values: np.ndarray, nodes: Sequence[np.ndarray]) -> np.ndarray:
    """The table `[n, ...]` over the product of the nodes, with its holes filled."""
    _check_size(points, nodes)
    table = np.full([len(line) for line in nodes], np.nan)
    table[tuple(np.searchsorted(line, column) for line, column in zip(nodes, points.values(), strict=True))] = values
    # contexts first, along which times are most nearly linear
    order = sorted(range(len(nodes)), key=lambda axis: not list(points)[axis].endswith("context"))
    holes = table.size + 1
    while holes > (holes := int(np.isnan(table).sum())) > 0:
        for axis in order:
            table = _filled(table, axis, nodes[axis], hold=False)
    for axis in order:
        table = _filled(table, axis, nodes[axis], hold=True)
    return table


def _check_size(axes: Iterable[str], nodes: Sequence[np.ndarray]) -> None:
    if math.prod(map(len, nodes)) > MOST_POINTS:
        sizes = ", ".join(f"{len(line)} of {axis}" for axis, line in zip(axes, nodes, strict=True))
        raise ValueError(
            f"{sizes} make a grid of more than {MOST_POINTS:,} points; scattered ones can be fitted: jaxsim calibrate"
        )


def _filled(table: np.ndarray, axis: int, nodes: np.ndarray, *, hold: bool) -> np.ndarray:
    """A table with holes between known values along an axis interpolated, and with `hold` those at the ends held."""
    lines = np.moveaxis(table, axis, -1).copy()
    for line in lines.reshape(-1, len(nodes)):
        known = ~np.isnan(line)
        if known.any() and not known.all():
            left, right = line[known][[0, -1]] if hold else (np.nan, np.nan)
            line[:] = np.interp(nodes, nodes[known], line[known], left=left, right=right)
    return np.moveaxis(lines, -1, axis)


def _interpolated(nodes: Sequence[np.ndarray], table: np.ndarray, points: Points) -> np.ndarray:
    """Multilinear interpolation at points, whose order is that of the axes; at the ends, what is there."""
    total = np.zeros(len(next(iter(points.values()))))
    lower, share = [], []
    for line, column in zip(nodes, points.values(), strict=True):
        inside = np.clip(column, line[0], line[-1])
        cell = np.clip(np.searchsorted(line, inside, side="right") - 1, 0, max(len(line) - 2, 0))
        lower.append(cell)
        share.append((inside - line[cell]) / (line[cell + 1] - line[cell]) if len(line) > 1 else 0.0 * inside)
    for corner in np.ndindex(*(min(2, len(line)) for line in nodes)):
        weight = np.prod([part if high else 1 - part for part, high in zip(share, corner, strict=True)], axis=0)
        total += weight * table[tuple(cell + high for cell, high in zip(lower, corner, strict=True))]
    return total
