"""Users who wait for answers: what the front end of an engine costs them, and how many requests are under way."""

import numpy as np
import pytest

from jaxsim.config.io import parse_scenario
from jaxsim.metrics.request_table import RequestTable
from jaxsim.simulate import run

USERS, THINK_S = 3, 0.1


@pytest.fixture(scope="module", params=[0.0, 0.05])
def served(request: pytest.FixtureRequest) -> tuple[float, RequestTable]:
    """Forty requests of three users, and the delay of the front end."""
    latency = {"kind": "roofline", "model": "llama-3.1-8b", "hardware": "h100-sxm", "front_end_s": request.param}
    arrivals = {"kind": "closed_loop", "concurrency": USERS, "think_time_s": THINK_S}
    lengths = {"prompt_tokens": {"kind": "fixed", "value": 100}, "output_tokens": {"kind": "fixed", "value": 5}}
    workload = {"kind": "synthetic", "num_requests": 40, "arrivals": arrivals, **lengths}
    scenario = parse_scenario({"workload": workload, "cluster": {"instances": [{"latency": latency}]}})
    table = run(scenario).requests
    assert table is not None and table.completed.all()
    return request.param, table


def test_the_front_end_delays_every_request(served: tuple[float, RequestTable]) -> None:
    front_end_s, table = served
    assert np.all(table.queue_s > front_end_s - 1e-9)
    assert table.queue_s[0, 0] == pytest.approx(front_end_s)


def test_a_user_asks_again_when_it_has_thought(served: tuple[float, RequestTable]) -> None:
    _, table = served
    asked, answered = table.arrival_s[0], np.sort(table.finish_s[0])
    assert np.all(asked[:USERS] == 0)
    assert asked[USERS:] == pytest.approx(answered[: len(asked) - USERS] + THINK_S, abs=1e-9)
