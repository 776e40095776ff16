"""Every kind of mistake in a scenario, with the exact words of the answer."""

import copy
from pathlib import Path
from typing import Any

import pytest

from jaxsim.config.errors import ScenarioError
from jaxsim.config.io import parse_scenario
from tests.snapshots import check_snapshot

SCENARIO: dict[str, Any] = {
    "workload": {
        "kind": "synthetic",
        "num_requests": 100,
        "arrivals": {"kind": "poisson", "rate": 4.0},
        "prompt_tokens": {"kind": "fixed", "value": 100},
        "output_tokens": {"kind": "uniform", "min": 2, "max": 20},
    },
    "cluster": {
        "instances": [
            {
                "latency": {"kind": "linear", "base_s": 0.005, "per_token_s": 2e-05},
                "scheduler": {"kind": "vllm_v1", "async_scheduling": False},
                "kv_cache": {"num_blocks": 1000},
            }
        ]
    },
}
DELETE = object()
GROUP = "cluster.instances.0"


def changed(key: str, value: Any) -> dict[str, Any]:
    """The scenario with one key changed, added or deleted."""
    data = copy.deepcopy(SCENARIO)
    node: Any = data
    *path, last = [int(part) if part.isdecimal() else part for part in key.split(".")]
    for part in path:
        node = node.setdefault(part, {}) if isinstance(node, dict) else node[part]
    if value is DELETE:
        del node[last]
    else:
        node[last] = value
    return data


def test_the_scenario_itself_is_valid() -> None:
    assert parse_scenario(SCENARIO).workload.num_requests == 100


@pytest.mark.parametrize(
    ("key", "value"),
    [
        # keys that are not there
        ("wrokload", {}),
        ("workload.zzz", 1),
        ("workload.arrivals.rat", 4),
        (f"{GROUP}.kv_cache.blocks", 4),
        (f"{GROUP}.scheduler.max_num_seq", 4),
        ("monte_carlo.7", 4),
        ("workload", DELETE),
        ("workload.kind", DELETE),
        ("workload.num_requests", DELETE),
        ("workload.arrivals.rate", DELETE),
        ("cluster", DELETE),
        (f"{GROUP}.latency", DELETE),
        # values
        ("workload.classes", []),
        (f"{GROUP}.scheduler.enable_prefix_caching", True),
        # fleets
        ("cluster.kv_transfer", {"latency_s": -1}),
        ("cluster.kv_transfer", {"bandwidth_bytes_per_s": 0}),
        ("cluster.kv_transfer", {"contention": "bus"}),
        ("cluster.decode_router", {"kind": "central_queue"}),
        ("cluster.role_switching", {}),
        ("cluster.role_switching", {"queue_tokens_high": 10, "queue_tokens_low": 20}),
        ("cluster.role_switching", {"queue_tokens_high": 20, "queue_tokens_low": 10}),
        (f"{GROUP}.unavailable", [[2, 1]]),
        (f"{GROUP}.unavailable", [[0, 2], [1, 3]]),
        (f"{GROUP}.on_failure", "retry"),
        (f"{GROUP}.role", "prefill"),
        (f"{GROUP}.role", "decode"),
        (f"{GROUP}.scheduler", {"kind": "sarathi", "chunk": 512}),
        (f"{GROUP}.scheduler", {"kind": "sglang", "conservativeness": 0}),
        (f"{GROUP}.scheduler.queue_order", "lifo"),
        ("cluster.router", {"kind": "least_waiting", "staleness_s": -1}),
        ("cluster.router", {"kind": "weighted_capacity", "weights": [1, 2]}),
        ("cluster.router", {"kind": "weighted_capacity", "weights": [0]}),
        ("workload.arrivals", {"kind": "closed_loop", "concurrency": 0}),
        ("workload.arrivals", {"kind": "closed_loop", "concurrency": 4, "think_time_s": -1}),
        ("workload.arrivals.max_in_flight", 0),
        ("monte_carlo.start", "hot"),
        # kinds
        ("workload.kind", "sintetic"),
        ("workload.arrivals.kind", "poison"),
        ("workload.arrivals.kind", 3),
        ("workload.arrivals", "poisson"),
        ("workload.arrivals", None),
        ("cluster.router", {"kind": "zzz"}),
        # types
        ("name", 8),
        ("workload.num_requests", "many"),
        ("workload.num_requests", 1.5),
        ("workload.num_requests", True),
        ("workload.num_requests", None),
        ("workload.arrivals.rate", "abc"),
        ("workload.arrivals.rate", True),
        ("workload.arrivals.rate", [4.0]),
        ("workload.arrivals.rate", {"mean": 4.0}),
        ("engine.leap", "yes"),
        ("engine.leap", 1),
        ("engine", []),
        ("cluster.instances", {"latency": {}}),
        ("cluster.instances", [1]),
        ("slo.ttft_s", [1.0]),
        ("slo.ttft_s", {"p99": "fast"}),
        ("slo.ttft_s", {99: 1.0}),
        ("workload.arrivals", {"kind": "piecewise", "times_s": 3, "rates": [1]}),
        ("workload.arrivals", {"kind": "piecewise", "times_s": [0, "x"], "rates": [1]}),
        (f"{GROUP}.scheduler.policy", "lifo"),
        (f"{GROUP}.role", ["unified"]),
        # ranges
        ("workload.num_requests", 0),
        ("workload.num_requests", 10**12),
        ("workload.arrivals.rate", -1),
        ("workload.arrivals.rate", 0),
        ("workload.arrivals.rate", float("nan")),
        ("workload.arrivals.rate", float("inf")),
        ("workload.prompt_tokens.value", -5),
        ("workload.output_tokens.min", 0),
        ("workload.output_tokens.max", 1),
        ("slo.ttft_s", 0),
        ("slo.ttft_s", {"p100": 1.0}),
        ("slo.ttft_s", {}),
        ("slo.percentile", 100),
        ("slo.attainment", 1.5),
        (f"{GROUP}.count", 0),
        (f"{GROUP}.cost_per_hour", -1),
        (f"{GROUP}.kv_cache.num_blocks", 0),
        (f"{GROUP}.kv_cache.block_size", 0),
        (f"{GROUP}.kv_cache.watermark", 1),
        (f"{GROUP}.latency.base_s", -0.1),
        (f"{GROUP}.scheduler.max_num_seqs", 0),
        ("cluster.instances", []),
        ("monte_carlo.seeds", 0),
        ("monte_carlo.seeds", 2**31),
        ("monte_carlo.first_seed", -1),
        ("monte_carlo.warmup_requests", -1),
        # combinations
        (f"{GROUP}.latency", {"kind": "linear", "base_s": 0}),
        ("workload.arrivals", {"kind": "markov", "rates": [1], "switch_rates": [1]}),
        ("workload.prompt_tokens", {"kind": "empirical"}),
    ],
)
def test_message(key: str, value: Any) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(changed(key, value))
    title = f"without {key}" if value is DELETE else f"{key}: {value!r}"
    check_snapshot(Path(__file__).with_suffix(".txt"), title, str(caught.value))
