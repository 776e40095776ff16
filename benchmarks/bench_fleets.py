"""Claim: a request costs the same in fleets of 4, 16 and 64 instances (within 1.5), and 8 cost at most 3.3 times one.

    python benchmarks/bench_fleets.py [--seeds 32] [--repeat 3]

Unified instances of the reference engine behind `least_outstanding`, each at the reference rate, the same number of
requests in all; and prefill and decode pools with a network between them. On one core, seconds of processor time of the
best repetition, without compiling, drawing and the summary. One instance is run in the same program as fleets, though
jaxsim has a faster one for it.
"""

import argparse
from typing import Any
from unittest import mock

import numpy as np
from machine import Timer, describe, pin
from reference import Reference, job_of

from jaxsim.cli.process import settle
from jaxsim.cluster import streams

ONE_TO_EIGHT_ASKED = 3.3
SPREAD_ASKED = 1.5
NETWORK = {"bytes_per_token": 131072, "bandwidth_bytes_per_s": 50e9, "latency_s": 5e-5, "contention": "nic"}


REQUESTS = 4000
"""Of a seed: 62 for each of 64 instances."""


def reference(rate_per_s: float, seeds: int) -> dict[str, Any]:
    """The reference scenario at a rate."""
    data = Reference(rate_per_s=rate_per_s).scenario(seeds)
    data["workload"]["num_requests"] = REQUESTS
    return data


def unified(count: int, seeds: int) -> dict[str, Any]:
    """`count` reference engines behind one router, as busy as one at the reference rate."""
    data = reference(6.0 * count, seeds)
    data["cluster"]["instances"][0]["count"] = count
    data["cluster"]["router"] = {"kind": "least_outstanding"}
    return data


def disaggregated(prefill: int, decode: int, seeds: int) -> dict[str, Any]:
    """As many requests as the prefill instances get at the reference rate."""
    data = reference(6.0 * prefill, seeds)
    instance = data["cluster"]["instances"][0]
    data["cluster"] = {
        "instances": [
            instance | {"role": "prefill", "count": prefill},
            instance | {"role": "decode", "count": decode},
        ],
        "router": {"kind": "least_outstanding"},
        "decode_router": {"kind": "least_outstanding"},
        "kv_transfer": NETWORK,
    }
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    pin(1)
    settle()
    print(describe())
    print(f"{'instances':28}{'us a request':>14}{'rounds a request':>18}{'compiling s':>13}")
    cases = {str(count): unified(count, args.seeds) for count in (1, 4, 8, 16, 64)}
    cases |= {f"{p} prefill, {d} decode": disaggregated(p, d, args.seeds) for p, d in ((1, 1), (3, 5), (24, 40))}
    places, cost_us = np.arange(args.seeds), {}
    for name, data in cases.items():
        job, timer = job_of(data), Timer()
        with mock.patch.object(streams, "can_serve", lambda fleet: False):
            _, _, first = job.simulate(places, lambda share: None)
            job.simulate(places, lambda share: None)
            for _ in range(args.repeat):
                with timer:
                    table, _, cost = job.simulate(places, lambda share: None)
        count = table.arrival_s.size
        cost_us[name] = 1e6 * timer.best_cpu_s / count
        print(f"{name:28}{cost_us[name]:14.2f}{cost.rounds / count:18.2f}{first.compile_seconds:13.1f}")
    many = [cost_us[name] for name in ("4", "16", "64")]
    print(f"8 instances to one: {cost_us['8'] / cost_us['1']:.2f} (asked: at most {ONE_TO_EIGHT_ASKED})")
    print(f"most to least of 4, 16, 64: {max(many) / min(many):.2f} (asked: at most {SPREAD_ASKED})")


if __name__ == "__main__":
    main()
