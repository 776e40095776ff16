"""Claim: jaxsim simulates the reference workload at least as fast as a scalar loop compiled with numba.

    python benchmarks/bench_reference.py [--seeds 1024] [--repeat 5]

Both find the same: times to 1e-9 relative, preemptions exactly, on the first seeds. One core: jaxsim and the loop take
turns in one process pinned to one core, with the same requests. Both cores: jaxsim in a process that may use two. Each
process is settled like that of the command line. Rates are of the best of the repetitions, in seconds of processor
time where there is one core, by the clock where there are two; compilation, drawing and the summary are left out, and
the tables of requests are written by both. `work` is how much more processor time two cores take together for it:
at 1.0 only idle time keeps them from twice the speed, which is what other load looks like, too.
"""

import argparse
import json
import os
import subprocess
import sys

import numba_loop
import numpy as np
from machine import Timer, describe, pin
from reference import Reference

from jaxsim import parse_scenario
from jaxsim._loop import workers
from jaxsim.cli.process import settle
from jaxsim.engine.lanes import MANY_REQUESTS
from jaxsim.job import Job
from jaxsim.metrics import LaneTotals, RequestTable

CASES = {
    "6 requests/s": Reference(),
    "20 requests/s": Reference(rate_per_s=20.0),
    "6 requests/s, few KV blocks": Reference(num_blocks=576),
}
ASKED = {"6 requests/s": 1.0, "20 requests/s": 0.7, "6 requests/s, few KV blocks": 0.4}
"""Ratios to the scalar loop that were asked for, on one core."""

TWO_CORES_ASKED = 1.7


def measure(name: str, seeds: int, repeat: int, cores: int) -> dict[str, float]:
    """Requests per second of jaxsim on one or two cores, and on one of the loop."""
    pin(cores)
    settle()
    model = CASES[name]
    job = Job(parse_scenario(model.scenario(seeds)), None, workers())
    requests = job.scenario.workload.draw(job.seeds)
    job = Job(job.scenario, requests, workers())
    columns = (requests.arrival_s, requests.prompt_tokens, requests.output_tokens)
    places = np.arange(seeds)
    table, totals, cost = job.simulate(places, lambda share: None)  # compiles
    for _ in range(MANY_REQUESTS // requests.arrival_s.size + 1):  # slots as a long run has them in the end
        job.simulate(places, lambda share: None)
    loop = numba_loop.run(model, *(column[: 8 if cores > 1 else seeds] for column in columns))
    check(table, totals, loop)
    ours, theirs = Timer(), Timer()
    for _ in range(repeat):
        with ours:
            job.simulate(places, lambda share: None)
        if cores == 1:
            with theirs:
                numba_loop.run(model, *columns)
    count = requests.arrival_s.size
    return {
        "jaxsim": count / (ours.best_cpu_s if cores == 1 else ours.best_s),
        "per_core": count / ours.best_cpu_s,
        "loop": count / theirs.best_cpu_s,
        "preempted": float(np.mean(table.preemptions > 0)),
        "rounds": cost.rounds / count,
        "compile_s": cost.compile_seconds,
    }


def check(table: RequestTable, totals: LaneTotals, loop: numba_loop.Outcome) -> None:
    """Raise unless both found the same."""
    seeds = slice(len(loop.finish_s))
    for name in ("first_scheduled_s", "first_token_s", "finish_s"):
        np.testing.assert_allclose(getattr(table, name)[seeds], getattr(loop, name), rtol=1e-9, err_msg=name)
    np.testing.assert_array_equal(table.preemptions[seeds], loop.preemptions)
    np.testing.assert_allclose(totals.kv_token_seconds[seeds], loop.kv_token_seconds, rtol=1e-9)
    np.testing.assert_array_equal(totals.iterations[seeds], loop.iterations)
    np.testing.assert_array_equal(totals.itl_counts[seeds].sum(axis=1), loop.itl_counts.sum(axis=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1024)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--case", choices=CASES, help="only this one")
    parser.add_argument("--one", nargs=2, metavar=("CASE", "CORES"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one[0], args.seeds, args.repeat, int(args.one[1]))))
        return
    print(describe())
    print(f"{args.seeds} seeds of 1,000 requests, best of {args.repeat}; millions of requests/s\n")
    print(f"{'':30}{'loop':>8}{'jaxsim':>8}{'ratio':>8}{'asked':>7}{'both':>8}{'cores':>8}{'asked':>7}{'work':>7}")
    for name in [args.case] if args.case else CASES:
        one, two = (_in_process(name, cores, args) for cores in (1, 2))
        print(
            f"{name:30}{one['loop'] / 1e6:8.2f}{one['jaxsim'] / 1e6:8.2f}{one['jaxsim'] / one['loop']:8.2f}"
            f"{ASKED[name]:7.1f}{two['jaxsim'] / 1e6:8.2f}{two['jaxsim'] / one['jaxsim']:8.2f}{TWO_CORES_ASKED:7.1f}"
            f"{one['per_core'] / two['per_core']:7.2f}"
            f"   {one['rounds']:.2f} rounds a request, {one['preempted']:.1%} preempted, compiled in "
            f"{one['compile_s']:.1f} s"
        )


def _in_process(name: str, cores: int, args: argparse.Namespace) -> dict[str, float]:
    """`measure` in a process of its own, because the cores must be chosen before JAX starts."""
    line = [
        sys.executable,
        __file__,
        "--one",
        name,
        str(cores),
        "--seeds",
        str(args.seeds),
        "--repeat",
        str(args.repeat),
    ]
    settled = {**os.environ, "JAXSIM_SETTLED": "1"}  # read when jaxsim is imported, which is before `settle`
    return json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True, env=settled).stdout)


if __name__ == "__main__":
    main()
