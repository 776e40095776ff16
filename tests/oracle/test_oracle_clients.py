"""Clients by hand: iterations of one second."""

import pytest

from tests.oracle.job import Job
from tests.oracle.scenario import run
from tests.oracle.small import group

CLUSTER = {"instances": [group()]}


def test_users_of_a_closed_loop_wait_for_the_end_and_think():
    jobs = [Job(i, 0.0, 1, output) for i, output in enumerate([1, 3, 1, 1])]
    run(CLUSTER, jobs, {"kind": "closed_loop", "concurrency": 2, "think_time_s": 0.5})
    assert [job.arrival for job in jobs] == [0, 0, 1.5, 3.5]
    assert [job.sent for job in jobs] == [0, 0, 1.5, 3.5]
    assert [job.finish for job in jobs] == [1, 3, 3, 4.5]


def test_the_lowest_user_goes_first_and_think_times_may_be_drawn():
    """Users 0 and 1 are ready at 2.5 and 1.25; user 1 sends the next request."""
    jobs = [Job(0, 0.0, 1, 1, think_s=1.5), Job(1, 0.0, 1, 1, think_s=0.25), Job(2, 0.0, 1, 1, think_s=0.0)]
    jobs += [Job(3, 0.0, 1, 1), Job(4, 0.0, 1, 1)]
    run(CLUSTER, jobs, {"kind": "closed_loop", "concurrency": 2, "think_time_s": 0.0})
    assert [job.arrival for job in jobs] == [0, 0, 1.25, 2.25, 2.5]


def test_a_closed_loop_with_fewer_requests_than_users():
    jobs = [Job(0, 0.0, 1, 1)]
    assert run(CLUSTER, jobs, {"kind": "closed_loop", "concurrency": 9, "think_time_s": 1.0}).status == "ok"


def test_priorities_of_a_closed_loop_compare_places_in_the_list():
    slots = {"instances": [group(scheduler={"max_num_seqs": 1, "queue_order": "longest_waiting"})]}
    jobs = [Job(i, 0.0, 1, 1) for i in range(4)]
    run(slots, jobs, {"kind": "closed_loop", "concurrency": 4})
    assert [job.finish for job in jobs] == [1, 2, 3, 4]


def test_held_requests_keep_their_arrival():
    jobs = [Job(0, 0.0, 1, 2), Job(1, 0.5, 1, 2), Job(2, 0.5, 1, 1), Job(3, 9.0, 1, 1)]
    run(CLUSTER, jobs, {"max_in_flight": 1})
    assert [job.arrival for job in jobs] == [0, 0.5, 0.5, 9]
    assert [job.sent for job in jobs] == [0, 2, 4, 9]
    assert [job.finish for job in jobs] == [2, 4, 5, 10]


@pytest.mark.parametrize("arrivals", [{"max_in_flight": 1}, {"kind": "closed_loop", "concurrency": 1}])
def test_a_lost_request_lets_the_next_one_go(arrivals):
    cluster = {"instances": [group(unavailable=[[1.5, 3]], on_failure="lose")]}
    jobs = [Job(0, 0.0, 1, 5), Job(1, 0.0, 1, 1)]
    assert run(cluster, jobs, arrivals).status == "ok"
    assert (jobs[0].ending, jobs[0].finish) == ("lost", None)
    assert (jobs[1].sent, jobs[1].finish) == (1.5, 4)
