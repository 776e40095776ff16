"""Batches and their quantities, for tests of operators."""

from typing import Any

from jaxsim.operators.base import Operator, amount
from jaxsim.operators.batch import TERMS, Quantities, Sizes, quantities
from jaxsim.operators.lines import Line

SIZES = Sizes(prefill_tile_rows=1.0, heads=1.0, compute_units=1.0)


def terms(decodes: list[int] = (), chunks: list[tuple[int, int]] = ()) -> dict[str, float]:  # type: ignore[assignment]
    """Terms of decodes with these contexts and of chunks of (tokens, tokens computed before)."""
    found = {
        "decode_seqs": len(decodes),
        "context_tokens": sum(decodes),
        "prefill_seqs": len(chunks),
        "prefill_tokens": sum(tokens for tokens, _ in chunks),
        "prefill_pairs": sum(tokens * (before + tokens) for tokens, before in chunks),
        "prefill_squares": sum(tokens**2 for tokens, _ in chunks),
    }
    return {name: float(found[name]) for name in TERMS}


def measured(sizes: Sizes = SIZES, **batch: Any) -> Quantities:
    """Quantities of a batch."""
    return quantities({name: Line(value) for name, value in terms(**batch).items()}, sizes)


def work(operator: Operator, found: Quantities) -> tuple[float, float]:
    """Operations and bytes of one call."""
    return float(amount(operator.flops, found).first), float(amount(operator.bytes, found).first)
