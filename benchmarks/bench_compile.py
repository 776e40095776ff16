"""Claim: a run compiles in at most 5 seconds, in at most 1 with a warm `--compile-cache`; other values compile nothing.

    python benchmarks/bench_compile.py

Runs the reference workload on the command line three times, each time in a new process: without a cache, filling one,
and with it. Then, in one process, runs it at several rates, latencies and pool sizes and counts what is compiled.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe
from reference import Reference

ASKED_S = {"without a cache": 5.0, "filling a cache": None, "with the cache": 1.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    args = parser.parse_args()
    print(describe())
    print(f"{'':20}{'compiling s':>12}{'asked':>7}{'process in all s':>18}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenario = folder / "reference.yaml"
        scenario.write_text(json.dumps(Reference().scenario(args.seeds)), encoding="utf-8")  # JSON is YAML
        for case, asked in ASKED_S.items():
            cache = [] if case == "without a cache" else ["--compile-cache", str(folder / "cache")]
            line = [sys.executable, "-m", "jaxsim", "run", str(scenario), "--out", str(folder / "out"), *cache]
            started = time.perf_counter()
            subprocess.run(line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            whole = time.perf_counter() - started
            manifest = json.loads((folder / "out" / "manifest.json").read_text(encoding="utf-8"))
            print(f"{case:20}{manifest['compile_seconds']:12.2f}{asked or '':>7}{whole:18.2f}")

    from jaxsim import parse_scenario, run

    first = Reference()
    models = (first, first._replace(rate_per_s=5.0), first._replace(base_s=6e-3), first._replace(num_blocks=24_000))
    compiled = [
        run(parse_scenario(model.scenario(args.seeds)), keep_requests=False).manifest["compile_seconds"]
        for model in models
    ]
    later = ", ".join(f"{seconds:.2f}" for seconds in compiled[1:])
    print(f"other rate, latency, pool in the same process: {later} s after {compiled[0]:.2f} s")


if __name__ == "__main__":
    main()
