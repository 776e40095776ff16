"""Models from the `config.json` that Hugging Face keeps beside their weights."""

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from jaxsim.specs.model import ModelSpec

_FORMATS = {"fp8": "fp8", "nvfp4": "fp4", "fp4": "fp4", "awq": "int4", "gptq": "int4", "int4": "int4", "int8": "int8"}
_PLAIN_FFN = ("bloom", "falcon", "gpt_neox", "gptj", "mpt", "opt", "phi", "starcoder2")


def from_hf_config(config: Mapping[str, Any] | str | PathLike[str], name: str | None = None) -> ModelSpec:
    """The model that a Hugging Face `config.json` describes.

    Read are the shapes of the Llama, Mistral, Qwen, Gemma, Phi-3, Mixtral, Llama 4, DeepSeek and gpt-oss families and
    of others with the same keys; vision and audio towers are left out.

    Args:
        config: the parsed file, its path, or the folder it is in.
        name: what to call the model; by default `_name_or_path` of the file, else its `model_type`.

    Raises:
        ValueError: a key that is needed is missing or no whole number; the message names it.
        OSError: the file cannot be read.
    """
    if not isinstance(config, Mapping):
        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}: not valid JSON: {error}") from None
        if not isinstance(config, Mapping):
            raise ValueError(f"{path}: must hold an object of keys")
        name = name or config.get("_name_or_path") or path.resolve().parent.name
    return _spec(_Keys({**config, **config.get("text_config", {})}), name)


class _Keys:
    """The keys of a config, several of which may say the same."""

    def __init__(self, config: Mapping[str, Any]):
        self.config = config

    def __call__(self, *names: str, default: int | None = None) -> int:
        """The whole number that the first of `names` with a value has."""
        for name in names:
            value = self.config.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"config.json: {name} must be a whole number, not {value!r}")
            return value
        if default is None:
            raise ValueError(f"config.json: {' or '.join(names)} is missing; is this the config of a language model?")
        return default


def _spec(keys: _Keys, name: str | None) -> ModelSpec:
    config = keys.config
    family = str(config.get("model_type", ""))
    if family in _PLAIN_FFN:
        raise ValueError(
            f"config.json: model_type {family} has feed-forward layers of two matrices; give the model inline"
        )
    layers, hidden, heads = keys("num_hidden_layers"), keys("hidden_size"), keys("num_attention_heads")
    mla = config.get("kv_lora_rank") is not None
    return ModelSpec(
        name=name or str(config.get("_name_or_path") or family or "custom"),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=keys("num_key_value_heads", default=heads),
        head_dim=keys("qk_nope_head_dim") if mla else keys("head_dim", default=hidden // heads),
        ffn=keys("intermediate_size_mlp", "intermediate_size", default=0),
        vocab=keys("vocab_size"),
        tied_embeddings=bool(config.get("tie_word_embeddings", family.startswith("gemma"))),
        **_experts(keys, layers),
        **(_latent(keys) if mla else {}),
        **_windows(keys, layers),
        **_formats(config),
    )


def _experts(keys: _Keys, layers: int) -> dict[str, Any]:
    experts = keys("n_routed_experts", "num_local_experts", "num_experts", default=0)
    if not experts:
        return {}
    width = keys("moe_intermediate_size", "expert_intermediate_size", "intermediate_size")
    shared = keys("n_shared_experts", default=0) * width
    if "interleave_moe_layer_step" in keys.config:  # Llama 4: one shared expert, experts in every n-th layer
        return {
            "experts": experts,
            "experts_per_token": keys("num_experts_per_tok"),
            "expert_ffn": width,
            "shared_expert_ffn": width,
            "dense_layers": layers - layers // keys("interleave_moe_layer_step"),
        }
    sparse = layers // keys("decoder_sparse_step", default=1) - len(keys.config.get("mlp_only_layers") or ())
    return {
        "experts": experts,
        "experts_per_token": keys("num_experts_per_tok", "num_experts_per_token", "experts_per_token"),
        "expert_ffn": width,
        "shared_expert_ffn": keys("shared_expert_intermediate_size", default=shared),
        "dense_layers": keys("first_k_dense_replace", default=layers - sparse),
    }


def _latent(keys: _Keys) -> dict[str, Any]:
    return {
        "kv_lora_rank": keys("kv_lora_rank"),
        "q_lora_rank": keys("q_lora_rank", default=0) or None,
        "qk_nope_dim": keys("qk_nope_head_dim"),
        "qk_rope_dim": keys("qk_rope_head_dim"),
        "v_head_dim": keys("v_head_dim"),
    }


def _windows(keys: _Keys, layers: int) -> dict[str, Any]:
    """The sliding (or chunked) window and the number of layers that have it."""
    config = keys.config
    window = keys("sliding_window", "attention_chunk_size", default=0)
    if not window or config.get("use_sliding_window") is False:
        return {}
    if types := config.get("layer_types"):
        windowed = sum("sliding" in kind or "chunked" in kind for kind in types)
    elif "max_window_layers" in config:  # Qwen: the first layers have none
        windowed = layers - keys("max_window_layers")
    elif "attention_chunk_size" in config:  # Llama 4: every fourth layer attends to everything
        windowed = layers - layers // keys("no_rope_layer_interval", default=4)
    else:
        pattern = keys("sliding_window_pattern", default=2 if config.get("model_type") == "gemma2" else 0)
        windowed = layers - layers // pattern if pattern else layers
    return {"sliding_window": window, "sliding_layers": windowed} if windowed > 0 else {}


def _formats(config: Mapping[str, Any]) -> dict[str, Any]:
    """Formats of the weights."""
    given = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16")
    plain = {"float16": "fp16", "float32": "fp32"}.get(given, "bf16")
    quantised = config.get("quantization_config") or {}
    method = str(quantised.get("quant_algo") or quantised.get("quant_method") or "").lower()
    if method == "mxfp4":  # gpt-oss: only the experts
        return {"dtype": plain, "expert_dtype": "mxfp4"}
    if method == "compressed-tensors":
        group: Mapping[str, Any] = next(iter(quantised.get("config_groups", {}).values()), {})
        weights = group.get("weights") or {}
        method = f"{'fp' if weights.get('type') == 'float' else 'int'}{weights.get('num_bits')}"
    return {"dtype": _FORMATS.get(method, plain)}
