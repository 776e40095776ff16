"""Seconds of one iteration, from what each request was granted in it (DESIGN, metric definitions)."""

import csv
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tests.oracle.job import Job


class Grant(NamedTuple):
    """What one request does in one iteration: `tokens` new tokens on top of `context` tokens that have KV already."""

    job: Job
    context: int
    tokens: int
    is_decode: bool
    emits: bool


class Latency(Protocol):
    def seconds(self, grants: Sequence[Grant]) -> float: ...


def batch_terms(grants: Sequence[Grant]) -> tuple[int, int, int]:
    """N new tokens, K context of decodes including the token being fed, Q pairs of prefill chunks."""
    n = sum(g.tokens for g in grants)
    k = sum(g.context + 1 for g in grants if g.is_decode)
    q = sum(g.tokens * (g.context + g.tokens) for g in grants if not g.is_decode)
    return n, k, q


@dataclass
class Linear:
    base_s: float
    per_token_s: float = 0.0
    per_context_token_s: float = 0.0
    per_prefill_pair_s: float = 0.0

    def seconds(self, grants: Sequence[Grant]) -> float:
        n, k, q = batch_terms(grants)
        return ((self.base_s + self.per_token_s * n) + self.per_context_token_s * k) + self.per_prefill_pair_s * q


@dataclass
class PhasedLinear:
    prefill: dict
    decode: list[dict]

    def seconds(self, grants: Sequence[Grant]) -> float:
        lengths = [g.tokens for g in grants if not g.is_decode]
        if lengths:
            p = self.prefill
            squares = sum(length * length for length in lengths)
            return p["base_s"] + p["per_token_s"] * sum(lengths) + p["per_token_squared_s"] * squares
        _, k, _ = batch_terms(grants)
        d = max((d for d in self.decode if d["from_seqs"] <= len(grants)), key=lambda d: d["from_seqs"])
        return d["base_s"] + d["per_seq_s"] * len(grants) + d["per_context_token_s"] * k


class Table:
    """A table of whole iterations on full grids, with rows of mixed iterations or without."""

    def __init__(self, path: str, extrapolate: str = "clamp", host_s: float = 0.0, time_scale: float = 1.0):
        assert extrapolate != "linear"
        self.host_s, self.time_scale = host_s, time_scale
        with open(path, newline="") as file:
            rows = [[float(field) for field in row] for row in list(csv.reader(file))[1:]]
        self.prompts = {(row[0], row[1]): row[4] for row in rows if row[2] == 0}
        self.decodes = {(row[2], row[3]): row[4] for row in rows if row[0] == 0}
        self.mixed = {tuple(row[:4]): row[4] for row in rows if row[0] > 0 and row[2] > 0}

    def seconds(self, grants: Sequence[Grant]) -> float:
        return self.time_scale * self._table_seconds(grants) + self.host_s

    def _table_seconds(self, grants: Sequence[Grant]) -> float:
        contexts = [g.context + 1 for g in grants if g.is_decode]
        chunks = [(g.tokens, g.context) for g in grants if not g.is_decode]
        tokens, seqs = sum(n for n, _ in chunks), len(contexts)
        decodes = (seqs, sum(contexts) / max(seqs, 1))
        if not chunks:
            return interpolate(self.decodes, decodes)
        pairs = sum(n * (c + n / 2) for n, c in chunks)
        before = pairs / tokens - tokens / 2  # of one chunk with as many tokens and pairs
        if not contexts:
            return interpolate(self.prompts, (tokens, before))
        if self.mixed:
            return interpolate(self.mixed, (tokens, before, *decodes))
        attention = interpolate(self.decodes, decodes) - interpolate(self.decodes, (seqs, 0))
        return interpolate(self.prompts, (tokens + seqs, before)) + max(0.0, attention)


def interpolate(table: dict[tuple[float, ...], float], point: Sequence[float]) -> float:
    """Multilinear in a full grid; beyond its ends, what is there."""
    axis = sorted({key[0] for key in table})
    at = min(max(point[0], axis[0]), axis[-1])
    low = min(bisect_right(axis, at), len(axis) - 1) - 1
    ends = []
    for node in axis[low : low + 2]:
        rest = {key[1:]: value for key, value in table.items() if key[0] == node}
        ends.append(interpolate(rest, point[1:]) if len(point) > 1 else rest[()])
    return ends[0] + (ends[-1] - ends[0]) * (at - axis[low]) / (axis[low + 1] - axis[low])
