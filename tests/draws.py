"""What hypothesis draws: small workloads and engines that disagree about everything a scheduler decides.

A drawn case is plain data (DESIGN's scenario keys), so that the oracle and jaxsim read the same.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

GAP_S = 3.1e-7  # arrivals are multiples of it, which no sum of the coefficients below comes near by design


@dataclass
class Request:
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    priority: int = 0
    routing_uniform: float = 0.0
    session: str | None = None
    think_s: float | None = None


@dataclass
class DrawnCase:
    cluster: dict[str, Any]
    requests: list[Request]


@st.composite
def workloads(draw, count: int, marks: list[int], max_prompt: int = 70, max_output: int = 24) -> list[Request]:
    """`count` requests; prompts like to be exact multiples of the `marks` (block size, budget), or one off."""
    near_marks = [k * mark + off for mark in marks for k in (1, 2, 3) for off in (-1, 0, 1)]
    prompts = st.one_of(
        st.just(1),
        st.sampled_from([tokens for tokens in near_marks if 1 <= tokens <= max_prompt] or [1]),
        st.integers(1, max_prompt),
    )
    outputs = st.one_of(st.just(1), st.integers(1, max_output))
    gaps = st.one_of(st.just(0), st.integers(0, draw(st.sampled_from([200, 20_000, 300_000]))))
    ticks, requests = draw(gaps), []
    for _ in range(count):
        requests.append(Request(ticks * GAP_S, draw(prompts), draw(outputs), draw(st.integers(0, 2))))
        ticks += draw(gaps)
    return requests


linear_latencies = st.fixed_dictionaries(
    {
        "kind": st.just("linear"),
        "base_s": st.sampled_from([5e-3, 1e-4]),
        "per_token_s": st.sampled_from([0.0, 2e-5]),
        "per_context_token_s": st.sampled_from([0.0, 1e-8, 3e-5]),
        "per_prefill_pair_s": st.sampled_from([0.0, 5e-10, 1e-6]),
    }
)


def vllm_v1_schedulers(**fixed: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Synchronous fcfs by default; `fixed` replaces or adds keys (values or strategies)."""
    keys: dict[str, Any] = {
        "kind": "vllm_v1",
        "max_num_batched_tokens": st.sampled_from([1, 2, 3, 5, 8, 16, 33, 64]),
        "max_num_seqs": st.integers(1, 8),
        "max_model_len": st.sampled_from([72, 80, 512]),
        "reserve_full_prompt": st.booleans(),
        "async_scheduling": False,
    } | fixed
    return st.fixed_dictionaries(
        {key: value if isinstance(value, st.SearchStrategy) else st.just(value) for key, value in keys.items()}
    )


@st.composite
def cases(
    draw, count: int, schedulers: st.SearchStrategy[dict[str, Any]], block_size: int | None = None, instances: int = 1
) -> DrawnCase:
    """A workload and a fleet on which every request can finish. Routers give each instance equally many of them."""
    scheduler = draw(schedulers)
    block_size = block_size or draw(st.sampled_from([1, 16]))
    budget = scheduler.get("max_num_batched_tokens", scheduler.get("chunk_size", block_size))
    requests = draw(workloads(count, [block_size, budget]))
    if instances > 1:
        for request, instance in zip(requests, draw(st.permutations(range(count))), strict=True):
            request.routing_uniform = (instance % instances + draw(st.sampled_from([0.0, 0.5, 0.99]))) / instances
    limit = scheduler.get("max_model_len", 10**6)
    never_fed = scheduler["kind"] == "vllm_v1"  # its last token needs no slot, and it can do with exactly what it needs
    longest = max(min(r.prompt_tokens + r.output_tokens, limit) - never_fed for r in requests)
    needed = -(-longest // block_size)
    if scheduler["kind"] == "orca":
        needed = max(needed, limit // block_size)
    spare = draw(st.one_of(st.integers(0, 3), st.integers(0, 2 * needed), st.just(10_000)))
    cluster = {
        "router": {"kind": draw(st.sampled_from(["round_robin", "random"]))},
        "instances": [
            {
                "count": instances,
                "latency": draw(linear_latencies),
                "scheduler": scheduler,
                "kv_cache": {
                    "num_blocks": needed + spare,
                    "block_size": block_size,
                    "watermark": draw(st.sampled_from([0.0, 0.1])) if scheduler["kind"] == "vllm_v1" else 0.0,
                },
            }
        ],
    }
    return DrawnCase(cluster, requests)
