"""The engine against the oracle: every time equal to 1e-9 relative, every preemption count and emitted token equal.

Leaping sums a stretch in closed form, so an iteration may end an ulp away from where stepping puts it. An arrival that
close to an iteration's end may fall on the other side: such draws are rejected and counted (`hypothesis.event`), and
exact ties are tested with coefficients whose sums are exact in binary.
"""

import math
from bisect import bisect_left

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from jaxsim.metrics.request_table import RequestTable
from tests import draws
from tests.front_door import requests_of, simulate
from tests.oracle.fleet import Outcome
from tests.oracle.scenario import jobs_of
from tests.oracle.scenario import run as run_oracle

COUNTS = st.sampled_from([1, 6, 20])  # few shapes, so that compiles are few
TOLERANCE = 1e-9


def differences(table: RequestTable, outcome: Outcome, tolerance: float = TOLERANCE) -> list[str]:
    found = []
    for i, job in enumerate(outcome.jobs):
        times = {"first_scheduled_s": job.first_scheduled, "first_token_s": job.first_token, "finish_s": job.finish}
        for name, expected in times.items():
            got = float(getattr(table, name)[0, i])
            if math.isnan(got) != (expected is None) or abs(got - (expected or 0)) > tolerance * (expected or 0):
                found.append(f"request {i}: {name} is {got!r}, expected {expected!r}")
        counts = {"instance": job.instance, "output_tokens": job.emitted, "preemptions": job.preemptions}
        for name, count in counts.items():
            if (got := int(getattr(table, name)[0, i])) != count:
                found.append(f"request {i}: {name} is {got}, expected {count}")
    return found


def has_near_tie(outcome: Outcome) -> bool:
    """Whether a request arrived within rounding of the end of an iteration of its instance."""
    for job in outcome.jobs:
        ends = [iteration.end for iteration in outcome.instances[job.instance].iterations]
        place = bisect_left(ends, job.arrival)
        if any(abs(job.arrival - end) <= TOLERANCE * end for end in ends[max(0, place - 1) : place + 1]):
            return True
    return False


def check(case: draws.DrawnCase, leap: bool) -> None:
    outcome = run_oracle(case.cluster, jobs_of(case.requests))
    near_tie = has_near_tie(outcome)
    event(f"near tie, rejected: {near_tie}")
    assume(not near_tie)
    event(f"preemptions: {any(job.preemptions for job in outcome.jobs)}, ended {outcome.status}")
    table = simulate(case.cluster, requests_of(case.requests), leap=leap).requests
    assert differences(table, outcome) == []


@pytest.mark.parametrize("leap", [True, False], ids=["leap", "step"])
@settings(max_examples=150)
@given(data=st.data())
def test_vllm_v1(leap, data):
    check(data.draw(draws.cases(data.draw(COUNTS), draws.vllm_v1_schedulers())), leap)


@settings(max_examples=40)
@given(data=st.data())
def test_a_fleet(data):
    check(data.draw(draws.cases(20, draws.vllm_v1_schedulers(), instances=3)), leap=True)


BINARY = {
    "kind": "linear",
    "base_s": 2**-8,
    "per_token_s": 2**-14,
    "per_context_token_s": 2**-20,
    "per_prefill_pair_s": 2**-22,
}


@pytest.mark.parametrize("leap", [True, False], ids=["leap", "step"])
@settings(max_examples=60)
@given(data=st.data())
def test_exact_ties(leap, data):
    """Arrivals exactly at ends of iterations: each is placed on an end that the requests before it lead to."""
    case = data.draw(draws.cases(6, draws.vllm_v1_schedulers()))
    case.cluster["instances"][0]["latency"] = BINARY
    case.requests[0].arrival_s = 0.0
    for i in range(1, len(case.requests)):
        so_far = run_oracle(case.cluster, jobs_of(case.requests[:i])).instances[0].iterations
        ends = [it.end for it in so_far if it.end >= case.requests[i - 1].arrival_s][:8]
        case.requests[i].arrival_s = data.draw(st.sampled_from(ends or [case.requests[i - 1].arrival_s]))
    outcome = run_oracle(case.cluster, jobs_of(case.requests))
    table = simulate(case.cluster, requests_of(case.requests), leap=leap).requests
    assert differences(table, outcome, tolerance=0.0) == []
