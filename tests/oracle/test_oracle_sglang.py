"""sglang by hand: iterations of one second, blocks of one token unless told otherwise."""

import pytest

from tests.oracle.job import Job
from tests.oracle.scenario import run
from tests.oracle.small import disaggregated, group


def serve(jobs, num_blocks=1000, block_size=1, **scheduler):
    kv_cache = {"num_blocks": num_blocks, "block_size": block_size}
    outcome = run({"instances": [group(scheduler={"kind": "sglang", **scheduler}, kv_cache=kv_cache)]}, jobs)
    return outcome.jobs, outcome.instances[0]


def test_prefills_run_alone_and_first():
    jobs, instance = serve([Job(0, 0.0, 3, 4), Job(1, 1.5, 2, 2)])
    assert jobs[0].token_times == [1, 2, 4, 5]
    assert jobs[1].token_times == [3, 4]
    assert [i.n for i in instance.iterations] == [3, 1, 2, 2, 1]


def test_one_request_at_a_time_is_cut_into_pieces_and_others_fill_what_it_leaves():
    jobs, instance = serve([Job(0, 0.0, 6, 1), Job(1, 0.0, 3, 1), Job(2, 0.0, 1, 1)], chunked_prefill_size=4)
    assert [i.n for i in instance.iterations] == [4, 4, 2]
    assert [job.first_token for job in jobs] == [2, 3, 3]


def test_pieces_are_whole_blocks_until_the_last():
    _, instance = serve([Job(0, 0.0, 9, 1)], chunked_prefill_size=6, block_size=4)
    assert [i.n for i in instance.iterations] == [4, 5]


def test_without_chunks_the_first_prompt_may_exceed_the_limit_and_the_next_may_not_reach_it():
    jobs = [Job(0, 0.0, 9, 1), Job(1, 0.0, 2, 1), Job(2, 0.0, 3, 1), Job(3, 0.0, 1, 1)]
    _, instance = serve(jobs, chunked_prefill_size=None, max_prefill_tokens=5)
    assert [i.n for i in instance.iterations] == [9, 2, 3 + 1]


def test_slots_count_the_request_in_pieces():
    _, instance = serve([Job(i, 0.0, 3, 2) for i in range(3)], chunked_prefill_size=5, max_running_requests=2)
    assert [i.n for i in instance.iterations] == [3 + 2, 1, 2, 3, 1]


@pytest.mark.parametrize(("output", "start"), [(4, 1), (5, 10)])
def test_room_is_kept_for_a_share_of_what_running_requests_may_still_emit(output, start):
    """4 + output + 1 tokens must fit in 16 free ones without 0.7 x 9; each decode takes more than it gives back."""
    jobs, _ = serve([Job(0, 0.0, 4, 10), Job(1, 0.5, 4, output)], num_blocks=20)
    assert jobs[1].first_scheduled == start


def test_requests_that_ignore_the_end_of_sequence_keep_room_for_all_they_may_emit():
    jobs, _ = serve([Job(0, 0.0, 4, 10), Job(1, 0.5, 4, 4)], num_blocks=20, ignore_eos=True)
    assert jobs[1].first_scheduled == 10


def test_the_share_decays_with_decodes_and_starts_anew_when_idle():
    """After 301 decodes it is 0.398: 398 free blocks less 0.398 x 300 leave 278 for prompt, 5 outputs and 1 block."""
    for prompt, start in ((272, 302), (273, 602)):
        jobs, instance = serve([Job(0, 0.0, 1, 602), Job(1, 301.5, prompt, 5)], num_blocks=700)
        assert (jobs[1].first_scheduled, instance.scheduler.ratio) == (start, 0.7)


def test_retraction_takes_the_fewest_outputs_then_the_longest_prompt_and_requeues_at_the_tail():
    """At 6 they hold 7 and 6 of 14 blocks and two more are needed: the longer prompt goes, the other decodes on."""
    jobs = [Job(0, 0.0, 3, 6), Job(1, 0.0, 2, 6), Job(2, 5.5, 1, 1)]
    serve(jobs, num_blocks=14, conservativeness=0.3, max_prefill_tokens=1)  # one prompt a batch
    assert jobs[0].token_times == [1, 3, 4, 5, 6, 9]
    assert jobs[1].token_times == [2, 3, 4, 5, 6, 7]
    assert jobs[2].token_times == [8]
    assert [job.preemptions for job in jobs] == [1, 0, 0]


def test_the_last_request_that_does_not_fit_is_aborted():
    cluster = disaggregated({"bandwidth_bytes_per_s": None}, {"num_blocks": 4, "scheduler": {"kind": "sglang"}})
    outcome = run(cluster, [Job(0, 0.0, 3, 5), Job(1, 0.0, 2, 2)])
    assert outcome.status == "ok"
    assert outcome.jobs[0].ending == "aborted" and outcome.jobs[0].finish is None
    assert outcome.jobs[0].token_times == [1, 2]
    assert outcome.jobs[1].token_times == [1, 3], "its transfer got the memory that the abort freed"
