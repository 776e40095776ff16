"""Properties of every scheduler of the oracle, so that a wrong oracle is found before it accuses the engine."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import draws
from tests.oracle.scenario import jobs_of, run

FLAGS = {
    "enable_chunked_prefill": True,
    "long_prefill_token_threshold": st.sampled_from([0, 1, 7]),
    "policy": st.sampled_from(["fcfs", "priority"]),
}
ORDERS = st.sampled_from(["fcfs", "priority", "shortest_prompt", "shortest_job", "longest_waiting"])
SEQS = {"max_num_seqs": st.integers(1, 8), "queue_order": ORDERS}
SCHEDULERS = {
    "vllm_v1": draws.vllm_v1_schedulers(**FLAGS),
    "vllm_v1 asynchronous": draws.vllm_v1_schedulers(**FLAGS, async_scheduling=True),
    "vllm_v0": st.fixed_dictionaries(
        {
            "kind": st.just("vllm_v0"),
            "max_num_batched_tokens": st.integers(94, 200),
            "padded_prompts": st.booleans(),
            **SEQS,
        }
    ),
    "sarathi": st.fixed_dictionaries({"kind": st.just("sarathi"), "chunk_size": st.integers(1, 64), **SEQS}),
    "orca": st.fixed_dictionaries({"kind": st.just("orca"), "max_model_len": st.just(96), **SEQS}),
    "static": st.fixed_dictionaries({"kind": st.just("static"), **SEQS}),
}


@pytest.mark.parametrize("kind", SCHEDULERS)
@settings(max_examples=60)
@given(data=st.data())
def test_conservation_and_order(kind, data):
    case = data.draw(draws.cases(data.draw(st.sampled_from([1, 6, 20])), SCHEDULERS[kind], instances=2))
    outcome = run(case.cluster, jobs_of(case.requests))
    assert outcome.status in ("ok", "livelock"), "every drawn request fits, so none may be stuck"
    if outcome.status == "ok":
        limit = case.cluster["instances"][0]["scheduler"].get("max_model_len", 10**6) if "v1" in kind else 10**6
        for job in outcome.jobs:
            assert job.emitted == len(job.token_times) == min(job.output, limit - job.prompt)
            assert job.arrival <= job.first_scheduled < job.first_token <= job.finish == job.token_times[-1]
            assert job.token_times == sorted(job.token_times)
            assert job.recomputed == 0 or job.preemptions > 0
        for instance in outcome.instances:
            assert instance.scheduler.used_blocks == 0
            assert sum(i.n for i in instance.iterations) >= sum(
                job.prompt + job.emitted - 1 for job in outcome.jobs if outcome.instances[job.instance] is instance
            )
    for instance in outcome.instances:
        scheduler = instance.scheduler
        for before, after in zip(instance.iterations, instance.iterations[1:], strict=False):
            assert before.end <= after.start
        for i in instance.iterations:
            assert i.start < i.end and i.running <= scheduler.max_num_seqs
            assert i.used_blocks <= scheduler.capacity
            assert i.resident_tokens <= i.used_blocks * scheduler.block_size
