"""Claim: a clock that names a model and a GPU costs little speed: a run takes about as long as with a linear one.

    taskset -c 0 python benchmarks/bench_roofline.py

Simulates the same requests (200 seeds of 500) with each clock on one core, twice, and prints the second time.
"""

from typing import Any

import jaxsim

SCENARIO: dict[str, Any] = {
    "workload": {
        "kind": "synthetic",
        "num_requests": 500,
        "arrivals": {"kind": "poisson", "rate": 4.0},
        "prompt_tokens": {"kind": "lognormal", "median": 512, "sigma": 1.0, "min": 1, "max": 8192},
        "output_tokens": {"kind": "lognormal", "median": 128, "sigma": 0.9, "min": 1, "max": 2048},
    },
    "cluster": {"instances": [{"scheduler": {"kind": "vllm_v1", "async_scheduling": False}}]},
    "monte_carlo": {"seeds": 200},
}
CLOCKS: dict[str, dict[str, Any]] = {
    "linear": {
        "kind": "linear",
        "base_s": 6e-3,
        "per_token_s": 2e-5,
        "per_context_token_s": 1e-8,
        "per_prefill_pair_s": 5e-10,
    },
    "roofline, llama-3.1-8b": {"kind": "roofline", "model": "llama-3.1-8b", "hardware": "h100-sxm"},
    "roofline, mixtral-8x7b": {
        "kind": "roofline",
        "model": "mixtral-8x7b",
        "hardware": "h100-sxm",
        "tensor_parallel": 4,
    },
}


def main() -> None:
    print(f"{'clock':26}{'us/request':>12}{'rounds':>10}{'iterations':>12}")
    for name, clock in CLOCKS.items():
        SCENARIO["cluster"]["instances"][0]["latency"] = clock
        scenario = jaxsim.parse_scenario(SCENARIO)
        for _ in range(2):
            facts = jaxsim.run(scenario, devices=1).manifest
        seconds = facts["run_seconds"] / (200 * 500)
        print(f"{name:26}{seconds * 1e6:12.2f}{facts['rounds']:10d}{facts['iterations']:12d}")


if __name__ == "__main__":
    main()
