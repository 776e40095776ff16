"""The oracle reproduces the golden cases: this is what entitles it to judge the engine."""

import math

import pytest

from tests.golden import cases
from tests.oracle.job import Job
from tests.oracle.scenario import run


def jobs_of(rows: list[dict[str, str]]) -> list[Job]:
    digits = len(str(len(rows)))
    jobs = [
        Job(
            index,
            float(row["arrival_s"]),
            int(row["prompt_tokens"]),
            int(row["output_tokens"]),
            int(row.get("priority") or 0),
            row.get("id") or str(index).zfill(digits),
        )
        for index, row in enumerate(rows)
    ]
    return sorted(jobs, key=lambda job: job.arrival)


def record(job: Job) -> dict[str, float]:
    return {
        "request": job.index,
        "output_tokens": job.emitted,
        "instance": job.instance,
        "decode_instance": job.decode_instance,
        "first_scheduled_s": math.nan if job.first_scheduled is None else job.first_scheduled,
        "first_token_s": math.nan if job.first_token is None else job.first_token,
        "finish_s": math.nan if job.finish is None else job.finish,
        "preemptions": job.preemptions,
    }


@pytest.mark.parametrize("name", cases.NAMES)
def test_oracle_reproduces(name):
    case = cases.load(name)
    outcome = run(case.scenario["cluster"], jobs_of(case.workload))
    assert outcome.status == "ok"
    assert cases.differences(case, map(record, outcome.jobs)) == []
    for instance in outcome.instances:
        assert instance.scheduler.free == instance.scheduler.capacity
        assert all(i.used_blocks <= instance.scheduler.capacity for i in instance.iterations)
