"""Scenarios for analyses: textbook queues, and a small engine that batches."""

from typing import Any

from jaxsim.config.io import parse_scenario
from jaxsim.config.schema import Scenario


def one_group(
    *,
    rate: float,
    prompt: dict[str, Any],
    output: dict[str, Any],
    latency: dict[str, float],
    max_num_seqs: int = 64,
    num_requests: int = 100,
    seeds: int = 8,
    **sections: Any,
) -> Scenario:
    """One group of instances under Poisson arrivals."""
    scheduler = {"kind": "vllm_v1", "max_num_seqs": max_num_seqs, "async_scheduling": False, "max_model_len": 100_000}
    scheduler |= sections.pop("scheduler", {})
    group = {"latency": {"kind": "linear", **latency}, "scheduler": scheduler, **sections.pop("instance", {})}
    return parse_scenario(
        {
            "workload": {
                "kind": "synthetic",
                "num_requests": num_requests,
                "arrivals": sections.pop("arrivals", {"kind": "poisson", "rate": rate}),
                "prompt_tokens": prompt,
                "output_tokens": output,
            },
            "cluster": {"instances": [group]},
            "monte_carlo": {"seeds": seeds, **sections.pop("monte_carlo", {})},
            **sections,
        }
    )


def m_d_1(load: float, **options: Any) -> Scenario:
    """One slot, every request five iterations of 1/64 s."""
    return one_group(
        rate=load * 64 / 5,
        prompt={"kind": "fixed", "value": 1},
        output={"kind": "fixed", "value": 5},
        latency={"base_s": 2.0**-6},
        max_num_seqs=1,
        **options,
    )


def m_m_c(servers: int, load: float, **options: Any) -> Scenario:
    """`servers` slots, a geometric number of short iterations: a mean service time of 1 s."""
    return one_group(
        rate=load * servers,
        prompt={"kind": "fixed", "value": 1},
        output={"kind": "geometric", "mean": 64},
        latency={"base_s": 2.0**-6},
        max_num_seqs=servers,
        **options,
    )


def sharing(load: float, **options: Any) -> Scenario:
    """An iteration takes as long as it has tokens, with slots for everybody: processor sharing of 20-token requests."""
    return one_group(
        rate=load / 20 * 1000,
        prompt={"kind": "fixed", "value": 1},
        output={"kind": "geometric", "mean": 20},
        latency={"base_s": 0.0, "per_token_s": 1e-3},
        max_num_seqs=512,
        **options,
    )


def chat(rate: float = 20.0, **options: Any) -> Scenario:
    """A small engine with a token budget, sharing its iterations between prompts and decodes."""
    return one_group(
        rate=rate,
        prompt={"kind": "lognormal", "median": 120, "sigma": 0.8, "min": 4, "max": 1000},
        output={"kind": "lognormal", "median": 30, "sigma": 0.7, "min": 2, "max": 300},
        latency={"base_s": 5e-3, "per_token_s": 2e-5, "per_context_token_s": 1e-7, "per_prefill_pair_s": 1e-9},
        scheduler={"max_num_batched_tokens": 256},
        max_num_seqs=32,
        **options,
    )
