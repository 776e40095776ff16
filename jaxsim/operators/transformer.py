"""The operators of one iteration of a model, on one device of an instance."""

from collections.abc import Iterator

from jaxsim.operators.attention import decode_attention, prefill_attention
from jaxsim.operators.base import Operator
from jaxsim.operators.collective import all_gather, all_reduce, all_to_all, point_to_point
from jaxsim.operators.elementwise import elementwise, gate, norm
from jaxsim.operators.embedding import embedding, lm_head
from jaxsim.operators.gemm import gemm
from jaxsim.operators.moe import experts, ranks_per_token
from jaxsim.specs.dtypes import BYTES
from jaxsim.specs.hardware import HardwareSpec
from jaxsim.specs.model import ModelSpec
from jaxsim.specs.parallelism import Parallelism


def transformer_operators(
    model: ModelSpec,
    hardware: HardwareSpec,
    parallel: Parallelism,
    *,
    dtype: str,
    expert_dtype: str,
    kv_dtype: str,
) -> tuple[Operator, ...]:
    """All operators of one iteration, in the order they run; counts are over all layers and pipeline stages.

    A batch is one pass over the weights: the GEMMs see the tokens of prompts and decodes together, only attention
    treats them apart. (Prefill and decode times added up would read the weights twice.)
    """
    formats = _Formats(hardware, dtype)
    layers = float(model.layers)
    return (
        embedding(model),
        *_attention(model, parallel, formats, kv_dtype),
        norm("feed-forward norm", model.hidden, count=layers),
        *_feed_forward(model, parallel, formats),
        *_mixture(model, parallel, formats, _Formats(hardware, expert_dtype)),
        norm("final norm", model.hidden, count=1.0, rows="sequences"),
        lm_head(model, parallel.tensor),
        *_messages(model, parallel),
    )


class _Formats:
    """In which format weights lie and are multiplied."""

    def __init__(self, hardware: HardwareSpec, weights: str):
        self.weights, self.computes_in = weights, hardware.computes_in(weights)

    def gemm(self, name: str, width_in: float, width_out: float, count: float) -> Operator:
        return gemm(name, width_in, width_out, weights=self.weights, computes_in=self.computes_in, count=count)


def _attention(model: ModelSpec, parallel: Parallelism, formats: _Formats, kv_dtype: str) -> Iterator[Operator]:
    layers, share = float(model.layers), parallel.tensor
    heads, kv_heads = model.heads / share, max(1.0, model.kv_heads / share)
    yield norm("attention norm", model.hidden, count=layers)
    if model.is_mla:
        rank, rope = model.kv_lora_rank or 0, model.qk_rope_dim
        query = heads * (model.qk_nope_dim + rope)
        if model.q_lora_rank:
            yield formats.gemm("QKV down", model.hidden, model.q_lora_rank + rank + rope, layers)
            yield formats.gemm("Q up", model.q_lora_rank, query, layers)
        else:
            yield formats.gemm("Q", model.hidden, query, layers)
            yield formats.gemm("KV down", model.hidden, rank + rope, layers)
        yield formats.gemm("KV up", rank, heads * (model.qk_nope_dim + model.v_head_dim), layers)
        rotated, out = (heads + 1) * rope, heads * model.v_head_dim
    else:
        yield formats.gemm("QKV", model.hidden, (heads + 2 * kv_heads) * model.head_dim, layers)
        rotated, out = (heads + kv_heads) * model.head_dim, heads * model.head_dim
    kv_bytes = model.kv_bytes_per_token_and_layer(kv_dtype, share)
    yield elementwise("rotary+KV write", 2.0 * rotated, count=layers, kv_bytes=kv_bytes)
    for window, count in ((False, model.layers - model.sliding_layers), (True, model.sliding_layers)):
        if count:
            yield prefill_attention(model, share, kv_dtype, window=window, count=float(count))
            yield decode_attention(model, share, kv_dtype, window=window, count=float(count))
    yield formats.gemm("attention out", out, model.hidden, layers)


def _feed_forward(model: ModelSpec, parallel: Parallelism, formats: _Formats) -> Iterator[Operator]:
    """Dense feed-forward layers."""
    count, inner = float(model.layers - model.moe_layers), model.ffn / parallel.tensor
    if count:
        yield formats.gemm("gate+up", model.hidden, 2 * inner, count)
        yield gate("activation", inner, count=count)
        yield formats.gemm("down", inner, model.hidden, count)


def _mixture(model: ModelSpec, parallel: Parallelism, formats: _Formats, of_experts: _Formats) -> Iterator[Operator]:
    """Layers with experts. Their activation is part of the experts' kernel."""
    count, shared = float(model.moe_layers), model.shared_expert_ffn / parallel.tensor
    if not count:
        return
    yield gemm("router", model.hidden, model.experts, weights="bf16", computes_in="bf16", count=count)
    yield experts(model, parallel, weights=of_experts.weights, computes_in=of_experts.computes_in, count=count)
    if shared:
        yield formats.gemm("shared gate+up", model.hidden, 2 * shared, count)
        yield gate("shared activation", shared, count=count)
        yield formats.gemm("shared down", shared, model.hidden, count)
    if parallel.data > 1:
        # whole experts: a token goes to the groups that have its own; split ones: to every other rank
        whole = parallel.expert > 1
        copies = ranks_per_token(model, parallel.expert) if whole else float(parallel.data - 1)
        row, span = copies * model.hidden / parallel.tensor, parallel.tensor * parallel.data
        yield all_to_all("dispatch", row * BYTES[of_experts.computes_in], span, count=count)
        yield all_to_all("combine", row * BYTES["bf16"], span, count=count)


def _messages(model: ModelSpec, parallel: Parallelism) -> Iterator[Operator]:
    row = model.hidden * BYTES["bf16"]
    if parallel.tensor > 1:
        # after attention, after the feed-forward layer, and once after the embedding
        yield all_reduce("all-reduce", row, parallel.tensor, count=2.0 * model.layers + 1)
        logits = model.vocab * BYTES["bf16"]
        yield all_gather("logits", logits, parallel.tensor, count=1.0, rows="sequences")
    if parallel.pipeline > 1:
        stages, span = float(parallel.pipeline - 1), parallel.tensor * parallel.pipeline
        yield point_to_point("between stages", row / parallel.tensor, span, count=stages)
