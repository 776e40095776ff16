"""What must hold for every scheduler x latency x router x queue order, whatever its rules are.

All of it is checked fleet by fleet, so that each is compiled in one process only.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from jaxsim.cluster.routing import ROUTERS
from jaxsim.engine.policy import POLICIES
from jaxsim.latency import LATENCIES
from jaxsim.metrics.request_table import RequestTable
from jaxsim.result import Result
from jaxsim.workload import Requests
from tests import front_door
from tests.contracts import fleets
from tests.contracts.fleets import Mix
from tests.draws import QUEUE_ORDERS, Request

SEEDS = 8
TIMES = ("first_scheduled_s", "first_token_s", "finish_s")
CLOSE = 1e-9
STEPPED = ("least_kv", "central_queue")
"""Routers whose fleet is stepped, too, every time; the others when there is time."""

WORKLOADS = [fleets.workload(seed) for seed in range(SEEDS)]


def requests_of(seeds: list[list[Request]]) -> Requests:
    session = tuple(request.session for request in seeds[0])
    return dataclasses.replace(front_door.requests_of(*seeds), session=session)


def simulate(mix: Mix, requests: Requests, leap: bool, factor: float = 1.0) -> Result:
    return front_door.simulate(fleets.slower(mix.cluster, factor), requests, leap=leap)


def assert_identical(a: RequestTable, b: RequestTable) -> None:
    for name, column in b.columns(classes=True).items():
        if name != "seed":
            np.testing.assert_array_equal(a.columns(classes=True)[name], column, err_msg=name)


def assert_close(a: RequestTable, b: RequestTable) -> None:
    """Times within rounding, all else equal."""
    for name in TIMES:
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=CLOSE, atol=0)
    assert_identical(dataclasses.replace(a, **{name: getattr(b, name) for name in TIMES}), b)


def check_requests_and_tokens_are_conserved(table: RequestTable, given: Requests, mix: Mix) -> None:
    assert table.completed.all()
    np.testing.assert_array_equal(table.request, given.row)
    np.testing.assert_array_equal(table.arrival_s, given.arrival_s)
    np.testing.assert_array_equal(table.prompt_tokens, given.prompt_tokens)
    limits = [fleets.SCHEDULER_EXAMPLES[scheduler].get("max_model_len", 2**30) for scheduler, _, _ in mix.groups]
    limit = np.array(limits)[table.instance]
    np.testing.assert_array_equal(table.output_tokens, np.minimum(given.output_tokens, limit - given.prompt_tokens))
    for instance, (scheduler, _, _) in enumerate(mix.groups):
        here = table.instance == instance
        assert here.any(), "every instance serves somebody"
        assert (table.preemptions[here].sum() > 0) <= (scheduler not in fleets.NEVER_PREEMPT)
    assert table.preemptions.sum() > 0, "the fleet is meant to be short of KV memory"


def check_clocks_are_monotone(table: RequestTable) -> None:
    assert (table.arrival_s <= table.first_scheduled_s).all()
    assert (table.first_scheduled_s < table.first_token_s).all()
    assert (table.first_token_s <= table.finish_s).all()
    assert ((table.first_token_s == table.finish_s) == (table.output_tokens == 1)).all()


def check_kv_is_never_over_capacity(result: Result, table: RequestTable) -> None:
    """A request that was never preempted holds at least its prompt's blocks from its first token to its last."""
    assert 0.1 < result.summary["kv_utilisation"] <= 1.0
    for seed, instance in itertools.product(range(SEEDS), range(len(POLICIES))):
        here = (table.instance[seed] == instance) & (table.preemptions[seed] == 0)
        blocks = -(-table.prompt_tokens[seed] // fleets.KV_CACHE["block_size"])[here]
        start, end = table.first_token_s[seed][here], table.finish_s[seed][here]
        held = [blocks[(start <= t) & (t < end)].sum() for t in start]
        assert max(held, default=0) <= fleets.KV_CACHE["num_blocks"]


def check_littles_law(table: RequestTable) -> None:
    """The area under the number in system is the sum of the times in system: nobody is lost or counted twice."""
    for seed in range(SEEDS):
        moments = np.concatenate([table.arrival_s[seed], table.finish_s[seed]])
        steps = np.repeat([1, -1], table.num_requests)
        order = np.argsort(moments, kind="stable")
        in_system = np.cumsum(steps[order])[:-1]
        area = float(np.sum(in_system * np.diff(moments[order])))
        assert in_system.min() >= 0
        assert math.isclose(area, float(table.e2e_s[seed].sum()), rel_tol=1e-9)


def check_seeds_do_not_see_each_other(table: RequestTable, mix: Mix, leap: bool) -> None:
    """Whichever are simulated beside it, in whatever order."""
    others = [5, 3, 3, 0, 7, 1, 3, 2]
    beside = simulate(mix, requests_of([WORKLOADS[seed] for seed in others]), leap).requests
    for place, seed in enumerate(others):
        assert_identical(beside.block(slice(place, place + 1)), table.block(slice(seed, seed + 1)))


def check_scaling_all_times_by_a_power_of_two_scales_results_exactly(
    table: RequestTable, given: Requests, mix: Mix, leap: bool
) -> None:
    slow = simulate(mix, dataclasses.replace(given, arrival_s=4.0 * given.arrival_s), leap, factor=4.0).requests
    expected = {name: 4.0 * getattr(table, name) for name in ("arrival_s", *TIMES)}
    assert_identical(slow, dataclasses.replace(table, **expected))


def check_the_future_does_not_change_the_past(table: RequestTable, mix: Mix, leap: bool) -> None:
    """Requests that finished before another workload diverges have the same times in both."""
    changed = 54
    other = [
        seed[:changed]
        + [dataclasses.replace(new, arrival_s=new.arrival_s + 10.0) for new in fleets.workload(99)[changed:]]
        for seed in WORKLOADS
    ]
    past = table.block(requests=slice(0, changed))
    again = simulate(mix, requests_of(other), leap).requests.block(requests=slice(0, changed))
    diverges = np.array([[seed[changed].arrival_s] for seed in WORKLOADS])
    before = past.finish_s < diverges
    assert 0.1 < before.mean() < 1.0
    for name in TIMES:
        np.testing.assert_allclose(getattr(past, name)[before], getattr(again, name)[before], rtol=CLOSE, atol=0)
    for name in ("preemptions", "instance"):
        np.testing.assert_array_equal(getattr(past, name)[before], getattr(again, name)[before])


def check_fleet(mix: Mix, leap: bool) -> RequestTable:
    """All of it."""
    given = requests_of(WORKLOADS)
    result = simulate(mix, given, leap)
    table = result.requests
    check_requests_and_tokens_are_conserved(table, given, mix)
    check_clocks_are_monotone(table)
    check_kv_is_never_over_capacity(result, table)
    check_littles_law(table)
    check_seeds_do_not_see_each_other(table, mix, leap)
    check_scaling_all_times_by_a_power_of_two_scales_results_exactly(table, given, mix, leap)
    check_the_future_does_not_change_the_past(table, mix, leap)
    return table


def check_both_ways(mix: Mix) -> None:
    assert_close(check_fleet(mix, leap=True), check_fleet(mix, leap=False))


@pytest.mark.parametrize("mix", [mix for mix in fleets.pairwise() if mix.router not in STEPPED], ids=str)
def test_every_pair_leaping(mix):
    check_fleet(mix, leap=True)


@pytest.mark.parametrize("mix", [mix for mix in fleets.pairwise() if mix.router in STEPPED], ids=str)
def test_every_pair_leaping_and_stepping(mix):
    check_both_ways(mix)


@pytest.mark.slow
@pytest.mark.parametrize("mix", fleets.full(), ids=str)
def test_every_combination(mix):
    check_both_ways(mix)


def test_everything_registered_is_tested():
    assert set(fleets.SCHEDULER_EXAMPLES) == set(POLICIES)
    assert set(fleets.LATENCY_EXAMPLES) == set(LATENCIES)
    assert set(fleets.ROUTER_EXAMPLES) <= set(ROUTERS)
    values = {"scheduler": POLICIES, "latency": LATENCIES, "order": QUEUE_ORDERS, "router": ROUTERS}
    whole = {tuple(one.values()) for one in fleets.combinations(fleets.full())}
    assert len(whole) == math.prod(map(len, values.values()))
    for a, b in itertools.combinations(values, 2):
        found = {(one[a], one[b]) for one in fleets.combinations(fleets.pairwise())}
        missing = set(itertools.product(values[a], values[b])) - found
        assert all("central_queue" in pair for pair in missing) and len(missing) < 5
