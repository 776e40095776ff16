"""What does the scheduler do to one workload, and what does chunked prefill buy and cost?

The chat service at 12 requests a second under every scheduler, on the same requests: how long first tokens take (TTFT)
and how long the gaps between tokens are (ITL), side by side: schedulers.png. Computing prompts whole makes those who
are reading wait for those who have just asked; computing them in chunks makes the latter wait a little longer. Chunks
longer than most prompts only take the worst gaps away.
"""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import jaxsim

SCHEDULERS: dict[str, dict[str, Any]] = {
    "static batches": {"kind": "static", "max_num_seqs": 256},
    "orca": {"kind": "orca", "max_num_seqs": 256, "max_model_len": 10240},
    "vllm_v0": {"kind": "vllm_v0", "max_num_batched_tokens": 8192},
    "sglang": {"kind": "sglang"},
    # whole prompts need a budget with room for the longest prompt beside all decodes, else it waits until none is left
    "vllm_v1, whole prompts": {"kind": "vllm_v1", "max_num_batched_tokens": 16384, "enable_chunked_prefill": False},
    "vllm_v1, chunks of 2048": {"kind": "vllm_v1", "max_num_batched_tokens": 2048},
    "vllm_v1, chunks of 512": {"kind": "vllm_v1", "max_num_batched_tokens": 512},
    "sarathi, chunks of 512": {"kind": "sarathi", "max_num_seqs": 256, "chunk_size": 512},
}
CHUNKED = ("vllm_v1, chunks", "sarathi")
AT_RIGHT: Any = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "center", "color": "#c65032"}
PERCENTILES = ("p1", "p50", "p90", "p99", "p99.9")


def scenario_of(name: str) -> jaxsim.Scenario:
    """The chat service under a scheduler; batches are composed one at a time, as all but vllm_v1 do it here."""
    scheduler = dict(SCHEDULERS[name])
    if scheduler["kind"] == "vllm_v1":
        scheduler["async_scheduling"] = False
    data = jaxsim.dump_scenario(jaxsim.load_scenario(Path(__file__).with_name("chat.yaml")))
    data["name"] = name
    data["workload"]["arrivals"]["rate"] = 12.0
    data["cluster"]["instances"][0]["scheduler"] = scheduler
    return jaxsim.parse_scenario(data)


def keeps_up(summary: Any) -> bool:
    """Whether about as many requests finish as arrive; else waits grow with the length of the run."""
    return summary["throughput_requests_per_s"] > 0.8 * summary["arrival_rate_per_s"]


def draw(summaries: dict[str, Any], title: str) -> Figure:
    """A row for each scheduler, from the fastest hundredth over the median to the slowest thousandth."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = axes = figure.subplots(1, 2, sharey=True)
    for ax, metric in zip(axes, ("ttft_s", "itl_s"), strict=True):
        for row, (name, summary) in enumerate(summaries.items()):
            ends = [1e3 * summary[metric][percentile] for percentile in PERCENTILES]
            if metric == "ttft_s" and not keeps_up(summary):
                ax.annotate(f"median {ends[1] / 1e3:,.0f} s, and growing  →", (0.98, row), **AT_RIGHT)
                continue
            colour = "#3a9c85" if name.startswith(CHUNKED) else "#c65032"
            for low, high, alpha in zip(ends, ends[1:], (0.85, 0.55, 0.3, 0.12), strict=False):
                ax.barh(row, high - low, 0.56, low, color=colour, alpha=alpha, lw=0)
            ax.plot([ends[1]] * 2, [row - 0.28, row + 0.28], color="white", lw=2)
            ax.plot([ends[3]] * 2, [row - 0.38, row + 0.38], color=colour, lw=2)
            ax.annotate(f"{ends[3]:,.0f} ms", (ends[-1], row), (5, 0), textcoords="offset points", va="center")
        ax.set(xscale="log", xlabel="milliseconds")
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="x", alpha=0.25)
        ax.set_axisbelow(True)
    left.set(title="until the first token (TTFT)", xlim=(6, 1000))
    left.set_xticks([10, 20, 50, 100, 200, 500], ["10", "20", "50", "100", "200", "500"])
    right.set(title="between tokens (ITL)", xlim=(4.5, 330))
    right.set_xticks([5, 10, 20, 50, 100, 200], ["5", "10", "20", "50", "100", "200"])
    left.set_yticks(range(len(summaries)), summaries)
    left.invert_yaxis()
    figure.suptitle(title, fontsize=13)
    key = "From P1; shades end at P50 (white line), P90, P99 (dark line, its value beside it) and P99.9."
    figure.supxlabel(f"{key}  Green: prompts in chunks. Red: whole.", fontsize=9, color="0.35")
    return figure


results = {
    name: jaxsim.run(scenario_of(name), percentiles={"ttft_s": PERCENTILES, "itl_s": PERCENTILES})
    for name in SCHEDULERS
}
summaries = {name: result.summary for name, result in results.items()}
print(f"{'milliseconds':24}{'TTFT mean':>11}{'TTFT P99':>11}{'ITL P50':>9}{'ITL P99':>9}{'ITL P99.9':>11}")
for name, summary in summaries.items():
    ttft_mean, ttft_p99 = (1e3 * summary["ttft_s"][part] for part in ("mean", "p99"))
    gaps = [1e3 * summary["itl_s"][part] for part in ("p50", "p99", "p99.9")]
    print(f"{name:24}{ttft_mean:11,.0f}{ttft_p99:11,.0f}{gaps[0]:9.1f}{gaps[1]:9.1f}{gaps[2]:11.0f}")
    if not keeps_up(summary):
        print("    does not keep up: its TTFT grows with the length of the run")

print("\nOn the same requests, prompts in chunks of 512 against whole ones (95 % intervals):")
whole, chunks = scenario_of("vllm_v1, whole prompts"), scenario_of("vllm_v1, chunks of 512")
found = jaxsim.compare(whole, chunks, ["itl_s.p99", "ttft_s.p99", "ttft_s.mean", "itl_s.mean"]).differences
for one in found:
    low, high = one.change_interval
    moved = f"{1e3 * one.a:6.1f} -> {1e3 * one.b:6.1f} ms"
    print(f"    {one.statistic.label:10}{moved}, {one.change:+.0%} ({low:+.0%} to {high:+.0%})")
itl, ttft = found[:2]
title = (
    f"Chunks of 512 cut the P99 gap between tokens from {1e3 * itl.a:.0f} to {1e3 * itl.b:.0f} ms "
    f"and raise P99 TTFT from {1e3 * ttft.a:.0f} to {1e3 * ttft.b:.0f} ms"
)
draw(summaries, title).savefig("schedulers.png", dpi=150)
