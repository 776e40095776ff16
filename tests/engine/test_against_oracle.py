"""The engine against the oracle: every time equal to 1e-9 relative, every preemption count and emitted token equal.

Leaping sums a stretch in closed form, so an iteration may end an ulp away from where stepping puts it. An arrival that
close to an iteration's end may fall on the other side: such draws are rejected and counted (`hypothesis.event`), and
exact ties are tested with coefficients whose sums are exact in binary.
"""

import math
from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from jaxsim._status import RequestStatus
from jaxsim.result import Result
from tests import draws
from tests.engine.agreement import TOLERANCE, differences
from tests.front_door import requests_of, simulate
from tests.oracle.fleet import Outcome
from tests.oracle.scenario import jobs_of
from tests.oracle.scenario import run as run_oracle

# Requests, slots, block size, reserve_full_prompt: they shape the compiled program, so they come in few combinations.
PROFILES = [
    (1, 1, 16, True),
    (6, 1, 1, False),
    (6, 8, 16, False),
    (20, 3, 1, False),
    (20, 5, 16, True),
    (20, 8, 1, True),
]
EVERY_PROFILE = [
    (n, s, b, r) for n in (1, 6, 20) for s in range(1, min(n, 8) + 1) for b in (1, 16) for r in (True, False)
]
both_ways = pytest.mark.parametrize("leap", [True, False], ids=["leap", "step"])


def total_differences(result: Result, outcome: Outcome) -> list[str]:
    """What lanes add up to: iterations, recomputed tokens, the KV integral and the gaps between tokens."""
    iterations = [i for instance in outcome.instances for i in instance.iterations]
    capacity = sum(instance.scheduler.capacity * instance.scheduler.block_size for instance in outcome.instances)
    kv_token_seconds = sum(instance.kv_token_seconds for instance in outcome.instances)
    gaps = [b - a for job in outcome.jobs for a, b in zip(job.token_times, job.token_times[1:], strict=False)]
    expected = {
        "iterations": (result.manifest["iterations"], len(iterations)),
        "recomputed_tokens": (result.summary["recomputed_tokens"], sum(job.recomputed for job in outcome.jobs)),
        "preemptions": (result.summary["preemptions"], sum(job.preemptions for job in outcome.jobs)),
        "kv_utilisation": (
            result.summary["kv_utilisation"],
            kv_token_seconds / (capacity * max(i.end for i in iterations)),
        ),
        "gaps": (result.summary["itl_s"]["count"], len(gaps)),
    }
    itl = result.summary["itl_s"]
    if gaps:
        expected["mean gap"] = (itl["mean"], sum(gaps) / len(gaps))
    found = [
        f"{name} is {got}, expected {want}"
        for name, (got, want) in expected.items()
        if not math.isclose(got, want, rel_tol=TOLERANCE)
    ]
    for percent in (50, 90, 95, 99) if gaps else ():
        low, high = (np.percentile(gaps, percent, method=way) for way in ("lower", "higher"))
        got, error = itl[f"p{percent}"], itl["relative_error"]
        if not low * (1 - error) <= got <= high * (1 + error):
            found.append(f"ITL p{percent} is {got}, expected {low} to {high}")
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
    result = simulate(case.cluster, requests_of(case.requests), leap=leap)
    assert differences(result.requests, outcome) + total_differences(result, outcome) == []


def drawn(data: st.DataObject, profiles: list[tuple], instances: int = 1, **fixed) -> draws.DrawnCase:
    count, slots, block_size, reserve = data.draw(st.sampled_from(profiles))
    schedulers = draws.vllm_v1_schedulers(max_num_seqs=slots, reserve_full_prompt=reserve, **fixed)
    return data.draw(draws.cases(count * instances, schedulers, block_size, instances))


@both_ways
@settings(max_examples=150)
@given(data=st.data())
def test_vllm_v1(leap, data):
    check(drawn(data, PROFILES), leap)


@pytest.mark.slow
@both_ways
@settings(max_examples=1500)
@given(data=st.data())
def test_vllm_v1_in_every_shape(leap, data):
    check(drawn(data, EVERY_PROFILE, enable_chunked_prefill=True), leap)


@both_ways
@settings(max_examples=50)
@given(data=st.data())
def test_vllm_v1_without_chunked_prefill(leap, data):
    budgets = st.integers(94, 200)  # no prompt with its outputs is longer, so all can run
    case = drawn(data, [(20, 5, 16, True)], enable_chunked_prefill=False, max_num_batched_tokens=budgets)
    check(case, leap)


@settings(max_examples=50)
@given(data=st.data())
def test_a_fleet(data):
    check(drawn(data, [(6, 8, 1, True)], instances=3), leap=True)


BINARY = {
    "kind": "linear",
    "base_s": 2**-8,
    "per_token_s": 2**-14,
    "per_context_token_s": 2**-20,
    "per_prefill_pair_s": 2**-22,
}


@both_ways
@settings(max_examples=60)
@given(data=st.data())
def test_exact_ties(leap, data):
    """Arrivals exactly at ends of iterations: each is placed on an end that the requests before it lead to."""
    case = drawn(data, [(6, 1, 1, False), (6, 8, 16, False)])
    case.cluster["instances"][0]["latency"] = BINARY
    case.requests[0].arrival_s = 0.0
    for i in range(1, len(case.requests)):
        so_far = run_oracle(case.cluster, jobs_of(case.requests[:i])).instances[0].iterations
        ends = [it.end for it in so_far if it.end >= case.requests[i - 1].arrival_s][:8]
        case.requests[i].arrival_s = data.draw(st.sampled_from(ends or [case.requests[i - 1].arrival_s]))
    outcome = run_oracle(case.cluster, jobs_of(case.requests))
    table = simulate(case.cluster, requests_of(case.requests), leap=leap).requests
    assert differences(table, outcome, tolerance=0.0) == []


@both_ways
def test_a_lane_that_gets_stuck(leap):
    """Without chunked prefill a preempted request may outgrow the budget: it and those behind it never finish."""
    scheduler = {
        "kind": "vllm_v1",
        "max_num_batched_tokens": 7,
        "enable_chunked_prefill": False,
        "async_scheduling": False,
    }
    latency = {"kind": "linear", "base_s": 1.0}
    group = {"scheduler": scheduler, "latency": latency, "kv_cache": {"num_blocks": 14, "block_size": 1}}
    requests = [draws.Request(0.0, 3, 12), draws.Request(0.0, 4, 6), draws.Request(20.0, 1, 1)]
    outcome = run_oracle({"instances": [group]}, jobs_of(requests))
    assert outcome.status == "stuck"
    table = simulate({"instances": [group]}, requests_of(requests), leap=leap).requests
    assert table.status[0].tolist() == [
        RequestStatus.COMPLETED if job.finish is not None else RequestStatus.UNFINISHED for job in outcome.jobs
    ]
    assert [line for line in differences(table, outcome) if "output_tokens" not in line] == []


@both_ways
def test_the_gap_that_a_preemption_makes(leap):
    """From the last token before it to the first after it, whatever follows."""
    scheduler = {
        "kind": "vllm_v1",
        "max_num_batched_tokens": 2,
        "reserve_full_prompt": False,
        "async_scheduling": False,
    }
    latency = {"kind": "linear", "base_s": 1.0}
    group = {"scheduler": scheduler, "latency": latency, "kv_cache": {"num_blocks": 5, "block_size": 1}}
    requests = [draws.Request(0.0, 1, 3), draws.Request(0.0, 1, 5)]
    outcome = run_oracle({"instances": [group]}, jobs_of(requests))
    assert outcome.jobs[1].token_times == [1.0, 2.0, 5.0, 6.0, 7.0]
    result = simulate({"instances": [group]}, requests_of(requests), leap=leap)
    assert total_differences(result, outcome) == []
