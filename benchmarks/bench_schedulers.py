"""Claim: every scheduler compiles in at most 15 seconds; asynchronous scheduling runs at 0.7 of synchronous or more.

    python benchmarks/bench_schedulers.py [--seeds 128] [--repeat 3]

The reference workload under each scheduler, leaping, on one core, in seconds of processor time: rates are of the best
repetition, without drawing and the summary; compiling is what the first run takes more, for one or two widths of slots.
`single stream`: in the program for instances of `vllm_v1` whose queue is first come, first served; the others run in
the one for whole fleets.
"""

import argparse
from typing import Any

import numpy as np
from machine import Timer, describe, pin
from reference import Reference, job_of

from jaxsim.cli.process import settle

COMPILE_ASKED_S = 15.0
ASYNCHRONOUS_ASKED = 0.7

SYNCHRONOUS = "vllm_v1 (single stream)"
ASYNCHRONOUS = "  asynchronous (single stream)"
VLLM_V1 = {"kind": "vllm_v1", "max_num_batched_tokens": 512, "max_num_seqs": 128, "async_scheduling": False}
SCHEDULERS: dict[str, dict[str, Any]] = {
    SYNCHRONOUS: VLLM_V1,
    ASYNCHRONOUS: VLLM_V1 | {"async_scheduling": True},
    "vllm_v1, priority": VLLM_V1 | {"policy": "priority"},
    "vllm_v1, shortest_job": VLLM_V1 | {"queue_order": "shortest_job"},
    "  asynchronous": VLLM_V1 | {"queue_order": "shortest_job", "async_scheduling": True},
    "vllm_v0": {"kind": "vllm_v0", "max_num_batched_tokens": 4096, "max_num_seqs": 128},
    "sarathi": {"kind": "sarathi", "chunk_size": 512, "max_num_seqs": 128},
    "orca": {"kind": "orca", "max_model_len": 6144, "max_num_seqs": 128},
    "static": {"kind": "static", "max_num_seqs": 128},
    "sglang": {"kind": "sglang", "chunked_prefill_size": 512, "max_running_requests": 128},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    pin(1)
    settle()
    print(describe())
    print(f"{'':32}{'requests/s':>12}{'rounds a request':>18}{'compiling s':>13}{'E2E P99 s':>11}")
    places = np.arange(args.seeds)
    rates = {}
    for name, scheduler in SCHEDULERS.items():
        data = Reference().scenario(args.seeds)
        data["cluster"]["instances"][0]["scheduler"] = scheduler
        job, first, timer = job_of(data), Timer(), Timer()
        with first:
            table, _, _ = job.simulate(places, lambda share: None)
        job.simulate(places, lambda share: None)  # with as many slots as the first time showed to be enough
        for _ in range(args.repeat):
            with timer:
                _, _, cost = job.simulate(places, lambda share: None)
        count, late_s = table.arrival_s.size, np.nanpercentile(table.finish_s - table.arrival_s, 99)
        rates[name], compiling_s = count / timer.best_cpu_s, first.best_cpu_s - timer.best_cpu_s
        verdict = " (asked: at most 15)" if compiling_s > COMPILE_ASKED_S else ""
        print(f"{name:32}{rates[name]:12,.0f}{cost.rounds / count:18.2f}{compiling_s:13.1f}{late_s:11.1f}{verdict}")
    print(
        f"asynchronous to synchronous {rates[ASYNCHRONOUS] / rates[SYNCHRONOUS]:.2f}, in the program for fleets "
        f"{rates['  asynchronous'] / rates['vllm_v1, shortest_job']:.2f} (asked: {ASYNCHRONOUS_ASKED})"
    )


if __name__ == "__main__":
    main()
