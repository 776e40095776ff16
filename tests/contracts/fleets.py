"""Small busy fleets of everything that is registered, and one workload for all of them."""

import random
from itertools import product
from pathlib import Path
from typing import Any

from jaxsim.cluster.routing import ROUTERS
from jaxsim.engine.policy import POLICIES
from jaxsim.latency import LATENCIES
from tests.draws import Request

TABLES = Path(__file__).parents[1] / "latency" / "data"

SCHEDULER_EXAMPLES: dict[str, dict[str, Any]] = {
    "vllm_v1": {"max_num_batched_tokens": 48, "max_num_seqs": 6, "max_model_len": 160, "async_scheduling": False},
}
LATENCY_EXAMPLES: dict[str, dict[str, Any]] = {
    "linear": {"base_s": 5e-3, "per_token_s": 2e-5, "per_context_token_s": 1e-7, "per_prefill_pair_s": 5e-9},
    "phased_linear": {
        "prefill": {"base_s": 5e-3, "per_token_s": 2e-5, "per_token_squared_s": 5e-9},
        "decode": [
            {"from_seqs": 1, "base_s": 4e-3, "per_seq_s": 3e-5, "per_context_token_s": 1e-7},
            {"from_seqs": 4, "base_s": 3e-3, "per_seq_s": 2e-4, "per_context_token_s": 2e-7},
        ],
    },
    "table": {"path": str(TABLES / "phases.csv"), "extrapolate": "clamp", "time_scale": 1.0, "host_s": 2e-4},
    "kernel_profile": {"path": str(TABLES / "profile"), "layers": 8, "extrapolate": "linear", "time_scale": 1.0},
    # a small model on a slow device, whose attention changes roofs and fills its window within a stretch
    "roofline": {
        "model": {
            "layers": 4,
            "hidden": 64,
            "heads": 8,
            "kv_heads": 2,
            "head_dim": 16,
            "ffn": 128,
            "vocab": 512,
            "experts": 4,
            "experts_per_token": 2,
            "expert_ffn": 64,
            "dense_layers": 2,
            "sliding_window": 24,
            "sliding_layers": 2,
        },
        "hardware": {
            "bf16_flops_per_s": 4e9,
            "memory_bytes_per_s": 1e9,
            "memory_bytes": 1e9,
            "compute_units": 2,
            "intra_node": {"bytes_per_s": 1e8, "latency_s": 1e-6},
        },
        "tensor_parallel": 2,
        "host_s": 3e-3,
        "efficiency": {
            **{
                kind: {"overhead_s": 1e-5}
                for kind in ("gemm", "experts", "prefill_attention", "decode_attention", "elementwise", "collective")
            },
            "prefill_tile_rows": 16,
            "mixed_layer_s": 1e-4,
        },
    },
}

KV_CACHE = {"num_blocks": 24, "block_size": 8}
COMBINATIONS = list(product(POLICIES, LATENCIES, ROUTERS))


def cluster_of(scheduler: str, latency: str, router: str) -> dict[str, Any]:
    """Two instances with so little KV memory that requests are preempted."""
    group = {
        "count": 2,
        "scheduler": {"kind": scheduler} | SCHEDULER_EXAMPLES[scheduler],
        "latency": {"kind": latency} | LATENCY_EXAMPLES[latency],
        "kv_cache": dict(KV_CACHE),
    }
    return {"router": {"kind": router}, "instances": [group]}


def slower(latency: Any, factor: float) -> Any:
    """A latency's parameters with every one that is proportional to time multiplied by `factor`."""
    if isinstance(latency, dict):
        return {key: _slower(key, value, factor) for key, value in latency.items()}
    return [slower(entry, factor) for entry in latency] if isinstance(latency, list) else latency


def _slower(key: str, value: Any, factor: float) -> Any:
    if key.endswith("_per_s"):
        return value / factor
    return factor * value if key.endswith("_s") or key == "time_scale" else slower(value, factor)


def workload(seed: int, count: int = 40) -> list[Request]:
    """Bursts and pauses; prompts and outputs from one token to most of the KV memory.

    Random routing gives both instances equally many requests, so that all fleets compile to the same few programs.
    """
    rng = random.Random(seed)
    uniforms = [(i % 2 + rng.random()) / 2 for i in range(count)]
    rng.shuffle(uniforms)
    now, requests = 0.0, []
    for uniform in uniforms:
        now += rng.choice([0.0, 0.0, 0.01, 0.05, 0.2]) * rng.random()
        prompt = rng.choice([1, 8, 48, rng.randint(1, 100)])
        output = rng.choice([1, rng.randint(1, 30), rng.randint(30, 80)])
        requests.append(Request(now, prompt, output, routing_uniform=uniform))
    return requests
