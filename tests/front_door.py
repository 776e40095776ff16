"""Short ways through jaxsim's front door for tests."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxsim.config.io import parse_scenario
from jaxsim.result import Result
from jaxsim.simulate import run
from jaxsim.workload import Requests
from tests.draws import Request

UNUSED_WORKLOAD = {
    "kind": "synthetic",
    "num_requests": 1,
    "arrivals": {"kind": "constant", "rate": 1.0},
    "prompt_tokens": {"kind": "fixed", "value": 1},
    "output_tokens": {"kind": "fixed", "value": 1},
}


def simulate(cluster: dict[str, Any], requests: Requests, *, leap: bool = True) -> Result:
    """Run given requests on a cluster in the words of a scenario file."""
    seeds = len(requests.arrival_s)
    scenario = {
        "workload": UNUSED_WORKLOAD,
        "cluster": cluster,
        "engine": {"leap": leap},
        "monte_carlo": {"seeds": seeds},
    }
    return run(parse_scenario(scenario), requests=requests)


def requests_of(*seeds: Sequence[Request]) -> Requests:
    """Drawn requests of one or more seeds (equally many each) as arrays."""
    columns = {
        name: np.array([[getattr(request, name) for request in seed] for seed in seeds])
        for name in ("arrival_s", "prompt_tokens", "output_tokens", "priority", "routing_uniform")
    }
    return Requests.from_arrays(**columns)
