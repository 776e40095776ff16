"""Device memory: shares of the weights, overheads, KV blocks."""

import pytest

from jaxsim.specs import MemoryUse, ModelSpec, Parallelism, memory_budget, named_hardware, named_model, num_blocks

TINY = ModelSpec(name="tiny", layers=4, hidden=8, heads=4, kv_heads=2, head_dim=2, ffn=16, vocab=10)
H100 = named_hardware("h100-sxm")


def test_weights_of_a_device_by_hand() -> None:
    weights = TINY.weights()
    assert Parallelism().weight_bytes(TINY) == weights.total
    halves = Parallelism(tensor=2).weight_bytes(TINY)
    assert halves == (weights.dense + weights.embeddings) / 2 + weights.small  # norms are on every device
    # the last of three stages has 2 of 4 layers and the LM head, the first the embedding
    assert Parallelism(pipeline=3).weight_bytes(TINY) == 0.5 * (weights.dense + weights.small) + 2 * 10 * 8


def test_experts_are_shared_by_all_ranks() -> None:
    spec = named_model("mixtral-8x7b")
    weights = spec.weights()
    one, eight = Parallelism().weight_bytes(spec), Parallelism(data=8, expert=8).weight_bytes(spec)
    assert one - eight == pytest.approx(weights.routed * 7 / 8)


def test_blocks_by_hand() -> None:
    use = MemoryUse(max_num_batched_tokens=100, max_num_seqs=10, cuda_graphs_bytes=1e9, runtime_bytes=2e9)
    budget = memory_budget(TINY, H100, Parallelism(), use)
    activations = 100 * (3 * 8 + 3 * 16) * 2 + 10 * 10 * (2 + 4)
    assert budget.activations == activations
    assert budget.kv_bytes_per_token == 4 * 2 * 2 * 2 * 2
    left = 0.9 * H100.memory_bytes - TINY.weights().total - activations - 3e9
    assert budget.num_blocks(16) == int(left // (16 * 64))
    assert num_blocks(TINY, H100, use=use) == budget.num_blocks(16)


@pytest.mark.parametrize(("name", "tensor"), [("llama-3.1-8b", 1), ("llama-3.1-70b", 4), ("mixtral-8x7b", 2)])
@pytest.mark.parametrize("max_num_batched_tokens", [2048, 8192])
def test_overheads_are_what_servers_were_measured_to_have(name: str, tensor: int, max_num_batched_tokens: int) -> None:
    use = MemoryUse(max_num_batched_tokens=max_num_batched_tokens)
    overhead = memory_budget(named_model(name), H100, Parallelism(tensor=tensor), use).overhead
    assert 1.2e9 <= overhead <= 2.4e9


def test_layers_with_a_window_keep_no_more_than_it() -> None:
    spec = named_model("gpt-oss-20b")  # every other layer has a window of 128
    budget = memory_budget(spec, H100, Parallelism(), MemoryUse(typical_context_tokens=1280))
    assert budget.kv_bytes_per_token == pytest.approx(spec.kv_bytes_per_token() * (0.5 + 0.5 * 0.1))


def test_a_model_that_does_not_fit_is_refused() -> None:
    with pytest.raises(
        ValueError, match="llama-3.1-70b leaves no memory for KV blocks on h100-sxm: weights take 141.1"
    ):
        num_blocks(named_model("llama-3.1-70b"), H100)


@pytest.mark.parametrize(
    ("parallel", "name", "message"),
    [
        (Parallelism(tensor=3), "llama-3.1-8b", "tensor_parallel must divide the 32 heads of llama-3.1-8b, not 3"),
        (Parallelism(pipeline=33), "llama-3.1-8b", "pipeline_parallel must be at most the 32 layers"),
        (Parallelism(expert=2), "mixtral-8x7b", r"expert_parallel must divide tensor_parallel \* data_parallel \(1\)"),
        (Parallelism(tensor=2, expert=2), "llama-3.1-8b", "expert_parallel must be 1: llama-3.1-8b has no experts"),
        (
            Parallelism(tensor=16, expert=16),
            "mixtral-8x7b",
            "expert_parallel must divide the 8 experts of mixtral-8x7b",
        ),
        (Parallelism(data=2), "llama-3.1-8b", "data_parallel must be 1: ranks of llama-3.1-8b share nothing"),
    ],
)
def test_splits_that_cannot_be(parallel: Parallelism, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parallel.check(named_model(name))


def test_shares_of_memory_are_shares() -> None:
    with pytest.raises(ValueError, match=r"gpu_memory_utilization must be a share in \(0, 1\], not 1.5"):
        MemoryUse(gpu_memory_utilization=1.5)
