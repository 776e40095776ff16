"""Attention over the KV cache: prompts and decodes, with shared KV heads, sliding windows and latents (MLA)."""

from jaxsim.operators.base import Operator
from jaxsim.specs.dtypes import BYTES
from jaxsim.specs.model import ModelSpec


def prefill_attention(model: ModelSpec, tensor_parallel: int, kv_dtype: str, *, window: bool, count: float) -> Operator:
    """Attention of prompt chunks: each new token with itself and all before it (or in the window), once for each head.

    A pair takes 2 operations for each element of the query-key product and of the value product. Queries are read and
    results written once; keys and values of the context are read once for a chunk. MLA attends in the expanded form,
    whose keys and values are as wide as the heads.
    """
    heads = model.heads / tensor_parallel
    if model.is_mla:
        query, value = model.qk_nope_dim + model.qk_rope_dim, model.v_head_dim
        per_context = heads * (query + value) * BYTES["bf16"]
    else:
        query = value = model.head_dim
        per_context = model.kv_bytes_per_token_and_layer(kv_dtype, tensor_parallel)
    prefix = "window_" if window else ""
    per_pair = 2.0 * heads * (query + value)
    return Operator(
        f"prefill attention{' (window)' if window else ''}",
        "prefill_attention",
        count,
        flops={f"{prefix}pairs": per_pair},
        bytes={"prefill_tokens": heads * (query + value) * BYTES["bf16"], f"{prefix}prefill_context": per_context},
        busy_flops={f"{prefix}tile_pairs": per_pair},
        runs="prefilling",
    )


def decode_attention(model: ModelSpec, tensor_parallel: int, kv_dtype: str, *, window: bool, count: float) -> Operator:
    """Attention of one new token for each decoding request with its whole context (or the window).

    The KV cache of the context is read once, whatever number of query heads shares it. MLA attends in the latent:
    query and key are as wide as latent and rotary part together, the value as the latent.
    """
    heads = model.heads / tensor_parallel
    latent = model.kv_lora_rank or 0
    query = latent + model.qk_rope_dim if model.is_mla else model.head_dim
    value = latent if model.is_mla else model.head_dim
    context = "window_context" if window else "context"
    return Operator(
        f"decode attention{' (window)' if window else ''}",
        "decode_attention",
        count,
        flops={context: 2.0 * heads * (query + value)},
        bytes={
            context: model.kv_bytes_per_token_and_layer(kv_dtype, tensor_parallel),
            "decode_seqs": heads * (query + value) * BYTES["bf16"],
        },
        runs="decoding",
    )
