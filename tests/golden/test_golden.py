"""jaxsim reproduces, request by request, what the real schedulers did; stepping every iteration and leaping."""

import math

import pytest

from jaxsim.config.io import load_scenario
from jaxsim.simulate import run
from tests.golden import cases

CORE = (
    "vllm-tiny-ample",
    "vllm-tiny-edges",
    "vllm-tiny-preempt",
    "vllm-tiny-preempt-noreserve",
    "vllm-ample-b2048",
    "vllm-seqs8",
    "vllm-burst-t0",
    "vllm-tight-b512",
)


@pytest.mark.parametrize("leap", ["true", "false"])
@pytest.mark.parametrize("name", CORE)
def test_engine_reproduces(name, leap):
    case = cases.load(name)
    table = run(load_scenario(case.path, overrides=[f"engine.leap={leap}"])).requests
    columns = {
        "request": table.request,
        "output_tokens": table.output_tokens,
        "instance": table.instance,
        "decode_instance": table.decode_instance,
        "first_scheduled_s": table.first_scheduled_s,
        "first_token_s": table.first_token_s,
        "finish_s": table.finish_s,
        "preemptions": table.preemptions,
    }
    records = [
        dict(zip(columns, row, strict=True)) for row in zip(*(c[0].tolist() for c in columns.values()), strict=True)
    ]
    assert cases.differences(case, records) == []
    assert not any(math.isnan(record["finish_s"]) for record in records)
