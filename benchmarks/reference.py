"""The reference workload and model, as numbers for a scalar loop and as a scenario for jaxsim.

Prompts lognormal(mu 6.0, sigma 0.8) in [8, 4096] and outputs lognormal(5.0, 0.8) in [2, 2048], Poisson arrivals, 1,000
requests a seed.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxsim.job import Job

NUM_REQUESTS = 1000


class Reference(NamedTuple):
    """Latency of one iteration, scheduler and KV pool."""

    rate_per_s: float = 6.0
    base_s: float = 5e-3
    per_token_s: float = 2e-5
    per_context_s: float = 5e-8
    per_pair_s: float = 5e-10
    max_num_batched_tokens: int = 512
    max_num_seqs: int = 128
    num_blocks: int = 25_000
    block_size: int = 16

    def scenario(self, seeds: int, leap: bool = True) -> dict[str, Any]:
        """The same in the words of a scenario."""
        latency = {
            "kind": "linear",
            "base_s": self.base_s,
            "per_token_s": self.per_token_s,
            "per_context_token_s": self.per_context_s,
            "per_prefill_pair_s": self.per_pair_s,
        }
        scheduler = {
            "kind": "vllm_v1",
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "max_num_seqs": self.max_num_seqs,
            "async_scheduling": False,
        }
        pool = {"num_blocks": self.num_blocks, "block_size": self.block_size}
        return {
            "name": "reference",
            "workload": {
                "kind": "synthetic",
                "num_requests": NUM_REQUESTS,
                "arrivals": {"kind": "poisson", "rate": self.rate_per_s},
                "prompt_tokens": {"kind": "lognormal", "median": math.exp(6.0), "sigma": 0.8, "min": 8, "max": 4096},
                "output_tokens": {"kind": "lognormal", "median": math.exp(5.0), "sigma": 0.8, "min": 2, "max": 2048},
            },
            "cluster": {"instances": [{"latency": latency, "scheduler": scheduler, "kv_cache": pool}]},
            "monte_carlo": {"seeds": seeds},
            "engine": {"leap": leap},
        }


def job_of(data: dict[str, Any]) -> "Job":
    """The job of a scenario, with its requests drawn."""
    from jaxsim import parse_scenario
    from jaxsim._loop import workers
    from jaxsim.job import Job

    scenario = parse_scenario(data)
    return Job(scenario, scenario.workload.draw(np.arange(scenario.monte_carlo.seeds)), workers())


def draw(model: Reference, seeds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrivals in seconds, prompt and output tokens, `[seeds, 1000]`: those jaxsim would draw."""
    from jaxsim import parse_scenario

    requests = parse_scenario(model.scenario(seeds)).workload.draw(np.arange(seeds))
    return requests.arrival_s, requests.prompt_tokens, requests.output_tokens
