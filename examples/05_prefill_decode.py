"""How many of six instances should prefill, and when does it pay to divide them at all?

A 70B model on four H100s an instance, every split of six instances into those that prefill and those that decode
against six that do both (with prompts in chunks), for prompts of 1,000 and of 8,000 tokens, over a fast and a slow
network: the highest rate at which 99 % of the first tokens come within two seconds, transfer of the KV cache included,
and 99 % of the requests read a token every 35 ms: prefill_decode.png. Long prompts hold up who is reading, so that
taking them elsewhere pays; but their KV cache must follow, and a slow network carries less than one instance computes.
"""

import math
from typing import Any

from matplotlib.figure import Figure

import jaxsim
from jaxsim.simulate import run_many

INSTANCES = 6
PROMPTS = {"prompts of 1,000 tokens": 1_000, "prompts of 8,000 tokens": 8_000}
NETWORKS = {"25 GB/s": 25e9, "3 GB/s": 3e9}
TTFT_S, TPOT_S = 2.0, 0.035
RATES = [4 * 1.6**step for step in range(7)]
"""Requests per second for prompts of 1,000 tokens; an eighth of them for those of 8,000."""


def scenario_of(prefill: int, prompt_tokens: int, bytes_per_s: float, rate: float) -> jaxsim.Scenario:
    """So many prefill instances, the others decode; none: all do both."""
    instance: dict[str, Any] = {
        "latency": {"kind": "roofline", "model": "llama-3.1-70b", "hardware": "h100-sxm", "tensor_parallel": 4},
        "scheduler": {
            "kind": "vllm_v1",
            "max_num_batched_tokens": 2048,
            "max_num_seqs": 128,
            "async_scheduling": False,
        },
    }
    roles = {"prefill": prefill, "decode": INSTANCES - prefill} if prefill else {"unified": INSTANCES}
    cluster: dict[str, Any] = {
        "router": {"kind": "least_outstanding"},
        "instances": [instance | {"role": role, "count": count} for role, count in roles.items()],
    }
    if prefill:
        cluster["decode_router"] = {"kind": "least_outstanding"}
        cluster["kv_transfer"] = {"bandwidth_bytes_per_s": bytes_per_s, "latency_s": 1e-3, "contention": "nic"}
    return jaxsim.parse_scenario(
        {
            "name": f"{prefill} of {INSTANCES} prefill",
            "workload": {
                "kind": "synthetic",
                "num_requests": 1000,
                "arrivals": {"kind": "poisson", "rate": rate},
                "prompt_tokens": {"kind": "uniform", "min": prompt_tokens // 2, "max": 3 * prompt_tokens // 2},
                "output_tokens": {"kind": "lognormal", "median": 200, "sigma": 0.6, "min": 2, "max": 1000},
            },
            "cluster": cluster,
            "monte_carlo": {"seeds": 1, "warmup_requests": 100},
        }
    )


def excess(result: jaxsim.Result) -> float:
    """By how much the worse of the two promises is missed; below 1 both are kept."""
    ttft = result.summary.get("ttft_with_transfer_s", result.summary["ttft_s"])
    return max(ttft["p99"] / TTFT_S, result.summary["tpot_s"]["p99"] / TPOT_S)


def highest(rates: list[float], found: list[float]) -> float:
    """The rate at which the excess first becomes 1, on a straight line between logarithms; 0 if it always is more."""
    if found[0] > 1:
        return 0.0
    for low, high, below, above in zip(rates, rates[1:], found, found[1:], strict=False):
        if above > 1:
            share = math.log(1 / below) / math.log(above / below)
            return low * (high / low) ** share
    return rates[-1]


figure = Figure(figsize=(10, 4.2), layout="constrained")
for ax, (title, prompt_tokens) in zip(figure.subplots(1, 2), PROMPTS.items(), strict=True):
    rates = [rate * 1_000 / prompt_tokens for rate in RATES]
    fleets = [(split, name) for name in NETWORKS for split in range(1, INSTANCES)] + [(0, "")]
    scenarios = [
        scenario_of(split, prompt_tokens, NETWORKS.get(name, 0.0), rate) for split, name in fleets for rate in rates
    ]
    excesses = [excess(result) for result in run_many(scenarios)]
    best = {
        fleet: highest(rates, excesses[place * len(rates) : (place + 1) * len(rates)])
        for place, fleet in enumerate(fleets)
    }
    together = best[0, ""]
    print(f"{title}: {together:.1f} requests/s where all {INSTANCES} instances do both")
    ax.axhline(together, color="0.4", lw=1.5, ls="--")
    ax.annotate("all do both, prompts in chunks", (0.75, together), (0, 4), textcoords="offset points")
    for name, colour in zip(NETWORKS, ("#3a9c85", "#c65032"), strict=True):
        line = [best[split, name] for split in range(1, INSTANCES)]
        top = max(range(1, INSTANCES), key=lambda split, name=name: best[split, name])
        gain = best[top, name] / together - 1
        best_of = f"best with {top} prefilling, {best[top, name]:.1f} requests/s ({gain:+.0%})"
        print(f"    {name}: {best_of if best[top, name] else f'no split bears {rates[0]:.1f} requests/s'}")
        ax.plot(range(1, INSTANCES), line, "o-", color=colour, label=f"divided, {name} to each instance")
    ax.set(title=title, xlabel=f"instances of {INSTANCES} that prefill", xlim=(0.7, INSTANCES - 0.7), ylim=(0, None))
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", alpha=0.25)
figure.axes[0].legend(frameon=False)
figure.axes[0].set_ylabel("requests/s with P99 TTFT ≤ 2 s, P99 TPOT ≤ 35 ms")
figure.savefig("prefill_decode.png", dpi=150)
