"""Claim: an accelerator simulates more than 100 million requests per second, and overtakes the CPU at some lane count.

    python benchmarks/bench_device.py [--lanes 1024 8192 65536 131072] [--seconds 60]

Runs the reference workload (1,000 requests a lane, the same few thousand drawn lanes repeated) on JAX's default device
and, for the smallest lane count, on the CPU beside it; prints requests per second of each, compilation left out. On a
machine without an accelerator it measures the CPU alone.
"""

import argparse
import time

import jax
import numpy as np
from machine import describe
from reference import NUM_REQUESTS, Reference

from jaxsim import parse_scenario
from jaxsim._loop import Worker, workers
from jaxsim.cluster.fleet import Fleet, simulate
from jaxsim.cluster.instances import InstanceGroup
from jaxsim.job import Job
from jaxsim.workload import Requests

DRAWN = 4096
"""Lanes that are drawn; more are copies of them, which cost the same to simulate."""


def requests_per_s(fleet: Fleet, places: list[Worker], seconds: float) -> float:
    """The best rate of a few runs after one that compiles."""
    simulate([fleet], places)
    best, started = 0.0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        start = time.perf_counter()
        simulate([fleet], places)
        best = max(best, fleet.requests.arrival_s.size / (time.perf_counter() - start))
    return best


def reference_fleet(lanes: int) -> Fleet:
    """One instance per lane under the reference workload."""
    job = Job(parse_scenario(Reference().scenario(min(lanes, DRAWN))), None, workers())
    drawn = job.scenario.workload.draw(job.seeds)
    again = np.arange(lanes) % len(drawn.arrival_s)
    columns = {
        name: getattr(drawn, name)[again] for name in ("arrival_s", "prompt_tokens", "output_tokens", "routing_uniform")
    }
    requests = Requests.from_arrays(**columns)
    one = job.scenario.cluster.instances[0]
    pool = one.kv_cache
    group = InstanceGroup(1, one.scheduler, one.latency, pool.num_blocks, pool.block_size, pool.watermark)
    return Fleet([group], job.scenario.cluster.router, requests, np.ones(requests.arrival_s.shape, bool), leap=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, nargs="+", default=[1024, 8192, 65_536, 131_072])
    parser.add_argument("--seconds", type=float, default=10.0, help="time to spend on each lane count")
    args = parser.parse_args()
    cpu = [Worker(jax.devices("cpu")[0], None)]
    print(f"{describe()}; default device {jax.devices()[0].device_kind}")
    for lanes in args.lanes:
        fleet = reference_fleet(lanes)
        here = requests_per_s(fleet, workers(), args.seconds)
        line = f"{lanes:>9,} lanes x {NUM_REQUESTS:,}: {here / 1e6:8.2f} million requests/s on {jax.default_backend()}"
        if jax.default_backend() != "cpu" and lanes == min(args.lanes):
            line += f", {requests_per_s(fleet, cpu, args.seconds) / 1e6:.2f} on the CPU (one stream)"
        print(line, flush=True)


if __name__ == "__main__":
    main()
