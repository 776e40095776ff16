"""Seconds of one iteration, from what each request was granted in it (DESIGN, metric definitions)."""

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
