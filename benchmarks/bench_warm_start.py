"""Claim: a short run that starts warm reads what a long run does, where one that starts empty reads far too low.

    python benchmarks/bench_warm_start.py [--requests 1800000]

P99 and mean TTFT of the reference engine from seeds of 300, 3,000 and 30,000 requests that start empty, and of 300 and
3,000 that start warm, at shares of what the mean field says the engine bears. Equally many requests for each line.
"""

import argparse

from machine import describe
from reference import Reference

from jaxsim.cli.process import settle

LOADS = (0.7, 0.9, 0.95)
EMPTY, WARM = (300, 3_000, 30_000), (300, 3_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_800_000)
    args = parser.parse_args()
    settle()
    from jaxsim import parse_scenario
    from jaxsim.analysis.scenarios import at_rate, changed
    from jaxsim.mean_field import FleetField, mix_of, past_of
    from jaxsim.simulate import run

    print(describe())
    base = parse_scenario(Reference().scenario(1))
    limit = FleetField(base, mix_of(base)).limit_per_s
    print(f"{'load':>5}{'start':>7}{'requests':>10}{'before':>8}{'seeds':>7}{'mean s':>8}{'P99 s':>8}   95 % interval")
    for load in LOADS:
        for start, sizes in (("empty", EMPTY), ("warm", WARM)):
            for size in sizes:
                values = {"workload.num_requests": size, "monte_carlo.start": start}
                scenario = changed(at_rate(base, load * limit), values)
                past = past_of(scenario).requests if start == "warm" else 0
                seeds = max(args.requests // (size + past), 16)
                ttft = run(changed(scenario, {"monte_carlo.seeds": seeds}), keep_requests=False).summary["ttft_s"]
                low, high = ttft["p99_ci"]
                print(
                    f"{load:5.2f}{start:>7}{size:10,}{past:8,}{seeds:7,}{ttft['mean']:8.4f}{ttft['p99']:8.3f}   "
                    f"{low:.3f} to {high:.3f}"
                )


if __name__ == "__main__":
    main()
