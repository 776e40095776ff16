"""Claim: a sweep of 256 points x 64 seeds x 500 requests takes at most 60 s after one compilation, and so does the
highest rate of the reference engine to 2 % at 95 %, compilation included.

    python benchmarks/bench_analysis.py [--only sweep,capacity,sensitivity,optimise,compare] [--cores 2] [--scale 1]

Each in a process of its own, settled like that of the command line. `clock` is what it took, `cpu` the processor time
of all threads (what other work on the machine does not change much), `compiling` seconds of compilation in `programs`
programs. `--scale 0.25` takes a quarter of the points, seeds or trials.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from machine import describe, pin
from reference import Reference

from jaxsim.cli.process import settle

ASKED_S = {"sweep": 60.0, "capacity": 60.0}


def reference(seeds: int, num_requests: int, **sections: Any) -> Any:
    """The reference workload, shorter, with a promise."""
    from jaxsim import parse_scenario

    data = Reference().scenario(seeds)
    data["workload"]["num_requests"] = num_requests
    return parse_scenario(data | {"slo": {"ttft_s": {"p99": 1.0}, "tpot_s": {"p99": 0.05}}} | sections)


def sweep(scale: float) -> tuple[int, str]:
    """All combinations of four keys, 256 at full scale; returns how many requests were simulated, and what came out."""
    from jaxsim.analysis.sweep import sweep

    rates = [3.0 + 0.25 * place for place in range(max(int(16 * scale), 1))]
    vary = {
        "workload.arrivals.rate": rates,
        "scheduler.max_num_batched_tokens": [256, 512, 1024, 2048],
        "latency.base_s": [4e-3, 6e-3],
        "latency.per_token_s": [1.5e-5, 2.5e-5],
    }
    answer = sweep(reference(64, 500), vary)
    return len(answer.summaries) * 64 * 500, answer.sentences[1]


def capacity(scale: float) -> tuple[int, str]:
    """The highest rate."""
    from jaxsim.analysis.capacity import capacity

    answer = capacity(reference(16, 1000), precision=0.02 / scale)
    return answer.simulated_requests, answer.sentences[0]


def sensitivity(scale: float) -> tuple[int, str]:
    """Morris screening of eight keys."""
    from jaxsim.analysis.sensitivity import sensitivity

    answer = sensitivity(reference(16, 500), method="morris", samples=max(int(10 * scale), 2))
    return answer.runs * 16 * 500, answer.sentences[0]


def optimise(scale: float) -> tuple[int, str]:
    """64 trials of three keys."""
    from jaxsim.analysis.optimise import optimise

    vary = {
        "workload.arrivals.rate": (4.0, 9.0),
        "scheduler.max_num_batched_tokens": [256, 512, 1024, 2048],
        "scheduler.max_num_seqs": (16, 256),
    }
    answer = optimise(reference(16, 500), vary, trials=max(int(64 * scale), 8))
    return sum(trial.seeds for trial in answer.trials) * 500, answer.sentences[0]


def compare(scale: float) -> tuple[int, str]:
    """Two budgets on 64 seeds."""
    from jaxsim.analysis.compare import compare
    from jaxsim.analysis.scenarios import changed

    a = reference(max(int(256 * scale), 8), 1000)
    answer = compare(a, changed(a, {"scheduler.max_num_batched_tokens": 1024}))
    return 2 * answer.differences[0].seeds * 1000, answer.sentences[1]


CASES: dict[str, Callable[[float], tuple[int, str]]] = {
    "sweep": sweep,
    "capacity": capacity,
    "sensitivity": sensitivity,
    "optimise": optimise,
    "compare": compare,
}


def measure(name: str, cores: int, scale: float) -> dict[str, Any]:
    """One case in this process, which has done nothing else."""
    pin(cores)
    settle()
    from jaxsim.engine.programs import PROGRAMS

    started, cpu = time.perf_counter(), time.process_time()
    requests, said = CASES[name](scale)
    return {
        "clock": time.perf_counter() - started,
        "cpu": time.process_time() - cpu,
        "compiling": PROGRAMS.compile_seconds,
        "programs": len(PROGRAMS),
        "requests": requests,
        "said": said,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args.cores, args.scale)))
        return
    print(describe())
    print(f"{'':12}{'clock s':>9}{'asked':>7}{'cpu s':>8}{'compiling s':>13}{'programs':>10}{'M requests':>12}")
    for name in args.only.split(","):
        line = [sys.executable, __file__, "--one", name, "--cores", str(args.cores), "--scale", str(args.scale)]
        one = json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout)
        print(
            f"{name:12}{one['clock']:9.1f}{ASKED_S.get(name) or '':>7}{one['cpu']:8.1f}{one['compiling']:13.1f}"
            f"{one['programs']:10}{one['requests'] / 1e6:12.2f}   {one['said']}"
        )


if __name__ == "__main__":
    main()
