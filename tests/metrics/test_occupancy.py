"""Waiting and running over time, and what each instance did."""

import dataclasses

import numpy as np
import pytest

from jaxsim._status import RequestStatus
from jaxsim.metrics.breakdown import breakdown
from jaxsim.metrics.occupancy import by_instance, occupancy
from jaxsim.metrics.request_table import RequestTable
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


def handed_over() -> RequestTable:
    """Two requests prefilled at instance 0; the first goes on at instance 1, the second is done with one token."""
    none = np.nan
    return dataclasses.replace(
        table(
            arrival_s=[[0.0, 1.0]],
            first_scheduled_s=[0.0, 1.0],
            first_token_s=[1.0, 2.0],
            finish_s=[5.0, 2.0],
            output_tokens=[9, 1],
            instance=0,
            decode_instance=[1, -1],
        ),
        kv_asked_s=np.array([[1.0, none]]),
        kv_granted_s=np.array([[1.25, none]]),
        kv_started_s=np.array([[1.25, none]]),
        kv_landed_s=np.array([[1.75, none]]),
        decode_scheduled_s=np.array([[2.0, none]]),
    )


def test_requests_that_are_handed_over_are_in_two_places() -> None:
    first, second = by_instance(handed_over())
    assert (first.requests, first.prompt_tokens, first.output_tokens) == (2, 20, 1)
    assert (second.requests, second.prompt_tokens, second.output_tokens, second.ttft_mean_s) == (1, 0, 9, None)
    assert second.tpot_mean_s == 0.5 and first.tpot_mean_s is None
    assert (first.running, second.running, second.waiting) == pytest.approx((2 / 5, 3 / 5, 0.25 / 5))
    assert (first.busy_share, second.busy_share) == pytest.approx((2 / 5, 3 / 5))
    assert occupancy(handed_over(), instance=1).running.tolist() == [0, 0, 1, 0]
    whole = occupancy(handed_over()).sampled(np.array([0.5, 1.5, 1.8, 3.0]))
    assert whole.running.tolist() == [1, 1, 1, 1] and whole.waiting.tolist() == [0, 0, 1, 0]
    [slow] = breakdown(handed_over(), "e2e_s")[-1:]
    assert (slow.prefill_s, slow.handover_s, slow.decode_s) == (1.0, 1.0, 3.0)


def test_there_is_no_such_seed() -> None:
    with pytest.raises(IndexError, match="seed_index must be from 0 to 0, not 1"):
        occupancy(handed_over(), 1)
