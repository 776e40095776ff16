"""Iteration times looked up in a table."""

import csv
import functools
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import equinox as eqx
import numpy as np

from jaxsim._component import check_not_negative, check_positive, component
from jaxsim._csv import Csv, CsvError, read_csv
from jaxsim.latency.base import Piece
from jaxsim.latency.grid import Grid, Positions, add, either
from jaxsim.latency.gridded import Gridded, Part, Weight, pinned
from jaxsim.latency.gridding import Extrapolate, Points, evaluate, grid_of, joint_grid_of

AXES = ("prefill_tokens", "prefill_context", "decode_seqs", "decode_context")
UNITS_S = {"time_s": 1.0, "time_ms": 1e-3, "time_us": 1e-6, "cycles": 1.0}
"""Columns that can hold the time of an iteration, with the seconds of one unit (cycles stay cycles)."""


@component
class Table(Gridded):
    """Iteration times from a CSV file: measured, computed by another simulator, or tabulated from any function.

    A row is one iteration: `prefill_tokens` prompt tokens after `prefill_context` earlier ones, beside `decode_seqs`
    decodes of `decode_context` tokens each (the token being fed included), and its time in one of the columns
    `time_s`, `time_ms`, `time_us` or `cycles`. Columns left out are 0; lines beginning with `#` are comments. How
    requests of different lengths map onto one row is in `jaxsim.latency.grid`. There must be rows of prompts without
    decodes and of decodes without prompts, each on a grid of their own, whose holes are interpolated. Times are
    multilinear between the points, and below the smallest number of an axis what they are there.

    Without rows of mixed iterations, decodes beside a prompt count as so many more prompt tokens, plus what a decode
    iteration of as many requests takes beyond the one with the shortest contexts. Against five tables with mixed
    iterations this was 1-3 % off (four models in 16 bit; 15 % in fp8), where adding the two times was 17-46 % off. With
    such rows they count, and between and beyond them this rule plus what it misses there.

    Attributes:
        path: the file.
        extrapolate: what happens beyond the largest number of an axis: `error` refuses a scenario that can get there,
            `clamp` takes the time at the end, `linear` extends the last cell (but never falls).
        clock_hz: cycles per second; given if and only if the file has `cycles`.
        time_scale: what every time in the file is multiplied by.
        host_s: seconds that every iteration takes beyond the file's: what the machine's host adds.
        front_end_s: seconds from a request's arrival until the scheduler sees it: HTTP, tokenisation and the like.
        sha256: checksum of the file; null takes the file as it is, and the manifest of a run notes what it was.
    """

    kind: Literal["table"] = "table"
    path: str
    extrapolate: Extrapolate = "error"
    clock_hz: float | None = None
    time_scale: float = 1.0
    host_s: float = 0.0
    front_end_s: float = 0.0
    sha256: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))
        check_positive(self, "clock_hz", "time_scale")
        check_not_negative(self, "host_s", "front_end_s")
        object.__setattr__(self, "sha256", pinned([self.path], self.sha256))
        if _read(self.path, self.sha256).in_cycles != (self.clock_hz is not None):
            raise ValueError("clock_hz must be given if the file has cycles, and only then")
        try:
            self.parts(linear=False)
        except ValueError as error:
            raise ValueError(f"path: {self.path}: {error}") from None

    def parts(self, linear: bool) -> tuple[tuple[Weight, Part], ...]:
        """See `Gridded.parts`."""
        unit_s = self.time_scale if self.clock_hz is None else self.time_scale / self.clock_hz
        return ((unit_s, _step_times(self.path, self.sha256, linear)),)

    def _source(self) -> str:
        return self.path


def tabulate(
    function: Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    path: str | os.PathLike[str],
    *,
    prefill_tokens: Sequence[float],
    prefill_context: Sequence[float] = (0,),
    decode_seqs: Sequence[float],
    decode_context: Sequence[float],
    comment: str = "",
) -> Table:
    """Write the table of a function of an iteration: a regressor, another simulator, or a formula.

    Args:
        function: seconds `[M]` of M iterations, from `[M]` arrays of the four numbers of a row of a table.
        path: the file to write.
        prefill_tokens: numbers of prompt tokens to ask for, and so on; iterations with none are added.
        prefill_context: tokens before them.
        decode_seqs: numbers of decoding requests.
        decode_context: their context lengths.
        comment: where the function comes from, for the head of the file.

    Returns:
        The table, for use in a scenario.

    Raises:
        ValueError: an axis is empty, or the function does not give a positive time for every iteration.
    """
    prompts = list(itertools.product(prefill_tokens, prefill_context))
    decodes = list(itertools.product(decode_seqs, decode_context))
    rows = [(*prompt, 0.0, 0.0) for prompt in prompts] + [(0.0, 0.0, *decode) for decode in decodes]
    rows += [(*prompt, *decode) for prompt in prompts for decode in decodes]
    points = np.array(rows, np.float64)
    times_s = np.broadcast_to(np.asarray(function(*points.T), np.float64), len(points))
    with open(path, "w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {line}\n" for line in comment.splitlines())
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*AXES, "time_s"))
        writer.writerows(
            (*(f"{number:.17g}" for number in row), repr(float(time_s)))
            for row, time_s in zip(rows, times_s, strict=True)
        )
    return Table(path=os.fspath(path))


class StepTimes(eqx.Module):
    """What a table says of iterations without mixed ones: a grid of each kind."""

    prompts: Grid
    """By new tokens, those of decodes beside the prompts included."""
    decodes: Grid
    attention: Grid
    """What decodes take beyond those with the shortest contexts."""

    def piece(self, at: Positions) -> Piece:
        """See `Part.piece`."""
        mixed = add(self.prompts.piece(at), self.attention.piece(at))
        return either(at["prefill_tokens"].at > 0, mixed, self.decodes.piece(at))

    def grids(self) -> tuple[Grid, ...]:
        """See `Part.grids`."""
        return self.prompts, self.decodes


class _Rows(NamedTuple):
    """Iterations: `[M]` each."""

    points: Points
    times: np.ndarray
    in_cycles: bool

    def of(self, rows: np.ndarray, axes: Sequence[str]) -> tuple[Points, np.ndarray]:
        """The points, on some axes, and the times of some rows."""
        return {axis: self.points[axis][rows] for axis in axes if axis in self.points}, self.times[rows]


@functools.lru_cache(maxsize=8)
def _read(path: str, sha256: str) -> _Rows:
    """The rows of a file, read once per content."""
    file = read_csv(path)
    units = [column for column in file.columns if column in UNITS_S]
    for column in file.columns:
        if column not in (*AXES, *UNITS_S):
            raise CsvError(f"{path}: unknown column {column}; valid: {', '.join((*AXES, *UNITS_S))}")
    if len(units) != 1:
        raise CsvError(f"{path}: must have one column of times, not {len(units)}; valid: {', '.join(UNITS_S)}")
    points = {axis: file.counts(axis) for axis in AXES if axis in file.columns}
    for present, context in (("prefill_tokens", "prefill_context"), ("decode_seqs", "decode_context")):
        if context in points:
            points[context] = np.where(points.get(present, 0) == 0, 0.0, points[context])
    _check_rows(file, points)
    return _Rows(points, file.seconds(units[0], UNITS_S[units[0]]), units[0] == "cycles")


def _check_rows(file: Csv, points: Points) -> None:
    """No iteration is empty or there twice, and there are some without decodes and some without prompt tokens."""
    file.check_unique(points.values())
    counts = {axis: points.get(axis, np.zeros(len(file))) for axis in ("prefill_tokens", "decode_seqs")}
    for row in np.flatnonzero(sum(counts.values()) == 0)[:1]:
        file.fail(row, "has neither prompt tokens nor decodes; prefill_tokens or decode_seqs must be greater than 0")
    for axis, count in counts.items():
        if not np.any(count == 0):
            raise CsvError(f"{file.path}: must have rows where {axis} is 0, for iterations without them")
        if not np.any(count > 0):
            raise CsvError(f"{file.path}: must have rows where {axis} is greater than 0")


@functools.lru_cache(maxsize=8)
def _step_times(path: str, sha256: str, linear: bool) -> Part:
    """The grids of a file, built once per content."""
    rows = _read(path, sha256)
    tokens, seqs = rows.points["prefill_tokens"], rows.points["decode_seqs"]
    of_prompts, of_decodes, of_mixed = (
        rows.of(mask, axes)
        for mask, axes in ((seqs == 0, AXES[:2]), (tokens == 0, AXES[2:]), (tokens * seqs > 0, AXES))
    )
    decodes = grid_of(*of_decodes)
    by_new_tokens = _renamed(grid_of(*of_prompts, linear=True))

    def attention(points: Points) -> np.ndarray:
        shortest = {
            axis: np.zeros_like(column) if axis == "decode_context" else column for axis, column in points.items()
        }
        return np.maximum(evaluate(decodes, points) - evaluate(decodes, shortest), 0)

    def beside(points: Points) -> np.ndarray:
        together = {**points, "new_tokens": points["prefill_tokens"] + points["decode_seqs"]}
        return evaluate(by_new_tokens, together) + attention(points)

    if len(of_mixed[1]):
        return joint_grid_of(grid_of(*of_prompts), decodes, beside, *of_mixed, linear=linear)
    points, _ = of_decodes
    return StepTimes(
        prompts=_renamed(grid_of(*of_prompts, linear=linear)),
        decodes=grid_of(*of_decodes, linear=linear),
        attention=grid_of(points, attention(points), linear=linear),
    )


def _renamed(prompts: Grid) -> Grid:
    """A grid by prompt tokens as one by new tokens: decodes beside the prompts count as well."""
    axes = tuple("new_tokens" if axis == "prefill_tokens" else axis for axis in prompts.axes)
    return Grid(axes, prompts.nodes, prompts.values)
