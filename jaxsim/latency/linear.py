"""Iteration time linear in the batch terms."""

import math
from typing import ClassVar, Literal

from jaxsim._arrays import rounded
from jaxsim._component import check_not_negative, component
from jaxsim.latency.base import AbstractLatency, Piece
from jaxsim.latency.terms import Terms


@component
class Linear(AbstractLatency):
    """Iteration time `((base + per_token*N) + per_context_token*K) + per_prefill_pair*Q`, in this order of operations.

    N is the number of new tokens in the batch; K the sum over decoding requests of their context length including the
    token being fed; Q the sum over prefill chunks of `chunk * (kv_before + chunk)`.

    Attributes:
        base_s: fixed time of an iteration, seconds.
        per_token_s: seconds per new token.
        per_context_token_s: seconds per context token of a decoding request.
        per_prefill_pair_s: seconds per pair of a chunk's token and a token it attends to.
    """

    terms: ClassVar[tuple[str, ...]] = ("new_tokens", "context_tokens", "prefill_pairs")

    kind: Literal["linear"] = "linear"
    base_s: float
    per_token_s: float = 0.0
    per_context_token_s: float = 0.0
    per_prefill_pair_s: float = 0.0

    def __post_init__(self) -> None:
        check_not_negative(self, "base_s", "per_token_s", "per_context_token_s", "per_prefill_pair_s")
        if self.base_s == 0 and self.per_token_s == 0:
            raise ValueError("base_s or per_token_s must be greater than 0: an iteration takes time")

    def price(self, terms: Terms, growth: Terms) -> Piece:
        """See `AbstractLatency.price`; one piece covers any stretch."""
        first = self.base_s + rounded(self.per_token_s * terms["new_tokens"])
        first = first + rounded(self.per_context_token_s * terms["context_tokens"])
        first = first + rounded(self.per_prefill_pair_s * terms["prefill_pairs"])
        grows = (
            self.per_token_s * growth["new_tokens"]
            + self.per_context_token_s * growth["context_tokens"]
            + self.per_prefill_pair_s * growth["prefill_pairs"]
        )
        return Piece(first, grows, math.inf)
