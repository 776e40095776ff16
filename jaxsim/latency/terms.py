"""Batch terms: the sums over one iteration's batch that latency models are written in.

A latency model names the terms it needs (`AbstractLatency.terms`); the engine accumulates exactly those. Every term is
a float64 scalar, exact as long as it stays below 2**53. A *decode* feeds one token to a request whose context, that
token included, is `context` tokens; a *prefill chunk* computes `tokens` prompt tokens after `computed` earlier ones.

| term | a decode adds | a chunk adds |
|---|---|---|
| `new_tokens` | 1 | tokens |
| `decode_seqs` | 1 | |
| `context_tokens` | context | |
| `prefill_seqs` | | 1 |
| `prefill_tokens` | | tokens |
| `prefill_pairs` | | tokens * (computed + tokens) |
| `prefill_squares` | | tokens**2 |
"""

import jax
import jax.numpy as jnp

Terms = dict[str, jax.Array]

NAMES = (
    "new_tokens",
    "decode_seqs",
    "context_tokens",
    "prefill_seqs",
    "prefill_tokens",
    "prefill_pairs",
    "prefill_squares",
)


def of_decodes(names: tuple[str, ...], seqs: jax.Array, context: jax.Array) -> Terms:
    """Terms of `seqs` decodes whose contexts sum to `context` tokens."""
    known = {"new_tokens": seqs, "decode_seqs": seqs, "context_tokens": context}
    return _pick(names, known, like=seqs)


def of_chunk(names: tuple[str, ...], tokens: jax.Array, computed: jax.Array) -> Terms:
    """Terms of one prefill chunk of `tokens` tokens after `computed` earlier ones (all zero for zero tokens)."""
    size, after = _f64(tokens), _f64(computed + tokens)
    known = {
        "new_tokens": size,
        "prefill_seqs": tokens > 0,
        "prefill_tokens": size,
        "prefill_pairs": size * after,
        "prefill_squares": size * size,
    }
    return _pick(names, known, like=tokens)


def growth_of_decodes(names: tuple[str, ...], seqs: jax.Array) -> Terms:
    """What the terms of a decode batch gain from one iteration to the next: every context grows by one token."""
    return _pick(names, {"context_tokens": seqs}, like=seqs)


def growth_of_chunks(names: tuple[str, ...], tokens: jax.Array) -> Terms:
    """What the terms of a run of equal chunks of one prompt gain per iteration: the context before them grows."""
    size = _f64(tokens)
    return _pick(names, {"prefill_pairs": size * size}, like=tokens)


def add(a: Terms, b: Terms) -> Terms:
    """Terms of two parts of one batch."""
    return {name: a[name] + b[name] for name in a}


def _f64(x: jax.Array) -> jax.Array:
    return x.astype(jnp.float64)


def _pick(names: tuple[str, ...], known: dict[str, jax.Array], like: jax.Array) -> Terms:
    return {name: _f64(known[name]) if name in known else jnp.zeros(like.shape, jnp.float64) for name in names}
