"""Models: parameter counts against what their makers publish, KV bytes by hand, names, mistakes."""

import dataclasses

import pytest

from jaxsim.specs import ModelSpec, named_model
from jaxsim.specs.model import model_table

# billions of parameters as published on the model cards (total, active)
PUBLISHED = {
    "llama-2-7b": (6.74, None),
    "llama-2-13b": (13.02, None),
    "llama-2-70b": (68.98, None),
    "llama-3.1-8b": (8.03, None),
    "llama-3.1-70b": (70.55, None),
    "llama-3.1-405b": (405.85, None),
    "llama-3.2-1b": (1.236, None),
    "llama-3.2-3b": (3.213, None),
    "llama-4-scout": (107.77, 17.2),
    "llama-4-maverick": (400.7, 17.2),
    "qwen2.5-7b": (7.616, None),
    "qwen2.5-14b": (14.77, None),
    "qwen2.5-32b": (32.76, None),
    "qwen2.5-72b": (72.71, None),
    "qwen3-8b": (8.19, None),
    "qwen3-32b": (32.76, None),
    "qwen3-30b-a3b": (30.53, 3.35),
    "qwen3-235b-a22b": (235.1, 22.2),
    "mistral-7b": (7.248, None),
    "mistral-small-24b": (23.57, None),
    "mixtral-8x7b": (46.70, 12.88),
    "mixtral-8x22b": (140.6, 39.15),
    "deepseek-v3": (671.0, 37.5),
    "deepseek-v2-lite": (15.71, 2.66),
    "kimi-k2": (1026.0, 32.9),
    "gpt-oss-20b": (20.91, None),
    "gpt-oss-120b": (116.8, None),
    "gemma-2-9b": (9.24, None),
    "gemma-2-27b": (27.23, None),
    "phi-3-mini": (3.821, None),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_published(name: str) -> None:
    total, active = PUBLISHED[name]
    assert named_model(name).parameters / 1e9 == pytest.approx(total, rel=2e-3)
    if active is not None:
        assert named_model(name).active_parameters / 1e9 == pytest.approx(active, rel=5e-3)


def test_enough_models_are_known() -> None:
    assert len(model_table()) >= 20
    assert all(spec.name == name for name, spec in model_table().items())


@pytest.mark.parametrize(
    ("name", "kv_dtype", "tensor_parallel", "bytes_per_token"),
    [
        ("llama-3.1-8b", "bf16", 1, 32 * 2 * 8 * 128 * 2),
        ("llama-3.1-8b", "fp8", 1, 32 * 2 * 8 * 128),
        ("llama-3.1-70b", "bf16", 4, 80 * 2 * 2 * 128 * 2),
        ("llama-3.1-8b", "bf16", 16, 32 * 2 * 1 * 128 * 2),  # fewer KV heads than devices: each is kept twice
        ("deepseek-v3", "bf16", 8, 61 * (512 + 64) * 2),  # the latent is kept on every device
    ],
)
def test_kv_bytes_per_token(name: str, kv_dtype: str, tensor_parallel: int, bytes_per_token: float) -> None:
    assert named_model(name).kv_bytes_per_token(kv_dtype, tensor_parallel) == bytes_per_token


def test_weights_in_their_own_formats() -> None:
    spec = named_model("gpt-oss-120b")
    weights = spec.weights()
    assert weights.routed == spec.routed_parameters * (0.5 + 1 / 32)
    assert weights.dense == spec.dense_parameters * 2
    assert spec.weights("fp8").routed == spec.routed_parameters
    assert spec.weights("fp8", "int4").routed == pytest.approx(spec.routed_parameters * (0.5 + 2.5 / 128))
    assert weights.total == pytest.approx(65.2e9, rel=1e-2)  # size of the published checkpoint


@pytest.mark.parametrize(
    "spelling", ["llama-3.1-8b", "Llama-3.1-8B", "meta-llama/Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B-Instruct"]
)
def test_spellings(spelling: str) -> None:
    assert named_model(spelling).name == "llama-3.1-8b"


def test_an_unknown_name_lists_what_is_known() -> None:
    with pytest.raises(
        ValueError, match=r"model 'mixtral' is not known; did you mean mixtral-8x7b\? known: .*qwen3-8b"
    ):
        named_model("mixtral")


DENSE = {"layers": 2, "hidden": 8, "heads": 4, "kv_heads": 2, "head_dim": 2, "ffn": 16, "vocab": 10}


def test_parameters_by_hand() -> None:
    attention = 8 * (8 + 2 * 4 + 8)  # Q, K and V, out
    everything = 2 * (attention + 3 * 8 * 16 + 2 * 8) + 2 * 10 * 8 + 8
    assert ModelSpec(**DENSE).parameters == everything
    assert ModelSpec(**DENSE, tied_embeddings=True).parameters == everything - 80


def test_parameters_of_experts_by_hand() -> None:
    spec = ModelSpec(**DENSE, experts=4, experts_per_token=2, expert_ffn=3, shared_expert_ffn=5, dense_layers=1)
    dense = ModelSpec(**DENSE)
    ffn, one, router = 3 * 8 * 16, 3 * 8 * 3, 8 * 4
    assert spec.parameters == dense.parameters - ffn + 4 * one + 3 * 8 * 5 + router
    assert spec.active_parameters == spec.parameters - 2 * one


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kv_heads": 3}, r"kv_heads must divide heads \(4\), not 3"),
        ({"layers": 0}, "layers must be 1 or greater, not 0"),
        ({"ffn": 0}, "ffn must be 1 or greater in a model without experts"),
        ({"experts": 4}, r"experts_per_token must be from 1 to 4 \(experts\)"),
        ({"kv_lora_rank": 4}, "kv_lora_rank needs qk_nope_dim, qk_rope_dim and v_head_dim"),
        ({"sliding_layers": 1}, "sliding_window must be given"),
        ({"sliding_layers": 3}, r"sliding_layers must be from 0 to 2 \(layers\), not 3"),
        ({"dense_layers": 3}, r"dense_layers must be at most 2 \(layers\), not 3"),
    ],
)
def test_mistakes(changed: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(ModelSpec(**DENSE), **changed)
