"""Routers by hand: iterations of one second, one token in every block."""

import pytest

from tests.oracle.job import Job
from tests.oracle.scenario import run
from tests.oracle.small import group

ONE_SLOT = {"max_num_seqs": 1}


def chosen(router, jobs, instances=2, **keys):
    groups = instances if isinstance(instances, list) else [group(instances, **keys)]
    return [job.instance for job in run({"router": router, "instances": groups}, jobs).jobs]


def at_once(count, **keys):
    return [Job(i, 0.0, 1, 1, **keys) for i in range(count)]


def test_tokens_left_count_prompts_and_outputs_or_prompts_only():
    def jobs():
        return [Job(0, 0.0, 3, 9), Job(1, 0.0, 5, 1), Job(2, 0.0, 1, 1), Job(3, 0.0, 1, 1)]

    assert chosen({"kind": "least_tokens"}, jobs()) == [0, 1, 1, 1]  # 12; 6, 8, 10
    assert chosen({"kind": "least_tokens", "known_outputs": False}, jobs()) == [0, 1, 0, 0]  # 3, 4, 5; 5


def test_tokens_left_of_running_requests_are_those_not_granted_and_not_emitted():
    """At 2.5 three pieces of 3 are granted: 1 of 10 prompt tokens and 1 output are left, against 0 and 3 of 4."""
    jobs = [Job(0, 0.0, 10, 1), Job(1, 0.0, 6, 4), Job(2, 2.5, 1, 1)]
    assert chosen({"kind": "least_tokens"}, jobs, scheduler={"max_num_batched_tokens": 3}) == [0, 1, 0]
    assert jobs[1].token_times[:2] == [2, 3]


def test_least_kv_compares_shares():
    groups = [group(num_blocks=20), group(num_blocks=100)]
    jobs = [Job(0, 0.0, 10, 5), Job(1, 0.5, 30, 5), Job(2, 1.5, 5, 1)]  # then 10 of 20 and 30 of 100
    assert chosen({"kind": "least_kv"}, jobs, groups) == [0, 1, 1]


@pytest.mark.parametrize(
    ("uniform", "pair"),
    [(0.0, (0, 1)), (0.30, (0, 1)), (0.45, (1, 3)), (0.70, (2, 3)), (0.99, (2, 3))],
)
def test_power_of_two_draws_two_different_ones_and_takes_the_less_busy(uniform, pair):
    low, high = pair
    assert chosen({"kind": "power_of_two"}, [Job(i, 0.0, 1, 1, uniform=uniform) for i in range(3)], 4) == [
        low,
        high,
        low,
    ]


def test_power_of_two_with_one_instance():
    assert chosen({"kind": "power_of_two"}, at_once(2, uniform=0.9), 1) == [0, 0]


@pytest.mark.parametrize(("uniform", "instance"), [(0.0, 0), (0.24, 1), (0.26, 2), (0.99, 2)])
def test_weights_are_one_for_an_entry_and_hold_for_each_of_its_instances(uniform, instance):
    router = {"kind": "weighted_capacity", "weights": [1, 6]}
    assert chosen(router, at_once(1, uniform=uniform), [group(2), group(1)]) == [instance]


def test_a_session_stays_where_its_first_request_went():
    sessions = ["a", "b", "a", "a", None, "b"]
    jobs = [Job(i, 0.0, 1, 1, session=session) for i, session in enumerate(sessions)]
    assert chosen({"kind": "session_affinity"}, jobs) == [0, 1, 0, 0, 1, 1]


def test_a_session_moves_when_its_instance_is_away():
    groups = [group(unavailable=[[1, 9]]), group()]
    jobs = [Job(i, float(t), 1, 1, session="a") for i, t in enumerate([0, 2, 10])]
    assert chosen({"kind": "session_affinity"}, jobs, groups) == [0, 1, 1]


def test_a_central_queue_gives_to_whoever_has_room_in_index_order():
    jobs = [Job(0, 0.0, 1, 3), Job(1, 0.0, 1, 2), Job(2, 0.0, 1, 1), Job(3, 0.5, 1, 1)]
    assert chosen({"kind": "central_queue"}, jobs, scheduler=ONE_SLOT) == [0, 1, 1, 0]
    assert [job.first_scheduled for job in jobs] == [0, 0, 2, 3]


def test_a_central_queue_is_in_queue_order():
    jobs = [Job(0, 0.0, 1, 1), Job(1, 0.5, 9, 1), Job(2, 0.6, 2, 1)]
    scheduler = ONE_SLOT | {"queue_order": "shortest_prompt"}
    chosen({"kind": "central_queue"}, jobs, 1, scheduler=scheduler)
    assert [job.first_scheduled for job in jobs] == [0, 2, 1]


def test_an_instance_that_cannot_take_the_head_leaves_it_to_others():
    jobs = [Job(0, 0.0, 9, 1), Job(1, 0.0, 2, 1)]
    assert chosen({"kind": "central_queue"}, jobs, [group(num_blocks=4), group(num_blocks=20)]) == [1, 1]


def test_a_stale_router_sees_old_counts_and_its_own_choices_since():
    """It looks at 0 and 5. What it assigned at 0 and 2 counts until then, though some of it has ended."""

    def jobs():
        outputs_at = [(0, 1), (2, 9), (3, 9), (4, 1), (5, 1), (6, 1)]
        return [Job(i, t, 1, output) for i, (t, output) in enumerate(outputs_at)]

    assert chosen({"kind": "least_outstanding"}, jobs()) == [0, 0, 1, 0, 0, 0]
    assert chosen({"kind": "least_outstanding", "staleness_s": 5}, jobs()) == [0, 1, 0, 1, 0, 1]


def test_unavailable_instances_are_passed_over_unless_there_is_no_other():
    groups = [group(), group(unavailable=[[0, 5]]), group(unavailable=[[3, 5]])]
    jobs = [Job(i, t, 1, 1) for i, t in enumerate([0, 0, 0, 6])]
    assert chosen({"kind": "round_robin"}, jobs, groups) == [0, 2, 0, 1]
    assert chosen({"kind": "random"}, [Job(0, 0.0, 1, 1, uniform=0.5)], groups) == [2]
    alone = [Job(0, 1.0, 1, 1)]
    assert chosen({"kind": "least_waiting"}, alone, [group(unavailable=[[0, 5]])]) == [0]
    assert alone[0].first_scheduled == 5


def test_the_decode_router_uses_other_digits_of_the_random_number():
    groups = [group(2, role="prefill"), group(2, role="decode")]
    kinds = {"router": {"kind": "random"}, "decode_router": {"kind": "random"}}
    jobs = [Job(i, 0.0, 1, 2, uniform=a / 2 + b * 2**-27) for i, (a, b) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)])]
    run({"instances": groups, **kinds}, jobs)
    assert [(job.instance, job.decode_instance) for job in jobs] == [(0, 2), (0, 3), (1, 2), (1, 3)]
