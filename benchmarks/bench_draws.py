"""Question: do antithetic or stratified draws make the statistics of a run surer, for the same number of requests?

    python benchmarks/bench_draws.py [--groups 60] [--requests 300]

Each group is 32 seeds of the reference workload at three rates. Printed is the variance over groups of a statistic from
independent seeds over that from seeds drawn otherwise: 2 means that half the requests do. `antithetic`: pairs of seeds
with uniforms u and 1 - u. `latin`: of 32 seeds, each uniform of each request has one in every 32nd part of [0, 1).
`sobol`: scrambled Sobol points, one dimension for each uniform.
"""

import argparse
from collections.abc import Callable

import numpy as np
from machine import describe
from reference import Reference

from jaxsim.cli.process import settle

SEEDS = 32
RATES = (6.0, 20.0, 29.0)
RNG = np.random.default_rng(1)


def independent(count: int) -> np.ndarray:
    """Uniforms of gaps, prompts and outputs, `[3, SEEDS, count]`."""
    return RNG.random((3, SEEDS, count))


def antithetic(count: int) -> np.ndarray:
    half = RNG.random((3, SEEDS // 2, count))
    return np.concatenate([half, 1 - half], axis=1)


def latin(count: int) -> np.ndarray:
    part = np.argsort(RNG.random((3, SEEDS, count)), axis=1)
    return (part + RNG.random(part.shape)) / SEEDS


def sobol(count: int) -> np.ndarray:
    from scipy.stats import qmc

    points = qmc.Sobol(3 * count, scramble=True, rng=RNG).random(SEEDS)
    return points.reshape(SEEDS, count, 3).transpose(2, 0, 1)


SCHEMES: dict[str, Callable[[int], np.ndarray]] = {
    "independent": independent,
    "antithetic": antithetic,
    "latin": latin,
    "sobol": sobol,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=60)
    parser.add_argument("--requests", type=int, default=300)
    args = parser.parse_args()
    settle()
    from jaxsim import Requests, parse_scenario
    from jaxsim.simulate import run
    from jaxsim.workload import random

    print(describe())
    names = ("TTFT mean", "TTFT P50", "TTFT P99", "E2E mean", "E2E P99", "TPOT mean", "TPOT P99")
    print(f"{'rate':>5} {'':12}" + "".join(f"{name:>11}" for name in names))
    for rate in RATES:
        scenario = parse_scenario(Reference(rate_per_s=rate).scenario(SEEDS))
        lengths = scenario.workload.prompt_tokens.tokens(), scenario.workload.output_tokens.tokens()
        before: dict[str, float] = {}
        for scheme, uniforms in SCHEMES.items():
            drawn = np.concatenate([uniforms(args.requests) for _ in range(args.groups)], axis=1)
            gap, *shares = np.clip(drawn, 1e-12, 1 - 1e-12)
            with random._on_cpu_in_float64():
                tokens = [np.asarray(random._apply(of, share)) for of, share in zip(lengths, shares, strict=True)]
            arrival_s = np.cumsum(-np.log1p(-gap), axis=1) / rate
            given = Requests.from_arrays(arrival_s, *tokens, routing_uniform=0.5)
            table = run(scenario, requests=given, keep_requests=True).requests
            found = {}
            for metric in ("ttft", "e2e", "tpot"):
                values = getattr(table, f"{metric}_s").reshape(args.groups, -1)
                found[f"{metric.upper()} mean"] = np.nanmean(values, axis=1)
                for percent in (50, 99):
                    found[f"{metric.upper()} P{percent}"] = np.nanpercentile(values, percent, axis=1)
            variance = {name: float(np.var(found[name], ddof=1)) for name in names}
            before = before or variance
            print(f"{rate:5.0f} {scheme:12}" + "".join(f"{before[name] / variance[name]:11.2f}" for name in names))


if __name__ == "__main__":
    main()
