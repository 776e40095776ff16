"""Claim: leaping over iterations in which nothing changes makes jaxsim at least 5 times as fast, and changes nothing.

    python benchmarks/bench_leap.py [--seeds 384] [--repeat 3]

Eight requests run at a time (a queue that is never empty, `max_num_seqs: 8`), with 200 output tokens on average. The
same requests are simulated leaping and stepping, in turns, on one core; finish times agree to 1e-9 relative.
"""

import argparse

import numpy as np
from machine import Timer, describe, pin
from reference import Reference, job_of

from jaxsim.cli.process import settle

ASKED = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=384)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    pin(1)
    settle()
    print(describe())
    places = np.arange(args.seeds)
    runs = {}
    for name in ("leaping", "stepping"):
        data = Reference(max_num_seqs=8).scenario(args.seeds, leap=name == "leaping")
        data["workload"] |= {
            "num_requests": args.requests,
            "arrivals": {"kind": "burst", "size": args.requests, "interval_s": 1.0},
            "prompt_tokens": {"kind": "uniform", "min": 50, "max": 350},
            "output_tokens": {"kind": "uniform", "min": 100, "max": 300},
        }
        job = job_of(data)
        runs[name] = job, Timer(), job.simulate(places, lambda share: None)  # compiles
    (leap_table, leap_totals, _), (step_table, step_totals, _) = (found for _, _, found in runs.values())
    np.testing.assert_allclose(leap_table.finish_s, step_table.finish_s, rtol=1e-9)
    np.testing.assert_array_equal(leap_totals.iterations, step_totals.iterations)
    for _ in range(args.repeat):
        for job, timer, _ in runs.values():
            with timer:
                job.simulate(places, lambda share: None)
    count = args.seeds * args.requests
    rates = {name: count / timer.best_cpu_s for name, (_, timer, _) in runs.items()}
    for name, (_, _, (_, totals, cost)) in runs.items():
        print(
            f"{name:10}{rates[name] / 1e6:7.3f} million requests/s, {cost.rounds / count:6.1f} rounds and "
            f"{totals.iterations.sum() / count:6.1f} iterations a request"
        )
    print(f"ratio {rates['leaping'] / rates['stepping']:.1f} (asked: {ASKED:g})")


if __name__ == "__main__":
    main()
