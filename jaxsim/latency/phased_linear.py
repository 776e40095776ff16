"""Iteration time linear in one set of terms for prompts and another for decodes."""

import math
from typing import ClassVar, Literal

import jax

from jaxsim._arrays import rounded, select
from jaxsim._component import check, check_not_negative, component
from jaxsim.latency.base import AbstractLatency, Piece
from jaxsim.latency.terms import Terms


@component
class PrefillPhase:
    """Iterations with prompt tokens take `(base + per_token*sum L) + per_token_squared*sum L^2`.

    L is the number of tokens of each prompt in the batch.

    Attributes:
        base_s: fixed time of an iteration with prompts, seconds.
        per_token_s: seconds per prompt token.
        per_token_squared_s: seconds per squared prompt token.
    """

    base_s: float
    per_token_s: float = 0.0
    per_token_squared_s: float = 0.0

    def __post_init__(self) -> None:
        check_not_negative(self, "base_s", "per_token_s", "per_token_squared_s")
        if self.base_s == 0 and self.per_token_s == 0 and self.per_token_squared_s == 0:
            raise ValueError("base_s or per_token_s must be greater than 0: an iteration takes time")


@component
class DecodePhase:
    """Decode iterations of B requests take `(base + per_seq*B) + per_context_token*K`.

    K is the sum of the requests' context lengths, the tokens being fed included.

    Attributes:
        from_seqs: the smallest B that these coefficients are for.
        base_s: fixed time of a decode iteration, seconds.
        per_seq_s: seconds per decoding request.
        per_context_token_s: seconds per context token.
    """

    from_seqs: int = 1
    base_s: float
    per_seq_s: float = 0.0
    per_context_token_s: float = 0.0

    def __post_init__(self) -> None:
        check(self, "from_seqs", lambda value: value >= 1, "1 or greater")
        check_not_negative(self, "base_s", "per_seq_s", "per_context_token_s")
        if self.base_s == 0 and self.per_seq_s == 0 and self.per_context_token_s == 0:
            raise ValueError("base_s or per_seq_s must be greater than 0: an iteration takes time")


@component
class PhasedLinear(AbstractLatency):
    """Iteration time with its own linear form for iterations with prompts and for decode iterations, as DistServe's.

    An iteration with prompts takes what `prefill` says; decodes beside them add nothing. A decode iteration of B
    requests takes what the entry of `decode` with the largest `from_seqs <= B` says.

    Attributes:
        prefill: coefficients of iterations with prompts.
        decode: coefficients of decode iterations, in increasing order of `from_seqs`, the first of them 1.
    """

    terms: ClassVar[tuple[str, ...]] = ("decode_seqs", "context_tokens", "prefill_tokens", "prefill_squares")

    kind: Literal["phased_linear"] = "phased_linear"
    prefill: PrefillPhase
    decode: tuple[DecodePhase, ...]

    def __post_init__(self) -> None:
        starts = [entry.from_seqs for entry in self.decode]
        if not starts or starts[0] != 1:
            raise ValueError("decode must begin with an entry whose from_seqs is 1")
        if starts != sorted(set(starts)):
            raise ValueError(f"decode must have increasing from_seqs, not {', '.join(map(str, starts))}")

    def price(self, terms: Terms, growth: Terms) -> Piece:
        """See `AbstractLatency.price`; one piece covers any stretch, along which the number of decodes is constant."""
        first, grows = self._decode(self.decode[0], terms, growth)
        for entry in self.decode[1:]:
            applies = terms["decode_seqs"] >= entry.from_seqs
            other_first, other_grows = self._decode(entry, terms, growth)
            first, grows = select(applies, other_first, first), select(applies, other_grows, grows)
        tokens, squares = terms["prefill_tokens"], terms["prefill_squares"]
        prompts = self.prefill.base_s + rounded(self.prefill.per_token_s * tokens)
        prompts = prompts + rounded(self.prefill.per_token_squared_s * squares)
        return Piece(select(tokens > 0, prompts, first), select(tokens > 0, 0.0, grows), math.inf)

    @staticmethod
    def _decode(entry: DecodePhase, terms: Terms, growth: Terms) -> tuple[jax.Array, jax.Array]:
        """First iteration and growth per iteration of a stretch of decodes, by one entry."""
        first = entry.base_s + rounded(entry.per_seq_s * terms["decode_seqs"])
        first = first + rounded(entry.per_context_token_s * terms["context_tokens"])
        return first, entry.per_context_token_s * growth["context_tokens"]
