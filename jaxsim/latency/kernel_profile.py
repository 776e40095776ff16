"""Iteration times from the measured kernels of one layer."""

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from jaxsim._component import check, check_not_negative, check_positive, component
from jaxsim._csv import Csv, CsvError, read_csv
from jaxsim.latency.grid import Grid
from jaxsim.latency.gridded import Gridded, Part, Weight, pinned
from jaxsim.latency.gridding import FAR, Extrapolate, Points, evaluate, grid_of, joint_grid_of

PER_MODEL = frozenset({"embedding", "final_layernorm", "lm_head", "sampler"})
"""Layers in the files that a model has once; every other is part of each of its blocks."""

PER_BLOCK = {"layernorm": 2}
"""Layers that are in a block more than once: a norm before attention and one before the MLP."""

_ATTENTION = {
    "prefill_tokens": "prefill_chunk",
    "prefill_context": "kv_prefill",
    "decode_seqs": "n_decode",
    "decode_context": "kv_decode",
}


@component
class KernelProfile(Gridded):
    """The sum of kernel times measured for one layer, as LLMServingSim's profiler writes them: a folder of CSV files.

    | file | columns | in an iteration |
    |---|---|---|
    | `dense.csv` | `layer,tokens,time_us` | for its new tokens |
    | `per_sequence.csv` | `layer,sequences,time_us` | for its requests |
    | `attention.csv` | `prefill_chunk,kv_prefill,n_decode,kv_decode,time_us` | for its chunks beside its decodes |
    | `moe.csv`, if the model has experts | `tokens,activated_experts,time_us` | for its new tokens |

    `embedding`, `final_layernorm`, `lm_head` and `sampler` count once, `layernorm` twice in each of `layers` blocks,
    and everything else once in each. How several chunks and contexts map onto one row of `attention.csv` is in
    `jaxsim.latency.grid`; rows of chunks beside decodes are measured together, which is more than the sum of the two.
    Experts are taken as chosen evenly: of E experts, N tokens that choose k each activate E (1 - (1 - k/E)^N) on
    average, where one token's activated experts are k and the most in the file are E (if it has a column `ep`, only
    rows where that is 1 count). Communication between devices is not in such a profile.

    Attributes:
        path: the folder.
        layers: blocks of the model.
        extrapolate: what happens beyond the largest number of an axis: `error` refuses a scenario that can get there,
            `clamp` takes the time at the end, `linear` extends the last cell (but never falls).
        time_scale: what every kernel time is multiplied by.
        host_s: seconds that every iteration takes beyond its kernels: what the machine's host adds.
        front_end_s: seconds from a request's arrival until the scheduler sees it: HTTP, tokenisation and the like.
        sha256: checksum of the files; null takes them as they are, and the manifest of a run notes what it was.
    """

    kind: Literal["kernel_profile"] = "kernel_profile"
    path: str
    layers: int
    extrapolate: Extrapolate = "error"
    time_scale: float = 1.0
    host_s: float = 0.0
    front_end_s: float = 0.0
    sha256: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))
        check(self, "layers", lambda count: count >= 1, "1 or greater")
        check_positive(self, "time_scale")
        check_not_negative(self, "host_s", "front_end_s")
        object.__setattr__(self, "sha256", pinned(_files(self.path), self.sha256))
        self.parts(linear=False)

    def parts(self, linear: bool) -> tuple[tuple[Weight, Part], ...]:
        """See `Gridded.parts`."""
        kernels = _kernels(self.path, self.sha256, linear)
        once_s = 1e-6 * self.time_scale
        block_s = once_s * self.layers
        return (
            (once_s, kernels.once),
            (once_s, kernels.per_sequence),
            (block_s, kernels.dense),
            (block_s, kernels.attention),
        )

    def _source(self) -> str:
        return self.path


class _Kernels(NamedTuple):
    """The grids of a profile, microseconds."""

    once: Grid
    """Kernels of the whole model, by new tokens."""
    per_sequence: Grid
    """Kernels of the whole model, by requests."""
    dense: Grid
    """Kernels of one block, by new tokens."""
    attention: Grid
    """Attention of one block, by all four."""


def _files(folder: str) -> list[str]:
    """The files of a profile; `moe.csv` only if it is there."""
    names = ("dense.csv", "per_sequence.csv", "attention.csv", "moe.csv")
    return [str(Path(folder, name)) for name in names if name != "moe.csv" or Path(folder, name).exists()]


@functools.lru_cache(maxsize=8)
def _kernels(folder: str, sha256: str, linear: bool) -> _Kernels:
    """The grids of a folder, built once per content."""
    dense, per_sequence, attention, *moe = map(read_csv, _files(folder))
    of_tokens = _by_layer(dense, "tokens")
    of_sequences = _by_layer(per_sequence, "sequences")
    once = {layer: curve for layer, curve in of_tokens.items() if layer in PER_MODEL}
    blocks = [(PER_BLOCK.get(layer, 1), curve) for layer, curve in of_tokens.items() if layer not in PER_MODEL]
    blocks += [(1, _expected_experts(file)) for file in moe]
    return _Kernels(
        once=_sum([(1, curve) for curve in once.values()], "new_tokens", linear),
        per_sequence=_sum([(1, curve) for curve in of_sequences.values()], "batch_seqs", linear),
        dense=_sum(blocks, "new_tokens", linear),
        attention=_attention(attention, linear),
    )


class _Curve(NamedTuple):
    """A time that depends on one number: nodes and values, `[n]`."""

    nodes: np.ndarray
    values: np.ndarray


def _by_layer(file: Csv, column: str) -> dict[str, _Curve]:
    """The curve of every layer of a file, over one of its columns."""
    file.require(("layer", column, "time_us"))
    layers, counts, times = np.array(file.columns["layer"]), file.counts(column), file.seconds("time_us")
    file.check_unique((file.columns["layer"], counts))
    curves = {}
    for layer in dict.fromkeys(file.columns["layer"]):
        order = np.flatnonzero(layers == layer)[np.argsort(counts[layers == layer])]
        curves[layer] = _Curve(counts[order], times[order])
    return curves


def _sum(curves: Sequence[tuple[int, _Curve]], axis: str, linear: bool) -> Grid:
    """The weighted sum of curves; zero everywhere if there are none."""
    nodes = np.unique(np.concatenate([curve.nodes for _, curve in curves] or [np.array([0.0, FAR])]))
    values = sum((count * np.interp(nodes, *curve) for count, curve in curves), np.zeros(len(nodes)))
    return grid_of({axis: nodes}, values, linear=linear)


def _expected_experts(file: Csv) -> _Curve:
    """Time over tokens when experts are chosen evenly: that of the number of experts activated on average."""
    file.require(("tokens", "activated_experts", "time_us"))
    parallel = file.counts("ep") if "ep" in file.columns else np.ones(len(file))
    tokens, experts, times = file.counts("tokens"), file.counts("activated_experts"), file.seconds("time_us")
    file.check_unique((parallel, tokens, experts))
    if not np.any(parallel == 1):
        raise CsvError(f"{file.path}: must have rows where ep is 1")
    tokens, experts, times = (column[parallel == 1] for column in (tokens, experts, times))
    each, most = experts[tokens == tokens.min()].min(), experts.max()
    grid = grid_of({"tokens": tokens, "experts": experts}, times)
    nodes = np.unique(np.concatenate([tokens, np.geomspace(tokens.min(), tokens.max(), 200).round()]))
    activated = most * (1 - (1 - each / most) ** nodes)
    return _Curve(nodes, evaluate(grid, {"tokens": nodes, "experts": activated}))


def _attention(file: Csv, linear: bool) -> Grid:
    """Attention of one block. Without rows of chunks beside decodes, it is the sum of both."""
    file.require((*_ATTENTION.values(), "time_us"))
    points = {axis: file.counts(column) for axis, column in _ATTENTION.items()}
    times = file.seconds("time_us")
    file.check_unique(points.values())
    tokens, seqs = points["prefill_tokens"], points["decode_seqs"]
    alone, bare = (tokens > 0) & (seqs == 0), (tokens == 0) & (seqs > 0)
    if not (alone.any() and bare.any()):
        raise CsvError(f"{file.path}: must have rows of chunks without decodes, and of decodes without a chunk")

    def rows(mask: np.ndarray, *axes: str) -> tuple[Points, np.ndarray]:
        return {axis: points[axis][mask] for axis in axes}, times[mask]

    prompts = grid_of(*rows(alone, "prefill_tokens", "prefill_context"))
    decodes = grid_of(*rows(bare, "decode_seqs", "decode_context"))
    mixed = rows(tokens * seqs > 0, *points)
    return joint_grid_of(
        prompts, decodes, lambda at: evaluate(prompts, at) + evaluate(decodes, at), *mixed, linear=linear
    )
