"""Results to report, made without simulating."""

import dataclasses
from typing import Any

import numpy as np

from jaxsim.config.io import dump_scenario, parse_scenario
from jaxsim.metrics import RequestTable, ServiceClass
from jaxsim.result import Result
from jaxsim.specs import Slo
from tests.metrics.tables import accumulated, random_table

HOSTILE = "<script>alert('1')</script> & \"quotes\" <b>bold"


def requests_of(seeds: int = 4, requests: int = 300, instances: int = 2) -> RequestTable:
    """Requests of several lengths on several instances, some of them preempted."""
    rng = np.random.default_rng(5)
    plain = random_table(rng, seeds=seeds, requests=requests)
    shape = plain.arrival_s.shape
    return dataclasses.replace(
        plain,
        prompt_tokens=rng.lognormal(6, 1, shape).astype(np.int32) + 1,
        instance=rng.integers(0, instances, shape).astype(np.int32),
        preemptions=(rng.random(shape) < 0.4).astype(np.int32),
    )


def result_of(
    table: RequestTable | None = None,
    *,
    name: str = "a service",
    slo: dict[str, Any] | None = None,
    classes: dict[str, Slo] | None = None,
    keep: bool = True,
    warmup: int = 20,
    **manifest: Any,
) -> Result:
    """A result with that table."""
    table = requests_of() if table is None else table
    instances = int(table.instance.max(initial=0)) + 1
    if classes:
        table = dataclasses.replace(table, class_index=table.request % len(classes))
    lengths = {"kind": "fixed", "value": 10}
    scenario = parse_scenario(
        {
            "name": name,
            "workload": {
                "kind": "synthetic",
                "num_requests": table.num_requests,
                "arrivals": {"kind": "poisson", "rate": 5.0},
                "prompt_tokens": lengths,
                "output_tokens": lengths,
            },
            "slo": slo or {},
            "cluster": {
                "instances": [{"count": instances, "name": name, "latency": {"kind": "linear", "base_s": 0.01}}]
            },
            "monte_carlo": {"seeds": table.num_seeds, "warmup_requests": warmup},
        }
    )
    summary = accumulated(
        table,
        slo=scenario.slo,
        warmup_requests=warmup,
        units="seeds" if table.num_seeds > 1 else "batches",
        classes=[ServiceClass(*one) for one in (classes or {}).items()],
    ).summary()
    return Result(
        summary,
        table if keep else None,
        {
            "scenario": dump_scenario(scenario),
            "seeds": {"first": int(table.seed[0]), "count": table.num_seeds},
            "versions": {"jaxsim": "0.0", "jax": "0.0"},
            "device": {"platform": "cpu", "kind": "cpu", "workers": 1, "processes": 1},
            "input_hashes": {},
            "notices": [],
            "interrupted": False,
            "run_seconds": 0.5,
            "iterations": 1000,
            **manifest,
        },
    )
