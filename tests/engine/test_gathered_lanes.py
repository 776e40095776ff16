"""Lanes that take long are gathered from several tiles; what they record does not depend on it."""

from unittest import mock

import numpy as np

from jaxsim import parse_scenario, run
from jaxsim.engine import lanes
from jaxsim.result import Result

TIGHT = parse_scenario(
    {
        "workload": {
            "kind": "synthetic",
            "num_requests": 70,
            "arrivals": {"kind": "poisson", "rate": 6.0},
            "prompt_tokens": {"kind": "lognormal", "median": 30.0, "sigma": 0.8, "min": 2, "max": 150},
            "output_tokens": {"kind": "lognormal", "median": 40.0, "sigma": 0.8, "min": 2, "max": 150},
        },
        "cluster": {
            "instances": [
                {
                    "latency": {"kind": "linear", "base_s": 0.02, "per_token_s": 1e-4},
                    "scheduler": {"kind": "vllm_v1", "max_num_batched_tokens": 64},
                    "kv_cache": {"num_blocks": 80, "block_size": 4},
                }
            ]
        },
        "monte_carlo": {"seeds": 128},
    }
)


def simulated(lanes_per_tile: int) -> tuple[Result, int]:
    """The result, and how many lanes were moved to another tile, again and again counted."""
    gather = mock.Mock(wraps=lanes._gathered)
    with (
        mock.patch.object(lanes, "LANES_PER_TILE", lanes_per_tile),
        mock.patch.object(lanes, "LANE_COUNTS", (16, 128)),
        mock.patch.object(lanes, "_gathered", gather),
    ):
        result = run(TIGHT, devices=1)
    return result, sum(len(rest.lanes) for call in gather.call_args_list for rest in call.args[1])


def test_records_do_not_depend_on_who_is_gathered():
    together, none = simulated(128)
    apart, moved = simulated(16)
    assert none == 0 and moved > 20
    assert np.sum(together.requests.preemptions) > 100
    for name in ("first_scheduled_s", "first_token_s", "finish_s", "preemptions"):
        np.testing.assert_array_equal(getattr(apart.requests, name), getattr(together.requests, name))
    assert apart.summary == together.summary
