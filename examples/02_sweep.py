"""What does max_num_batched_tokens trade, and how does that depend on the load?

A larger token budget serves prompts sooner and lengthens the iterations that decodes wait for. Four budgets under three
loads, on the same requests, with the Pareto front of goodput against P99 TPOT: sweep.png. The same from the shell:
jaxsim sweep examples/chat.yaml --latency tpot_s.p99 --vary scheduler.max_num_batched_tokens=256,512,1024,2048 ...
"""

from pathlib import Path

import jaxsim

scenario = jaxsim.load_scenario(Path(__file__).with_name("chat.yaml"), ["monte_carlo.seeds=8"])
answer = jaxsim.sweep(
    scenario,
    {"scheduler.max_num_batched_tokens": [256, 512, 1024, 2048], "workload.arrivals.rate": [12, 24, 32]},
    latency="tpot_s.p99",
)
print(answer)
columns = [*answer.keys, "ttft_s.p99", "tpot_s.p99", "goodput_per_accelerator", "pareto"]
print(answer.to_pandas()[columns].to_string(index=False))
answer.plot().figure.savefig("sweep.png", dpi=150)
