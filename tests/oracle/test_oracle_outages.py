"""Instances that fail, by hand: iterations of one second."""

import pytest

from tests.oracle.job import Job
from tests.oracle.scenario import run
from tests.oracle.small import disaggregated, group


def test_running_requests_go_on_elsewhere_and_keep_what_they_emitted():
    job = Job(0, 0.0, 2, 4)
    outcome = run({"instances": [group(unavailable=[[2.5, 9]]), group()]}, [job])
    assert job.token_times == [1, 2, 3.5, 4.5]
    assert (job.instance, job.requeues, job.preemptions, job.recomputed) == (1, 1, 0, 4)
    first, second = (instance.iterations for instance in outcome.instances)
    assert [(i.start, i.end) for i in first] == [(0, 1), (1, 2), (2, 2.5)]
    assert [i.n for i in second] == [4, 1]


def test_or_are_lost_with_those_that_waited():
    jobs = [Job(0, 0.0, 2, 4), Job(1, 0.5, 2, 1), Job(2, 3.0, 1, 1)]
    scheduler = {"max_num_seqs": 1}
    outcome = run({"instances": [group(unavailable=[[1.5, 5]], on_failure="lose", scheduler=scheduler)]}, jobs)
    assert outcome.status == "ok"
    assert [job.ending for job in jobs] == ["lost", "lost", "finished"]
    assert (jobs[0].token_times, jobs[2].token_times) == ([1], [6])


def test_without_another_instance_they_wait_for_its_return():
    jobs = [Job(0, 0.0, 2, 3), Job(1, 0.5, 1, 1)]
    run({"instances": [group(unavailable=[[1, 4]])]}, jobs)
    assert jobs[0].token_times == [1, 5, 6], "a token at the very moment of the failure counts"
    assert jobs[1].token_times == [5]


def test_running_ones_are_sent_elsewhere_before_waiting_ones_and_new_ones():
    jobs = [Job(0, 0.0, 1, 9), Job(1, 0.5, 1, 1), Job(2, 1.5, 1, 1)]
    scheduler = {"max_num_seqs": 1}
    run({"instances": [group(unavailable=[[1.5, 99]], scheduler=scheduler), group(scheduler=scheduler)]}, jobs[:1])
    groups = [group(unavailable=[[0.75, 99]], scheduler=scheduler), group(scheduler=scheduler)]
    jobs = [Job(0, 0.0, 1, 2), Job(1, 0.25, 1, 2), Job(2, 0.5, 1, 1), Job(3, 0.75, 1, 1)]
    run({"instances": groups}, jobs)  # 1 runs on the second instance
    assert [job.instance for job in jobs] == [1, 1, 1, 1]
    assert [job.finish for job in jobs] == [4.25, 2.25, 5.25, 6.25]


def test_a_batch_that_had_not_begun_leaves_no_trace():
    """Asynchronous: the second request is in the batch queued behind the one in flight."""
    jobs = [Job(0, 0.0, 1, 5), Job(1, 1.0, 1, 5)]
    outcome = run({"instances": [group(unavailable=[[2.5, 7]], scheduler={"async_scheduling": True})]}, jobs)
    assert [(i.start, i.end) for i in outcome.instances[0].iterations[:4]] == [(0, 1), (1, 2), (2, 2.5), (7, 8)]
    assert jobs[0].token_times == [1, 2, 8, 9, 10]
    assert jobs[1].first_scheduled == 2, "its batch began and came to nothing"
    late = [Job(0, 0.0, 1, 5), Job(1, 1.0, 1, 5)]
    run({"instances": [group(unavailable=[[1.5, 7]], scheduler={"async_scheduling": True})]}, late)
    assert late[1].first_scheduled == 7


def test_two_that_fail_together_do_not_send_to_each_other():
    groups = [group(2, unavailable=[[0.5, 9]]), group()]
    jobs = [Job(0, 0.0, 1, 1), Job(1, 0.0, 1, 1)]
    run({"instances": groups}, jobs)
    assert [job.instance for job in jobs] == [2, 2]


@pytest.mark.parametrize("role", ["prefill", "decode"])
@pytest.mark.parametrize("on_failure", ["requeue", "lose"])
def test_a_transfer_ends_when_either_side_fails(role, on_failure):
    """Prefill until 1, transfer until 4; the failure at 2 ends at 3."""
    cluster = disaggregated({})
    cluster["instances"][role == "decode"] |= {"unavailable": [[2, 3]], "on_failure": on_failure}
    job = Job(0, 0.0, 3, 3)
    outcome = run(cluster, [job])
    assert all(instance.scheduler.used_blocks == 0 for instance in outcome.instances)
    if on_failure == "lose":
        assert (job.ending, job.token_times) == ("lost", [1])
    else:
        again = 3 if role == "prefill" else 2  # prompt and first token: 4 tokens to prefill and to move
        assert job.token_times == [1, again + 1, again + 1 + 4 + 1]
        assert job.kv_landed - job.kv_started == 4


def test_a_transfer_to_an_instance_that_is_away_waits_for_its_return():
    cluster = disaggregated({})
    cluster["instances"][1] |= {"unavailable": [[0, 5]]}
    job = Job(0, 0.0, 1, 2)
    run(cluster, [job])
    assert (job.kv_asked, job.kv_granted, job.kv_landed, job.finish) == (1, 5, 6, 7)


def test_links_keep_the_time_that_a_dropped_transfer_was_given():
    """Two decode instances; the link of the first is busy until 4, its transfer is dropped at 2."""
    cluster = disaggregated({"contention": "nic"}) | {"decode_router": {"kind": "round_robin"}}
    cluster["instances"] = [group(role="prefill"), group(role="decode", unavailable=[[2, 3]]), group(role="decode")]
    jobs = [Job(0, 0.0, 3, 2), Job(1, 0.0, 2, 2)]
    run(cluster, jobs)
    assert (jobs[1].decode_instance, jobs[1].kv_granted, jobs[1].kv_started) == (2, 1, 4)
