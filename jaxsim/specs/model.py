"""Transformer models: shapes, parameters, bytes of weights and of KV cache."""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxsim._component import check, component
from jaxsim.specs._facts import read_table, unknown
from jaxsim.specs.dtypes import BYTES, Dtype


class Weights(NamedTuple):
    """Bytes of a model's weights."""

    dense: float
    """Projections and feed-forward layers that every token uses."""
    routed: float
    """Routed experts."""
    embeddings: float
    """Embedding and LM head, in 16 bits."""
    small: float
    """Norms and routers, in 16 bits."""

    @property
    def total(self) -> float:
        """All of them."""
        return self.dense + self.routed + self.embeddings + self.small


@component
class ModelSpec:
    """The shape of one decoder-only transformer.

    Attention is multi-head, grouped-query, or multi-head latent (MLA, where `kv_lora_rank` is given); feed-forward
    layers are gated (three matrices), dense or with experts. Biases are left out: they are thousandths of a per cent.

    Attributes:
        name: what it is called.
        layers: transformer layers.
        hidden: width of the residual stream.
        heads: query heads.
        kv_heads: key and value heads.
        head_dim: width of a head.
        ffn: inner width of a dense feed-forward layer.
        vocab: words of the vocabulary.
        tied_embeddings: the LM head is the embedding.
        experts: routed experts of a layer; 0 for a dense model.
        experts_per_token: experts that each token is sent to.
        expert_ffn: inner width of an expert.
        shared_expert_ffn: inner width of all shared experts together; 0 if there are none.
        dense_layers: layers of a mixture-of-experts model that have a dense feed-forward layer.
        kv_lora_rank: width of the compressed KV of MLA; null for other attention.
        q_lora_rank: width of the compressed query of MLA; null if queries are not compressed.
        qk_nope_dim: width of a head's query and key without position (MLA).
        qk_rope_dim: width of the rotary part of a head's query and of the shared key (MLA).
        v_head_dim: width of a head's value (MLA).
        sliding_window: tokens that a layer with a window attends to, its own included; null if no layer has one.
        sliding_layers: layers with the window.
        dtype: format of the weights as published.
        expert_dtype: format of the experts' weights; null is `dtype`.
    """

    name: str = "custom"
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied_embeddings: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    shared_expert_ffn: int = 0
    dense_layers: int = 0
    kv_lora_rank: int | None = None
    q_lora_rank: int | None = None
    qk_nope_dim: int = 0
    qk_rope_dim: int = 0
    v_head_dim: int = 0
    sliding_window: int | None = None
    sliding_layers: int = 0
    dtype: Dtype = "bf16"
    expert_dtype: Dtype | None = None

    def __post_init__(self) -> None:
        for field in ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "kv_lora_rank", "sliding_window"):
            check(self, field, lambda value: value >= 1, "1 or greater")
        for field in ("ffn", "experts", "experts_per_token", "expert_ffn", "shared_expert_ffn", "dense_layers"):
            check(self, field, lambda value: value >= 0, "0 or greater")
        check(self, "sliding_layers", lambda value: 0 <= value <= self.layers, f"from 0 to {self.layers} (layers)")
        check(self, "dense_layers", lambda value: value <= self.layers, f"at most {self.layers} (layers)")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads must divide heads ({self.heads}), not {self.kv_heads}")
        if self.experts and not (1 <= self.experts_per_token <= self.experts and self.expert_ffn):
            raise ValueError(f"experts_per_token must be from 1 to {self.experts} (experts), and expert_ffn positive")
        if not self.experts and not self.ffn:
            raise ValueError("ffn must be 1 or greater in a model without experts")
        if self.is_mla and not (self.qk_nope_dim and self.qk_rope_dim and self.v_head_dim):
            raise ValueError("kv_lora_rank needs qk_nope_dim, qk_rope_dim and v_head_dim")
        if self.sliding_layers and self.sliding_window is None:
            raise ValueError("sliding_window must be given for sliding_layers to have one")

    @property
    def is_mla(self) -> bool:
        """Whether attention is multi-head latent."""
        return self.kv_lora_rank is not None

    @property
    def moe_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def attention_parameters(self) -> int:
        """Parameters of the projections of one layer's attention, norms left out."""
        if not self.is_mla:
            return self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        rank, rope, nope, value = self.kv_lora_rank or 0, self.qk_rope_dim, self.qk_nope_dim, self.v_head_dim
        query_width = self.heads * (nope + rope)
        queries = self.q_lora_rank * (self.hidden + query_width) if self.q_lora_rank else self.hidden * query_width
        keys_values = self.hidden * (rank + rope) + rank * self.heads * (nope + value)
        return queries + keys_values + self.heads * value * self.hidden

    @property
    def expert_parameters(self) -> int:
        """Parameters of one routed expert."""
        return 3 * self.hidden * self.expert_ffn

    @property
    def dense_parameters(self) -> int:
        """Parameters in `dtype` of all layers: all but routed experts, routers, embeddings, LM head and norms."""
        dense_ffn = 3 * self.hidden * self.ffn * (self.layers - self.moe_layers)
        shared = 3 * self.hidden * self.shared_expert_ffn * self.moe_layers
        return self.layers * self.attention_parameters + dense_ffn + shared

    @property
    def routed_parameters(self) -> int:
        """Parameters of all routed experts."""
        return self.moe_layers * self.experts * self.expert_parameters

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the embedding and of the LM head."""
        return self.vocab * self.hidden * (1 if self.tied_embeddings else 2)

    @property
    def small_parameters(self) -> int:
        """Parameters of norms and routers."""
        return (2 * self.layers + 1) * self.hidden + self.moe_layers * self.hidden * self.experts

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.dense_parameters + self.routed_parameters + self.embedding_parameters + self.small_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses: of the routed experts only those it is sent to."""
        idle = self.moe_layers * (self.experts - self.experts_per_token) * self.expert_parameters
        return self.parameters - idle

    def weights(self, dtype: str | None = None, expert_dtype: str | None = None) -> Weights:
        """Bytes of all weights, by what shares them.

        Args:
            dtype: format of the projections and feed-forward layers; by default as published.
            expert_dtype: format of the routed experts; by default `dtype` if that is given, else as published.
        """
        expert_dtype = expert_dtype or dtype or self.expert_dtype or self.dtype
        return Weights(
            dense=self.dense_parameters * BYTES[dtype or self.dtype],
            routed=self.routed_parameters * BYTES[expert_dtype],
            embeddings=self.embedding_parameters * BYTES["bf16"],
            small=self.small_parameters * BYTES["bf16"],
        )

    def kv_bytes_per_token_and_layer(self, kv_dtype: str = "bf16", tensor_parallel: int = 1) -> float:
        """Bytes that one token leaves in the KV cache of one layer on one device.

        With more devices than KV heads each head is kept on several devices; MLA's latent is kept on every one.
        """
        if self.is_mla:
            return ((self.kv_lora_rank or 0) + self.qk_rope_dim) * BYTES[kv_dtype]
        return 2 * max(1.0, self.kv_heads / tensor_parallel) * self.head_dim * BYTES[kv_dtype]

    def kv_bytes_per_token(self, kv_dtype: str = "bf16", tensor_parallel: int = 1) -> float:
        """Bytes that one token leaves in the KV cache of all layers on one device, windows not considered."""
        return self.layers * self.kv_bytes_per_token_and_layer(kv_dtype, tensor_parallel)


@functools.cache
def model_table() -> Mapping[str, ModelSpec]:
    """The models that jaxsim knows, by name. Sources and conflicts: `specs/facts/models.csv`."""
    return {row["name"]: _of_row(row) for row in read_table("models")}


def _of_row(row: Mapping[str, str]) -> ModelSpec:
    given = {key: value for key, value in row.items() if key not in ("hugging_face", "source", "note")}
    texts = ("name", "dtype", "expert_dtype")
    values: dict[str, Any] = {
        key: value if key in texts else value == "true" if key == "tied_embeddings" else int(value)
        for key, value in given.items()
    }
    return ModelSpec(**values)


@functools.cache
def _names() -> Mapping[str, str]:
    """Every spelling that is understood, lower case, by the name it means."""
    spellings = {}
    for row in read_table("models"):
        repository = row["hugging_face"].lower()
        for spelling in (row["name"], repository, repository.split("/")[-1]):
            spellings[spelling] = row["name"]
    return spellings


_SUFFIXES = ("-instruct", "-it", "-chat", "-chat-hf", "-hf", "-base")


def named_model(name: str) -> ModelSpec:
    """The model called `name`, such as `llama-3.1-8b`; Hugging Face names are understood, with or without owner.

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    wanted = name.strip().lower()
    short = wanted.split("/")[-1].removeprefix("meta-")
    stems = [short, *(short.removesuffix(suffix) for suffix in _SUFFIXES)]
    for spelling in (wanted, *stems):
        if spelling in _names():
            return model_table()[_names()[spelling]]
    raise unknown("model", name, model_table())
