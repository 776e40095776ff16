"""jaxsim reproduces, request by request, what the real schedulers did; stepping every iteration and leaping."""

import math

import pytest

from jaxsim.config.io import load_scenario
from jaxsim.simulate import run
from tests.golden import cases

STREAMS = (
    "vllm-tiny-ample",
    "vllm-tiny-edges",
    "vllm-tiny-preempt",
    "vllm-tiny-preempt-noreserve",
    "vllm-ample-b2048",
    "vllm-seqs8",
    "vllm-burst-t0",
    "vllm-tight-b512",
)
"""Of one instance that is simulated on its own, in programs that compile quickly: both ways every time."""

STEPPED = (
    "vllm-tiny-priority",
    "vllm-async-tiny-arrivals",
    "vllm-async-tiny-preempt",
    "vidur-vllm-tiny",
    "vidur-sarathi-tiny",
    "vidur-orca-tiny",
    "distserve-disagg-1p1d-fixed2rps",
)
"""Of whole fleets, stepped every time, so that leaping may be left to the others."""


def ways(name: str):
    """Every case leaping and stepping; one of the two only when there is time."""
    for leap in (True, False):
        every_time = name in STREAMS or leap != (name in STEPPED)
        yield pytest.param(
            name, leap, id=f"{name}-{'leap' if leap else 'step'}", marks=() if every_time else pytest.mark.slow
        )


@pytest.mark.parametrize(("name", "leap"), [way for name in cases.NAMES for way in ways(name)])
def test_engine_reproduces(name, leap):
    case = cases.load(name)
    table = run(load_scenario(case.path, overrides=[f"engine.leap={str(leap).lower()}"])).requests
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


def test_every_kind_of_case_is_there():
    assert set(STREAMS) | set(STEPPED) <= set(cases.NAMES)
    kinds = ("vllm", "vllm-async", "vidur-vllm", "vidur-sarathi", "vidur-orca", "distserve-coloc", "distserve-disagg")
    assert all(any(name.startswith(f"{kind}-") for name in cases.NAMES) for kind in kinds)
