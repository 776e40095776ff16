"""Small busy fleets of everything that is registered, and one workload for all of them.

A fleet has one instance of every scheduler, each with its own latency model and queue order, behind one router: six
combinations in one compiled program.
"""

import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from jaxsim.cluster.routing import ROUTERS
from jaxsim.engine.policy import POLICIES
from jaxsim.latency import LATENCIES
from tests.draws import QUEUE_ORDERS, Request

TABLES = Path(__file__).parents[1] / "latency" / "data"

SCHEDULER_EXAMPLES: dict[str, dict[str, Any]] = {
    "vllm_v1": {"max_num_batched_tokens": 48, "max_num_seqs": 6, "max_model_len": 160},
    "vllm_v0": {"max_num_batched_tokens": 192, "max_num_seqs": 6},
    "sarathi": {"chunk_size": 48, "max_num_seqs": 6},
    "orca": {"max_model_len": 184, "max_num_seqs": 6},
    "static": {"max_num_seqs": 6},
    "sglang": {"chunked_prefill_size": 48, "max_running_requests": 6, "conservativeness": 0.3},
}
NEVER_PREEMPT = ("orca", "static")
ROUTER_EXAMPLES: dict[str, dict[str, Any]] = {
    "least_outstanding": {"staleness_s": 0.1},
    "weighted_capacity": {"weights": [1.0, 2.0, 0.5, 1.0, 1.0, 2.0]},
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


class Mix(NamedTuple):
    """A router, and how latency models and queue orders are dealt out to the schedulers.

    Scheduler `p` gets latency `p + latencies` and order `2 p + orders`, counted round: all `latencies` and `orders`
    together make every scheduler meet every pair of the two.
    """

    router: str
    latencies: int
    orders: int

    @property
    def groups(self) -> list[tuple[str, str, str]]:
        """Scheduler, latency model and queue order of every instance; instances that share a queue share its order."""
        models, central = list(LATENCIES), self.router == "central_queue"
        return [
            (
                scheduler,
                models[(place + self.latencies) % len(models)],
                QUEUE_ORDERS[(self.orders if central else 2 * place + self.orders) % len(QUEUE_ORDERS)],
            )
            for place, scheduler in enumerate(POLICIES)
        ]

    @property
    def cluster(self) -> dict[str, Any]:
        """With so little KV memory that requests are preempted."""
        groups = [
            {
                "scheduler": {"kind": scheduler, "queue_order": order} | SCHEDULER_EXAMPLES[scheduler],
                "latency": {"kind": latency} | LATENCY_EXAMPLES[latency],
                "kv_cache": dict(KV_CACHE),
            }
            for scheduler, latency, order in self.groups
        ]
        return {"router": {"kind": self.router} | ROUTER_EXAMPLES.get(self.router, {}), "instances": groups}


def pairwise() -> list[Mix]:
    """One fleet for each router, in which all pairs of scheduler, latency model, router and queue order occur; but of
    the central queue only one order."""
    size = len(LATENCIES)
    return [Mix(router, place % size, (place + place // size) % size) for place, router in enumerate(ROUTERS)]


def full() -> list[Mix]:
    """All combinations of scheduler, latency model, router and queue order."""
    return [Mix(*one) for one in product(ROUTERS, range(len(LATENCIES)), range(len(QUEUE_ORDERS)))]


def combinations(mixes: list[Mix]) -> Iterator[dict[str, str]]:
    """What occurs together in some fleets."""
    for mix in mixes:
        for scheduler, latency, order in mix.groups:
            yield {"scheduler": scheduler, "latency": latency, "order": order, "router": mix.router}


def slower(config: Any, factor: float) -> Any:
    """A configuration with every number that is proportional to time multiplied by `factor`."""
    if isinstance(config, dict):
        return {key: _slower(key, value, factor) for key, value in config.items()}
    return [slower(entry, factor) for entry in config] if isinstance(config, list) else config


def _slower(key: str, value: Any, factor: float) -> Any:
    if key.endswith("_per_s"):
        return value / factor
    return factor * value if key.endswith("_s") or key == "time_scale" else slower(value, factor)


def workload(seed: int, count: int = 72) -> list[Request]:
    """Bursts and pauses; prompts and outputs from one token to most of the KV memory."""
    rng = random.Random(seed)
    now, requests = 0.0, []
    for place in range(count):
        now += rng.choice([0.0, 0.0, 0.01, 0.03]) * rng.random()
        prompt = rng.choice([1, 8, 48, rng.randint(1, 100)])
        output = rng.choice([1, rng.randint(1, 30), rng.randint(30, 80)])
        session = f"s{place % 9}"
        requests.append(Request(now, prompt, output, rng.randint(0, 2), routing_uniform=rng.random(), session=session))
    return requests
