"""Properties of every fleet of the oracle: nothing is lost, made up or in two places at once."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests import draws
from tests.oracle.fleet import Outcome
from tests.oracle.scenario import jobs_of, run

COUNTS = st.sampled_from([1, 6, 15])


def simulate(case: draws.DrawnCase) -> Outcome:
    return run(case.cluster, jobs_of(case.requests), case.arrivals)


@settings(max_examples=300)
@given(data=st.data())
def test_conservation(data):
    case = data.draw(draws.fleets(data.draw(COUNTS)))
    outcome = simulate(case)
    groups = case.cluster["instances"]
    kinds = {group["scheduler"]["kind"] for group in groups}
    event(f"ended {outcome.status}")
    if (
        outcome.status == "stuck"
    ):  # every request fits: two prefill instances that are lent wait for each other's memory
        assert case.cluster["role_switching"] and groups[0]["count"] == 2
    if outcome.status != "ok":
        return
    for job in outcome.jobs:
        check_times(job)
        scheduler = outcome.instances[job.instance if job.decode_instance < 0 else job.decode_instance].scheduler
        assert job.ending != "finished" or job.emitted == scheduler.all_outputs(job)
        assert job.ending != "aborted" or "sglang" in kinds
        assert job.ending != "lost" or any(group["on_failure"] == "lose" for group in groups)
        assert job.recomputed == 0 or job.preemptions + job.requeues > 0
    for instance in outcome.instances:
        scheduler = instance.scheduler
        assert scheduler.used_blocks == scheduler.outstanding == len(scheduler.waiting) == 0
    if "static" not in kinds and not any(job.requeues or job.ending == "lost" for job in outcome.jobs):
        granted = sum(i.n for instance in outcome.instances for i in instance.iterations)
        assert granted == sum(job.farthest + job.recomputed for job in outcome.jobs)
        for job in outcome.jobs:
            assert job.ending == "aborted" or job.farthest == job.prompt + job.emitted - 1


def check_times(job):
    assert job.emitted == len(job.token_times)
    assert job.token_times == sorted(job.token_times)
    assert job.arrival <= job.sent
    if job.first_scheduled is not None:
        assert job.sent <= job.first_scheduled
    if job.token_times:
        assert job.first_scheduled < job.first_token
    if job.ending == "finished":
        assert job.finish == job.token_times[-1]
    stamps = (job.kv_asked, job.kv_granted, job.kv_started, job.kv_landed, job.decode_scheduled)
    known = [stamp for stamp in stamps if stamp is not None]
    assert known == sorted(known) and stamps == (*known, *[None] * (5 - len(known)))
    if job.ending == "finished" and len(known) == 5 and not job.requeues and job.first_token == job.kv_asked:
        parts = sum(job.breakdown.values())
        assert parts == pytest.approx(job.decode_scheduled - job.arrival)


@settings(max_examples=150)
@given(data=st.data())
def test_instances_do_one_thing_at_a_time(data):
    case = data.draw(draws.fleets(data.draw(COUNTS)))
    outcome = simulate(case)
    for instance in outcome.instances:
        group = case.cluster["instances"][instance.entry]
        for before, after in pairwise(instance.iterations):
            assert before.end <= after.start
        for i in instance.iterations:
            assert i.start < i.end and i.running <= instance.scheduler.max_num_seqs
            assert i.resident_tokens <= i.used_blocks * instance.scheduler.block_size
            assert i.used_blocks <= instance.scheduler.capacity
            assert not any(i.start < end and start < i.end for start, end in group["unavailable"])
            if instance.role == "prefill" and not case.cluster.get("role_switching"):
                assert i.decodes == 0 or group["scheduler"]["kind"] == "vllm_v1"  # one-token pieces


@settings(max_examples=150)
@given(data=st.data())
def test_links_carry_one_transfer_at_a_time_and_memory_is_first_come_first_served(data):
    case = data.draw(draws.fleets(data.draw(COUNTS), layouts=(("prefill", "decode"),)))
    outcome = simulate(case)
    on_link, at_target = defaultdict(list), defaultdict(list)
    for transfer in outcome.transfers:
        if transfer.started is not None:
            at_target[transfer.target].append(transfer)
            for link in transfer.links:
                on_link[link].append((transfer.started, transfer.landing))
    for times in on_link.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(times)))
    if case.cluster["kv_transfer"]["contention"] == "nic":
        for transfers in at_target.values():
            assert all(a.started <= b.started for a, b in pairwise(transfers))


@settings(max_examples=150)
@given(data=st.data())
def test_clients_never_have_more_in_flight_than_they_may(data):
    kind = data.draw(st.sampled_from(["closed_loop", "max_in_flight"]))
    case = data.draw(draws.fleets(data.draw(COUNTS), extras=("outages", kind)))
    outcome = simulate(case)
    if not case.arrivals or outcome.status != "ok":
        return
    limit = case.arrivals.get("concurrency") or case.arrivals["max_in_flight"]
    sent = [job.sent for job in outcome.jobs]
    assert sent == sorted(sent)
    if all(job.ending == "finished" for job in outcome.jobs):
        for job in outcome.jobs:
            assert sum(other.sent < job.sent < other.finish for other in outcome.jobs) < limit


@settings(max_examples=100)
@given(data=st.data())
def test_doubling_all_times_doubles_all_results(data):
    case = data.draw(draws.fleets(data.draw(COUNTS)))
    outcome = simulate(case)
    for request in case.requests:
        request.arrival_s *= 2
        request.think_s = request.think_s and request.think_s * 2
    slow = run(doubled(case.cluster), jobs_of(case.requests), case.arrivals)
    assert slow.status == outcome.status
    for a, b in zip(outcome.jobs, slow.jobs, strict=True):
        assert (a.instance, a.decode_instance, a.preemptions) == (b.instance, b.decode_instance, b.preemptions)
        assert [2 * t for t in a.token_times] == b.token_times


def doubled(config: Any) -> Any:
    """Every time of a cluster's configuration doubled."""
    if isinstance(config, list):
        return [doubled(entry) for entry in config]
    if not isinstance(config, dict):
        return config
    return {key: _doubled(key, value) for key, value in config.items()}


def _doubled(key: str, value: Any) -> Any:
    if key == "unavailable":
        return [[2 * start, 2 * end] for start, end in value]
    if key == "bandwidth_bytes_per_s":
        return value and value / 2
    return 2 * value if key.endswith("_s") else doubled(value)
