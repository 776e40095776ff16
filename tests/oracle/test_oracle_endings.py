"""The oracle always ends: with a status where the modelled scheduler would wait or turn for ever."""

import pytest

from tests.oracle.job import Job
from tests.oracle.scenario import run


def cluster(num_blocks, block_size=1, **scheduler):
    scheduler = {"kind": "vllm_v1", "async_scheduling": False} | scheduler
    kv_cache = {"num_blocks": num_blocks, "block_size": block_size}
    return {"instances": [{"latency": {"kind": "linear", "base_s": 1.0}, "scheduler": scheduler, "kv_cache": kv_cache}]}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_livelock_of_the_real_scheduler_is_detected(asynchronous):
    flags = {"policy": "priority", "reserve_full_prompt": False, "long_prefill_token_threshold": 1}
    outcome = run(cluster(num_blocks=7, async_scheduling=asynchronous, **flags), [Job(0, 0.0, 3, 4), Job(1, 0.0, 5, 2)])
    assert outcome.status == "livelock"
    assert [job.finish for job in outcome.jobs] == [None, None]


def test_a_request_that_outgrows_the_pool_is_stuck_and_holds_up_those_behind_it():
    outcome = run(cluster(num_blocks=4), [Job(0, 0.0, 1, 2), Job(1, 0.0, 3, 4), Job(2, 3.5, 1, 1)])
    assert outcome.status == "stuck"
    assert [job.finish is None for job in outcome.jobs] == [False, True, True]
    assert outcome.jobs[1].preemptions == 2  # to let the first grow, and when it outgrew the pool itself


def test_a_prompt_over_the_budget_without_chunked_prefill_is_stuck():
    limits = {"max_num_batched_tokens": 4, "enable_chunked_prefill": False}
    outcome = run(cluster(num_blocks=64, **limits), [Job(0, 0.0, 5, 1)])
    assert outcome.status == "stuck"
    assert outcome.jobs[0].first_scheduled is None
