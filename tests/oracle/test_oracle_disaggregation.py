"""Transfers and role switching by hand: iterations of one second, a transfer of a second a token."""

import pytest

from tests.oracle.job import Job
from tests.oracle.scenario import run
from tests.oracle.small import disaggregated, group


def test_a_request_is_stamped_all_along_its_way():
    job = Job(0, 0.5, 3, 3)
    run(disaggregated({"latency_s": 0.25}), [job])
    assert (job.instance, job.decode_instance) == (0, 1)
    assert (job.kv_asked, job.kv_granted, job.kv_started, job.kv_landed) == (1.5, 1.5, 1.5, 4.75)
    assert job.token_times == [1.5, 5.75, 6.75]
    assert job.breakdown == {
        "queue_prefill": 0,
        "prefill": 1,
        "wait_memory": 0,
        "wait_link": 0,
        "transfer": 3.25,
        "queue_decode": 0,
    }


def test_with_one_output_nothing_is_transferred():
    job = Job(0, 0.0, 3, 1)
    outcome = run(disaggregated({}), [job])
    assert (job.finish, job.decode_instance, outcome.transfers) == (1, -1, [])


@pytest.mark.parametrize(
    ("contention", "landings"),
    [("none", [3, 4, 5]), ("link", [3, 6, 5]), ("nic", [3, 6, 10])],
)
def test_links_and_network_cards_carry_one_transfer_at_a_time(contention, landings):
    """Requests 0 and 1 on one prefill instance, 2 on the other; all prefills end at 1."""
    router = {"kind": "weighted_capacity", "weights": [1]}
    jobs = [Job(0, 0.0, 2, 2, uniform=0.1), Job(1, 0.0, 3, 2, uniform=0.1), Job(2, 0.0, 4, 2, uniform=0.9)]
    run(disaggregated({"contention": contention}, prefills=2, router=router), jobs)
    assert [job.kv_landed for job in jobs] == landings


def test_a_transfer_waits_for_memory_and_keeps_its_place():
    """4 blocks: 0 takes all; 1 gets its 4 when 0 ends, 2 would fit earlier but came later."""
    jobs = [Job(0, 0.0, 3, 2), Job(1, 0.0, 3, 2), Job(2, 0.0, 1, 2)]
    run(disaggregated({}, {"num_blocks": 4}), jobs)
    assert [job.kv_granted for job in jobs] == [1, 5, 9]
    assert [job.token_times[1] for job in jobs] == [5, 9, 11]


def test_blocks_at_the_prefill_instance_are_held_until_the_landing():
    cluster = disaggregated({})
    cluster["instances"][0] = group(role="prefill", num_blocks=5)
    jobs = [Job(0, 0.0, 4, 2), Job(1, 0.5, 4, 1)]
    run(cluster, jobs)
    assert jobs[0].kv_landed == jobs[1].first_scheduled == 5


@pytest.mark.parametrize(("prompt", "budget", "left"), [(2, 9, 2 - 3 / 4), (4, 1, 4 / 4), (4, 2, 4 - 2 * 3 / 4)])
def test_layers_are_sent_while_the_prefill_goes_on(prompt, budget, left):
    """Prefills of 1, 4 and 2 seconds, 4 layers; the last layer is always still to send."""
    cluster = disaggregated({"latency_s": 0.5, "overlap": "layerwise", "layers": 4})
    cluster["instances"][0] = group(role="prefill", scheduler={"max_num_batched_tokens": budget})
    job = Job(0, 0.0, prompt, 2)
    run(cluster, [job])
    assert job.kv_landed - job.kv_asked == 0.5 + left


def switching(high, low):
    return {"role_switching": {"queue_tokens_high": high, "queue_tokens_low": low}}


def test_a_decode_instance_takes_prefills_while_many_wait_and_keeps_them():
    """One slot for prefills; request 3 finds 3 + 4 tokens waiting, request 5 finds none."""
    cluster = disaggregated({}, router={"kind": "least_waiting"}, **switching(6, 2))
    cluster["instances"][0] = group(role="prefill", scheduler={"max_num_seqs": 1})
    jobs = [Job(i, t, p, 2) for i, (t, p) in enumerate([(0, 2), (0.1, 3), (0.2, 4), (0.3, 1), (9, 1), (10.5, 1)])]
    run(cluster, jobs)
    assert [job.instance for job in jobs] == [0, 0, 0, 1, 0, 0]
    assert [job.decode_instance for job in jobs] == [1, 1, 1, 1, 1, 1]
    assert jobs[3].token_times == [1.3, 2.3] and jobs[3].kv_asked is None


def test_a_prefill_instance_takes_decodes_while_many_wait():
    """Request 0 is on its way with 4 tokens when 1 asks: instance 0 is lent, where 1 is already and 2 comes to stay."""
    jobs = [Job(0, 0.0, 4, 4), Job(1, 1.0, 4, 2), Job(2, 2.0, 2, 2)]
    run(disaggregated({}, **switching(3, 1)), jobs)
    assert [job.decode_instance for job in jobs] == [1, 0, 0]
    assert (jobs[1].kv_asked, jobs[1].kv_landed, jobs[1].token_times) == (2, 2, [2, 3])
    assert (jobs[2].kv_asked, jobs[2].token_times) == (None, [3, 4])


def test_a_lent_instance_is_called_back_when_few_wait():
    cluster = disaggregated({}, router={"kind": "least_waiting"}, **switching(2, 1))
    cluster["instances"][0] = group(role="prefill", scheduler={"max_num_seqs": 1})
    outcome = run(cluster, [Job(0, 0.0, 2, 1), Job(1, 0.1, 5, 1), Job(2, 0.2, 2, 1), Job(3, 5.0, 1, 1)])
    assert [job.instance for job in outcome.jobs] == [0, 0, 1, 0]
    assert not any(instance.is_lent for instance in outcome.instances)


def test_static_batches_on_both_sides():
    """9 blocks: 0 and 1 prefill together, 2 when 0 has landed at 3, 3 when 1 has at 4. Then 0 decodes alone until 6, 1
    and 3 until 11, of which 1 is padding from 7 on, and 2, which landed at 8."""
    static = {"scheduler": {"kind": "static"}}
    cluster = disaggregated({}, static)
    cluster["instances"][0] = group(role="prefill", num_blocks=9, **static)
    jobs = [Job(0, 0.0, 2, 4), Job(1, 0.0, 3, 2), Job(2, 0.0, 4, 3), Job(3, 1.5, 1, 6)]
    outcome = run(cluster, jobs)
    assert [job.token_times for job in jobs] == [[1, 4, 5, 6], [1, 7], [4, 12, 13], [5, 7, 8, 9, 10, 11]]
    assert [i.k for i in outcome.instances[1].iterations] == [3, 4, 5, 4 + 2, 5 + 3, 6 + 4, 7 + 5, 8 + 6, 5, 6]
