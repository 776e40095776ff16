"""Claim: a production trace of some 19,000 requests runs in one lane in at most 2 seconds once compiled.

    python benchmarks/bench_trace.py [TRACE.csv] [--rate-scale 1.0] [--repeat 3]

TRACE may be of any format that `jaxsim run` reads; a small one of the examples by default. One lane cannot use the
width of the array program, so this is its least favourable case; the scalar loop of `numba_loop.py`, on the same
requests, shows what that costs.
"""

import argparse
from pathlib import Path

import numba_loop
import numpy as np
from bench_reference import check
from machine import Timer, describe, pin
from reference import Reference

from jaxsim import parse_scenario
from jaxsim._loop import workers
from jaxsim.cli.process import settle
from jaxsim.job import Job

ASKED_S = 2.0
BUNDLED = str(Path(__file__).parents[1] / "examples" / "data" / "chat_500.csv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", metavar="TRACE", nargs="?", default=BUNDLED, help="file of requests")
    parser.add_argument("--rate-scale", type=float, default=1.0)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    pin(1)
    settle()
    print(describe())
    model = Reference(max_num_batched_tokens=2048, max_num_seqs=256)
    data = model.scenario(1)
    data["workload"] = {"kind": "trace", "path": args.trace, "rate_scale": args.rate_scale}
    scenario = parse_scenario(data)
    requests = scenario.workload.draw(np.zeros(1, np.int64))
    columns = (requests.arrival_s, requests.prompt_tokens, requests.output_tokens)
    job = Job(scenario, requests, workers())
    place = np.zeros(1, np.int64)
    table, totals, cost = job.simulate(place, lambda share: None)  # compiles
    check(table, totals, numba_loop.run(model, *columns))
    ours, theirs = Timer(), Timer()
    for _ in range(args.repeat):
        with ours:
            job.simulate(place, lambda share: None)
        with theirs:
            numba_loop.run(model, *columns)
    count = requests.arrival_s.size
    print(
        f"{count:,} requests in one lane: {ours.best_cpu_s:.2f} s (asked: {ASKED_S:g}), compiled in "
        f"{cost.compile_seconds:.1f} s; {cost.rounds / count:.2f} rounds a request, "
        f"{1e6 * ours.best_cpu_s / cost.rounds:.1f} us a round; the scalar loop {1e3 * theirs.best_cpu_s:.1f} ms"
    )


if __name__ == "__main__":
    main()
