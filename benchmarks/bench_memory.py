"""Claim: memory does not grow with the number of seeds: 10,000 seeds of 1,000 requests run within 4 GiB.

    python benchmarks/bench_memory.py [--seeds 1000 10000] [--out]

Runs the reference workload with each number of seeds in a process of its own and prints the most memory it ever held
(peak resident set). `--seeds 100000` is the large case of a summary alone. With `--out` the table of requests is
written, too, as CSV (1.3 GB for 10,000 seeds), into a temporary folder.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile

from machine import describe
from reference import NUM_REQUESTS, Reference

from jaxsim import parse_scenario, run
from jaxsim.cli.process import settle

LIMIT_GIB = 4.0


def measure(seeds: int, write: bool) -> dict[str, float]:
    """Peak memory of this process after a run, and how long it took."""
    settle()
    scenario = parse_scenario(Reference().scenario(seeds))
    with tempfile.TemporaryDirectory() as folder:
        if write:
            result = run(scenario, out=folder, requests_format="csv")
        else:
            result = run(scenario, keep_requests=False)
    return {
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20),  # Linux counts in KiB
        "run_s": result.manifest["run_seconds"],
        "total_s": result.manifest["total_seconds"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--out", action="store_true", help="write the table of requests, too")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args.out)))
        return
    print(describe())
    print(f"{'seeds':>10}{'peak GiB':>10}{'simulated in s':>16}{'in all s':>10}   (asked: within {LIMIT_GIB:g} GiB)")
    for seeds in args.seeds:
        line = [sys.executable, __file__, "--one", str(seeds), *(["--out"] if args.out else [])]
        found = json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout)
        rate = seeds * NUM_REQUESTS / found["total_s"] / 1e6
        print(
            f"{seeds:10,}{found['peak_gib']:10.2f}{found['run_s']:16.1f}{found['total_s']:10.1f}"
            f"   {rate:.2f} million requests/s in all"
        )


if __name__ == "__main__":
    main()
