"""What must hold for every scheduler x latency x router, whatever its rules are."""

import dataclasses
import math
from functools import lru_cache

import numpy as np
import pytest

from jaxsim.cluster.routing import ROUTERS
from jaxsim.engine.policy import POLICIES
from jaxsim.latency import LATENCIES
from jaxsim.metrics.request_table import RequestTable
from jaxsim.result import Result
from tests.contracts import fleets
from tests.front_door import requests_of, simulate

SEEDS = 8
TIMES = ("first_scheduled_s", "first_token_s", "finish_s")
every_fleet = pytest.mark.parametrize(
    ("scheduler", "latency", "router"),
    [pytest.param(*one, marks=() if one in fleets.FAST else pytest.mark.slow) for one in fleets.COMBINATIONS],
)
both_ways = pytest.mark.parametrize("leap", [True, False], ids=["leap", "step"])


@lru_cache
def workloads(seeds=SEEDS):
    return [fleets.workload(seed) for seed in range(seeds)]


@lru_cache
def result_of(scheduler: str, latency: str, router: str, leap: bool = True) -> Result:
    return simulate(fleets.cluster_of(scheduler, latency, router), requests_of(*workloads()), leap=leap)


def assert_identical(a: RequestTable, b: RequestTable) -> None:
    for field in dataclasses.fields(RequestTable)[1:]:
        np.testing.assert_array_equal(getattr(a, field.name), getattr(b, field.name), err_msg=field.name)


def test_everything_registered_is_tested():
    assert set(fleets.SCHEDULER_EXAMPLES) == set(POLICIES)
    assert set(fleets.LATENCY_EXAMPLES) == set(LATENCIES)
    assert len(fleets.COMBINATIONS) == len(POLICIES) * len(LATENCIES) * len(ROUTERS)
    for place, registered in enumerate((POLICIES, LATENCIES, ROUTERS)):
        assert {one[place] for one in fleets.FAST} == set(registered)


@both_ways
@every_fleet
def test_requests_and_tokens_are_conserved(scheduler, latency, router, leap):
    table = result_of(scheduler, latency, router, leap).requests
    given = requests_of(*workloads())
    assert table.completed.all()
    np.testing.assert_array_equal(table.request, given.row)
    np.testing.assert_array_equal(table.arrival_s, given.arrival_s)
    np.testing.assert_array_equal(table.prompt_tokens, given.prompt_tokens)
    limit = fleets.SCHEDULER_EXAMPLES[scheduler].get("max_model_len", 2**31 - 1)
    np.testing.assert_array_equal(table.output_tokens, np.minimum(given.output_tokens, limit - given.prompt_tokens))
    assert ((table.instance >= 0) & (table.instance < 2)).all()
    if scheduler in fleets.PREEMPTS:
        assert table.preemptions.sum() > 0, "the fleet is meant to be short of KV memory"


@both_ways
@every_fleet
def test_clocks_are_monotone(scheduler, latency, router, leap):
    table = result_of(scheduler, latency, router, leap).requests
    assert (table.arrival_s <= table.first_scheduled_s).all()
    assert (table.first_scheduled_s < table.first_token_s).all()
    assert (table.first_token_s <= table.finish_s).all()
    assert ((table.first_token_s == table.finish_s) == (table.output_tokens == 1)).all()


@every_fleet
def test_kv_is_never_over_capacity(scheduler, latency, router):
    """A request that was never preempted holds at least its prompt's blocks from its first token to its last."""
    result = result_of(scheduler, latency, router)
    assert 0.1 < result.summary["kv_utilisation"] <= 1.0
    table = result.requests
    for seed in range(SEEDS):
        for instance in range(2):
            here = (table.instance[seed] == instance) & (table.preemptions[seed] == 0)
            blocks = -(-table.prompt_tokens[seed] // fleets.KV_CACHE["block_size"])[here]
            start, end = table.first_token_s[seed][here], table.finish_s[seed][here]
            held = [blocks[(start <= t) & (t < end)].sum() for t in start]
            assert max(held) <= fleets.KV_CACHE["num_blocks"]


@every_fleet
def test_a_batch_of_seeds_equals_single_seeds(scheduler, latency, router):
    together = result_of(scheduler, latency, router).requests
    for seed in (0, 3, SEEDS - 1):
        alone = simulate(fleets.cluster_of(scheduler, latency, router), requests_of(workloads()[seed])).requests
        assert_identical(together.block(slice(seed, seed + 1)), alone)


@every_fleet
def test_the_order_of_seeds_does_not_matter(scheduler, latency, router):
    backwards = simulate(fleets.cluster_of(scheduler, latency, router), requests_of(*workloads()[::-1])).requests
    assert_identical(backwards.block(slice(None, None, -1)), result_of(scheduler, latency, router).requests)


@both_ways
@every_fleet
def test_scaling_all_times_by_a_power_of_two_scales_results_exactly(scheduler, latency, router, leap):
    cluster = fleets.cluster_of(scheduler, latency, router)
    group = cluster["instances"][0]
    group["latency"] = fleets.slower(group["latency"], 4.0)
    given = requests_of(*workloads())
    slow = simulate(cluster, dataclasses.replace(given, arrival_s=4.0 * given.arrival_s), leap=leap).requests
    table = result_of(scheduler, latency, router, leap).requests
    expected = {name: 4.0 * getattr(table, name) for name in ("arrival_s", *TIMES)}
    assert_identical(slow, dataclasses.replace(table, **expected))


@every_fleet
def test_leaping_changes_nothing(scheduler, latency, router):
    leap, step = (result_of(scheduler, latency, router, leap).requests for leap in (True, False))
    for name in TIMES:
        np.testing.assert_allclose(getattr(leap, name), getattr(step, name), rtol=1e-9, atol=0)
    same = {name: getattr(step, name) for name in TIMES}
    assert_identical(dataclasses.replace(leap, **same), step)


@every_fleet
def test_the_future_does_not_change_the_past(scheduler, latency, router):
    """Requests that finished before another workload diverges have the same times in both."""
    changed = 30
    other = [
        seed[:changed]
        + [
            dataclasses.replace(new, arrival_s=new.arrival_s + 10.0, routing_uniform=old.routing_uniform)
            for old, new in zip(seed[changed:], fleets.workload(99)[changed:], strict=True)
        ]
        for seed in workloads()
    ]
    a, b = (
        table.block(requests=slice(0, changed))
        for table in (
            result_of(scheduler, latency, router, leap=False).requests,
            simulate(fleets.cluster_of(scheduler, latency, router), requests_of(*other), leap=False).requests,
        )
    )
    diverges = np.array([[seed[changed].arrival_s] for seed in workloads()])
    past = a.finish_s < diverges
    assert 0.3 < past.mean() < 1.0
    for name in (*TIMES, "preemptions", "instance"):
        np.testing.assert_array_equal(getattr(a, name)[past], getattr(b, name)[past])


@every_fleet
def test_littles_law(scheduler, latency, router):
    """The area under the number in system is the sum of the times in system: nobody is lost or counted twice."""
    table = result_of(scheduler, latency, router).requests
    for seed in range(SEEDS):
        moments = np.concatenate([table.arrival_s[seed], table.finish_s[seed]])
        steps = np.repeat([1, -1], table.num_requests)
        order = np.argsort(moments, kind="stable")
        in_system = np.cumsum(steps[order])[:-1]
        area = float(np.sum(in_system * np.diff(moments[order])))
        assert in_system.min() >= 0
        assert math.isclose(area, float(table.e2e_s[seed].sum()), rel_tol=1e-9)
