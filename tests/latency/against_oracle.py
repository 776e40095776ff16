"""A latency model in the engine against its plain-Python twin in the oracle."""

from typing import Any

from hypothesis import assume, event
from hypothesis import strategies as st

from tests.engine.test_against_oracle import differences, drawn, has_near_tie
from tests.front_door import requests_of, simulate
from tests.oracle.scenario import jobs_of
from tests.oracle.scenario import run as run_oracle

PROFILES = [(20, 5, 16, True)]
"""Programs of one shape are enough: what is under test is the clock."""


def check_times(data: st.DataObject, latency: dict[str, Any], leap: bool) -> None:
    """Every request of a drawn workload has the oracle's times."""
    case = drawn(data, PROFILES)
    case.cluster["instances"][0]["latency"] = latency
    outcome = run_oracle(case.cluster, jobs_of(case.requests))
    near_tie = has_near_tie(outcome)
    event(f"near tie, rejected: {near_tie}")
    assume(not near_tie)
    assert differences(simulate(case.cluster, requests_of(case.requests), leap=leap).requests, outcome) == []
