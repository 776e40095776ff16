"""What operators are proportional to: quantities of one batch, computed from its terms.

| quantity | what it is |
|---|---|
| `one` | 1 |
| `tokens`, `sequences` | new tokens; requests in the batch, each of which the LM head reads one token of |
| `decoding`, `prefilling`, `mixed` | 1 if the batch has decodes, prompts, both |
| `decode_seqs`, `context` | decodes; sum of their contexts |
| `prefill_tokens`, `prefill_context` | prompt tokens; sum of the contexts of the chunks once computed |
| `pairs`, `tile_pairs` | pairs of a prompt's token and one it attends to; with the idle parts of tiles and waves |
| `window_*` | the same in a layer with a sliding window |
| `expert_rows`, `expert_tile_rows` | rows of one device's experts; with the idle parts of tiles |
| `experts_touched` | experts of one device that have a row |

Terms are sums over the batch, so a quantity that depends on single requests takes them as equal: chunks as equally
long, decodes beside a window as equally far. For batches of like requests, and of one chunk, that is exact.
"""

from collections.abc import Mapping

from jaxsim._component import component
from jaxsim.operators.lines import Line, Number, module_of, smaller

TERMS = ("decode_seqs", "context_tokens", "prefill_seqs", "prefill_tokens", "prefill_pairs", "prefill_squares")
"""The batch terms (`jaxsim.latency.terms`) that quantities are computed from."""

GROWING = ("context_tokens", "prefill_pairs")
"""Terms that grow along a stretch; all others are constant."""

Quantities = dict[str, Line]


@component
class Sizes:
    """Sizes of model, hardware and parallelism that quantities depend on.

    Attributes:
        prefill_tile_rows: query tokens of one tile of the prefill attention kernel.
        heads: query heads of one device: each has tiles of its own.
        compute_units: tiles that run at the same time.
        window: tokens a layer with a sliding window attends to; null if no layer has one.
        experts: routed experts of one device; null in a dense model.
        log_miss: logarithm of the share of the experts that a token is not sent to.
        rows_per_token: rows that one token of this rank gives the experts of one device.
        expert_ranks: ranks whose tokens the experts of a device see.
        expert_tile_rows: rows of one tile of the experts' kernel.
    """

    prefill_tile_rows: float
    heads: float
    compute_units: float
    window: float | None = None
    experts: float | None = None
    log_miss: float = 0.0
    rows_per_token: float = 0.0
    expert_ranks: float = 1.0
    expert_tile_rows: float = 128.0


def quantities(terms: Mapping[str, Line], sizes: Sizes) -> Quantities:
    """The quantities of a batch with these terms."""
    decodes, chunks, prompt_tokens = terms["decode_seqs"], terms["prefill_seqs"], terms["prefill_tokens"]
    xp = module_of(decodes.first, prompt_tokens.first)
    decoding, prefilling = xp.sign(decodes.first), xp.sign(chunks.first)
    chunk = prompt_tokens.first / xp.maximum(chunks.first, 1)  # tokens of each, equally long
    pairs = _less(terms["prefill_pairs"], 0.5 * terms["prefill_squares"].first)
    # sum of (computed + tokens) over the chunks
    prefill_context = terms["prefill_pairs"] * (1 / xp.maximum(chunk, 1))
    waste = _waves(chunk, chunks.first, sizes)
    tokens, sequences = decodes + prompt_tokens, decodes + chunks
    found = {
        "one": Line(1.0),
        "tokens": tokens,
        "sequences": sequences,
        "decoding": Line(decoding),
        "prefilling": Line(prefilling),
        "mixed": Line(decoding * prefilling),
        "decode_seqs": decodes,
        "context": terms["context_tokens"],
        "prefill_tokens": prompt_tokens,
        "prefill_context": prefill_context,
        "pairs": pairs,
        "tile_pairs": pairs * waste,
    }
    if sizes.window is not None:
        found["window_context"] = smaller(terms["context_tokens"], decodes * sizes.window)
        found["window_prefill_context"] = smaller(prefill_context, prompt_tokens + chunks * sizes.window)
        found["window_pairs"] = smaller(pairs, prompt_tokens * sizes.window)
        found["window_tile_pairs"] = found["window_pairs"] * waste
    if sizes.experts is not None:
        found |= _of_experts(tokens.first, sizes)
    return found


def _less(line: Line, constant: Number) -> Line:
    return Line(line.first - constant, line.growth, line.iterations)


def _waves(chunk: Number, chunks: Number, sizes: Sizes) -> Number:
    """Busy time of the attention tiles of a prefill over the time if all were full and all units busy, 1 or greater.

    A chunk has `ceil(chunk / tile_rows)` tiles for each head; tiles run in waves of `compute_units`, and the last tile
    of a chunk and the last wave take as long as full ones. Measured on one GPU, for chunks of 16 to 2048 tokens after
    up to 16384: error 7 % with, 27 % without (`benchmarks/LATENCY.md`).
    """
    xp = module_of(chunk, chunks)
    rows = xp.ceil(chunk / sizes.prefill_tile_rows)
    tiles = xp.maximum(chunks, 1) * rows * sizes.heads
    full = xp.ceil(tiles / sizes.compute_units) * sizes.compute_units
    return (full / xp.maximum(tiles, 1)) * (rows * sizes.prefill_tile_rows / xp.maximum(chunk, 1))


def _of_experts(tokens: Number, sizes: Sizes) -> Quantities:
    """Experts that at least one token is sent to, if each token's are drawn at random, and their rows.

    A kernel computes each expert's rows in tiles. Half of the last tile is idle on average, and where an expert has
    fewer rows than that, kernels choose a tile that is at most half empty.
    """
    xp = module_of(tokens)
    seen = tokens * sizes.expert_ranks
    touched = sizes.experts * (1 - xp.exp(seen * sizes.log_miss))
    rows = tokens * sizes.rows_per_token
    padded = rows + xp.minimum(rows, touched * (0.5 * sizes.expert_tile_rows))
    return {"experts_touched": Line(touched), "expert_rows": Line(rows), "expert_tile_rows": Line(padded)}
