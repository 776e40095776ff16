"""Waiting and running over time, and what each instance did."""

import numpy as np
import pytest

from jaxsim._status import RequestStatus
from jaxsim.metrics.occupancy import by_instance, occupancy
from tests.metrics.tables import random_table, table


def test_steps() -> None:
    requests = table(
        arrival_s=[0.0, 1.0, 2.0], first_scheduled_s=[0.0, 3.0, 3.0], first_token_s=[1, 4, 5], finish_s=[3.0, 6, 5]
    )
    found = occupancy(requests)
    assert found.time_s.tolist() == [0, 1, 2, 3, 5, 6]
    assert found.waiting.tolist() == [0, 1, 2, 0, 0, 0]
    assert found.running.tolist() == [1, 1, 1, 2, 1, 0]
    later = found.sampled(np.array([0.5, 2.5, 7.0]))
    assert (later.waiting.tolist(), later.running.tolist()) == ([0, 2, 0], [1, 1, 0])


def test_instances_add_up_to_the_fleet() -> None:
    rng = np.random.default_rng(1)
    plain = random_table(rng, seeds=2, requests=50)
    times = {name: getattr(plain, name) for name in ("first_scheduled_s", "first_token_s", "finish_s")}
    requests = table(arrival_s=plain.arrival_s, instance=rng.integers(0, 2, (2, 50)), **times)
    when = np.linspace(0, 5, 30)
    parts = [occupancy(requests, 1, instance).sampled(when) for instance in (0, 1)]
    whole = occupancy(requests, 1).sampled(when)
    assert np.array_equal(parts[0].running + parts[1].running, whole.running)
    assert np.array_equal(parts[0].waiting + parts[1].waiting, whole.waiting)
    rows = by_instance(requests, warmup=5)
    assert [row.instance for row in rows] == [0, 1] and sum(row.requests for row in rows) == 90
    assert sum(row.share for row in rows) == pytest.approx(1)
    ends = requests.finish_s.max(axis=1)
    seconds = (requests.finish_s - requests.first_scheduled_s).sum()
    assert sum(row.running for row in rows) == pytest.approx(seconds / ends.sum())


def test_busy_time_is_that_of_the_union() -> None:
    requests = table(
        arrival_s=[0.0, 1.0, 6.0, 9.0],
        first_scheduled_s=[0.0, 1.0, 6.0, 9.0],
        first_token_s=[1, 2, 7, 10],
        finish_s=[4.0, 3.0, 8.0, 10.0],
    )
    [row] = by_instance(requests)
    assert row.busy_share == pytest.approx((4 + 2 + 1) / 10)


def test_instances_of_rejected_and_unfinished_requests() -> None:
    requests = table(
        arrival_s=[0.0, 1.0],
        instance=[-1, 0],
        output_tokens=0,
        status=[RequestStatus.REJECTED, RequestStatus.UNFINISHED],
        first_scheduled_s=[np.nan, 2.0],
        first_token_s=np.nan,
        finish_s=np.nan,
    )
    [row] = by_instance(requests)
    assert (row.requests, row.ttft_mean_s, row.ttft_p99_s, row.tpot_mean_s) == (1, None, None, None)
