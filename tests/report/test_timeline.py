"""Timelines: valid in the Trace Event Format, slices nest, and they say what the tables say."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxsim._status import RequestStatus
from jaxsim.metrics.request_table import STAMPS
from jaxsim.report.timeline import timeline, write_timeline
from tests.metrics.tables import table
from tests.metrics.test_events import events
from tests.metrics.test_occupancy import handed_over
from tests.report.results import HOSTILE, requests_of

Trace = dict[str, Any]


def check_format(trace: Trace) -> None:
    """The rules of the Trace Event Format for the phases that are used, as importers check them."""
    trace = json.loads(json.dumps(trace, allow_nan=False))
    assert trace["displayTimeUnit"] in ("ms", "ns") and isinstance(trace["traceEvents"], list)
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    named = set()
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str) and event["name"]
        assert isinstance(event["pid"], int) and isinstance(event.get("tid", 0), int)
        assert isinstance(event["ts"], int | float) and math.isfinite(event["ts"]) and event["ts"] >= 0
        match event["ph"]:
            case "X":
                assert isinstance(event["dur"], int | float) and event["dur"] >= 0 and isinstance(event["cat"], str)
                tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
            case "C":
                assert event["args"] and all(isinstance(value, int | float) for value in event["args"].values())
            case "i":
                assert event["s"] in ("g", "p", "t")
            case "M":
                kind, field = event["name"], event["args"]
                assert kind in ("process_name", "process_sort_index", "thread_name", "thread_sort_index")
                assert isinstance(field["name"], str) if kind.endswith("name") else isinstance(field["sort_index"], int)
                named.add((event["pid"], event["tid"]) if kind == "thread_name" else event["pid"])
            case phase:
                raise AssertionError(f"phase {phase}")
    for track, slices in tracks.items():
        assert track in named and track[0] in named
        open_: list[float] = []
        for start, end in sorted(slices, key=lambda one: (one[0], -one[1])):
            while open_ and open_[-1] <= start + 1e-3:
                open_.pop()
            assert not open_ or end <= open_[-1] + 1e-3, f"slices of {track} overlap without nesting"
            open_.append(end)


def slices(trace: Trace, category: str) -> list[Trace]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X" and event["cat"] == category]


def counters(trace: Trace, name: str, pid: int) -> list[tuple[float, dict[str, int]]]:
    return [
        (e["ts"], e["args"]) for e in trace["traceEvents"] if e["ph"] == "C" and (e["name"], e["pid"]) == (name, pid)
    ]


def test_a_request_by_hand() -> None:
    one = table(
        seed=[7], arrival_s=[1.0], first_scheduled_s=1.5, first_token_s=2.0, finish_s=4.0, request=[12],
        prompt_tokens=512, output_tokens=20, preemptions=1,
    )  # fmt: skip
    trace = timeline(one)
    check_format(trace)
    [whole] = slices(trace, "request")
    assert (whole["name"], whole["ts"], whole["dur"], whole["pid"]) == ("request 12", 1e6, 3e6, 1)
    assert whole["args"] == {
        "prompt_tokens": 512, "output_tokens": 20, "cached_tokens": 0, "preemptions": 1, "status": "completed",
        "ttft_ms": 1000.0,
    }  # fmt: skip
    phases = [(phase["name"], phase["ts"] / 1e6, phase["dur"] / 1e6) for phase in slices(trace, "phase")]
    assert phases == [("queued", 1.0, 0.5), ("prefill", 1.5, 0.5), ("decode", 2.0, 2.0)]
    assert counters(trace, "requests", 1) == [
        (0.0, {"running": 0, "waiting": 0}),
        (1e6, {"running": 0, "waiting": 1}),
        (1.5e6, {"running": 1, "waiting": 0}),
        (4e6, {"running": 0, "waiting": 0}),
    ]
    assert trace["otherData"]["seed"] == 7


def test_batches_by_hand() -> None:
    trace = timeline(table(arrival_s=[0.0, 0.2, 0.5], instance=[0, 0, 1]), events())
    check_format(trace)
    batches = [(batch["pid"], batch["name"], batch["ts"], batch["dur"]) for batch in slices(trace, "batch")]
    assert batches == [(1, "prefill", 0.0, 1e6), (1, "decode", 1e6, 3e6), (2, "prefill", 5e5, 1.5e6)]
    assert slices(trace, "batch")[1]["args"] == {
        "iterations": 30, "iteration_ms": 100.0, "new_tokens": 60, "prefill_tokens": 0, "decodes": 2,
        "context_tokens": 514, "running": 2, "waiting": 0, "kv_blocks": 40,
    }  # fmt: skip
    assert counters(trace, "KV blocks", 1) == [(0.0, {"used": 32}), (1e6, {"used": 40}), (4e6, {"used": 0})]
    assert counters(trace, "requests", 2) == [(5e5, {"running": 1, "waiting": 0}), (2e6, {"running": 0, "waiting": 0})]


def test_requests_are_packed_on_few_tracks() -> None:
    trace = timeline(requests_of(seeds=1, requests=200, instances=3))
    check_format(trace)
    assert len(slices(trace, "request")) == 200
    for pid in (1, 2, 3):
        spans = [(s["ts"], s["ts"] + s["dur"]) for s in slices(trace, "request") if s["pid"] == pid]
        most = max(sum(start <= at < end for start, end in spans) for at, _ in spans)
        assert len({s["tid"] for s in slices(trace, "request") if s["pid"] == pid}) == most


def test_requests_that_are_handed_over_are_on_two_instances() -> None:
    trace = timeline(handed_over())
    check_format(trace)
    phases = [(phase["pid"], phase["name"], phase["ts"] / 1e6, phase["dur"] / 1e6) for phase in slices(trace, "phase")]
    assert phases == [
        (1, "prefill", 0, 1), (1, "prefill", 1, 1), (2, "waits for memory", 1, 0.25), (2, "transfer", 1.25, 0.5),
        (2, "queued", 1.75, 0.25), (2, "decode", 2, 3),
    ]  # fmt: skip
    plain = dataclasses.replace(handed_over(), **dict.fromkeys(STAMPS))
    assert [phase["name"] for phase in slices(timeline(plain), "phase")] == ["prefill", "prefill", "decode"]
    check_format(timeline(plain))


def test_rejected_and_unfinished_requests() -> None:
    some = table(
        arrival_s=[[0.0, 1.0, 2.0, 3.0]],
        instance=[0, -1, 0, 0],
        output_tokens=0,
        status=[RequestStatus.UNFINISHED, RequestStatus.REJECTED, RequestStatus.UNFINISHED, RequestStatus.COMPLETED],
        first_scheduled_s=[0.5, np.nan, np.nan, 3.0],
        first_token_s=[np.nan, np.nan, np.nan, 4.0],
        finish_s=[np.nan, np.nan, np.nan, 9.0],
    )
    trace = timeline(some)
    check_format(trace)
    ends = {s["name"]: s["ts"] + s["dur"] for s in slices(trace, "request")}
    assert ends == {"request 0": 9e6, "request 2": 9e6, "request 3": 9e6}
    [instant] = [event for event in trace["traceEvents"] if event["ph"] == "i"]
    assert instant["name"] == "request 1 rejected"


def test_names_and_files(tmp_path: Path) -> None:
    write_timeline(tmp_path / "t.json", requests_of(seeds=1, requests=5), names={0: HOSTILE})
    trace = json.loads((tmp_path / "t.json").read_text())
    check_format(trace)
    names = [event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"]
    assert names == [HOSTILE, "instance 1"]
    with pytest.raises(ValueError, match="a timeline is of one seed, not of 4"):
        timeline(requests_of())
