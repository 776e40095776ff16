"""One seed as a timeline for Perfetto (ui.perfetto.dev) and chrome://tracing, in the Trace Event Format.

Every instance is a process. Its first track has its batches, one slice for each iteration or stretch of iterations in
which nothing changed; the tracks below have its requests, packed so that slices never overlap: one for the whole
request, and inside it `queued`, `prefill` and `decode`. A request that was handed over is at both instances, at the
second with `waits for memory`, `waits for link`, `transfer`, `queued` and `decode`. Counters show requests that run and
wait, and KV blocks in use. Times are microseconds from the start of the seed.
"""

import heapq
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim._status import RequestStatus
from jaxsim._version import __version__
from jaxsim.metrics.events import Events
from jaxsim.metrics.occupancy import occupancy
from jaxsim.metrics.request_table import RequestTable
from jaxsim.result import replacing

SCHEMA_VERSION = 1

TraceEvent = dict[str, Any]

_ITERATIONS = 1
_REQUESTS = 2
"""Track of the batches, and first track of the requests."""


def timeline(
    table: RequestTable,
    events: Events | None = None,
    *,
    names: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """The timeline of one seed, ready for JSON.

    Args:
        table: the requests of one seed.
        events: its batches; without them there are no iterations and no KV blocks, and counts of requests come from the
            table, where preempted ones count as running.
        names: what instances are called; `instance 0` and so on by default.

    Returns:
        An object with `traceEvents`, `displayTimeUnit` and `otherData`.

    Raises:
        ValueError: the table has several seeds (`table.block(slice(0, 1))` is its first).
    """
    if table.num_seeds != 1:
        raise ValueError(
            f"a timeline is of one seed, not of {table.num_seeds}: give it table.block(slice(i, i + 1)) of your choice"
        )
    end_s = _end_s(table, events)
    numbers = set(table.instance[0].tolist()) | set(table.decode_instance[0].tolist())
    if events is not None:
        numbers |= set(events.instance.tolist())
    found: list[TraceEvent] = []
    for number in sorted(numbers - {-1}):
        pid = number + 1
        found += _names(pid, "process", (names or {}).get(number, f"instance {number}"), pid)
        found += list(_spans_of(table, number, end_s, pid))
        if events is None:
            found += _counts_of_requests(table, number, pid)
        else:
            found += _batches(events.of(number), pid)
    found += _not_routed(table)
    return {
        "traceEvents": found,
        "displayTimeUnit": "ms",
        "otherData": {
            "generator": f"jaxsim {__version__}",
            "schema_version": SCHEMA_VERSION,
            "seed": int(table.seed[0]),
        },
    }


def write_timeline(
    path: str | os.PathLike[str],
    table: RequestTable,
    events: Events | None = None,
    *,
    names: Mapping[int, str] | None = None,
) -> None:
    """Write `timeline` to a file, which is replaced when it is whole; the arguments are those of `timeline`.

    Raises:
        ValueError: the table has several seeds.
        OSError: the file cannot be written.
    """
    text = json.dumps(timeline(table, events, names=names), separators=(",", ":"), allow_nan=False)
    with replacing(Path(path)) as partial:
        partial.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class _Span:
    """What one instance does for one request.

    Attributes:
        name: of the slice around its phases.
        phases: name, start and end in seconds of each, one after the other.
        facts: of the request.
    """

    name: str
    phases: tuple[tuple[str, float, float], ...]
    facts: Mapping[str, Any]

    @property
    def start_s(self) -> float:
        return self.phases[0][1]

    @property
    def end_s(self) -> float:
        return self.phases[-1][2]


def _spans_of(table: RequestTable, number: int, end_s: float, pid: int) -> Iterator[TraceEvent]:
    """The requests of an instance on as few tracks as they fit on."""
    here = np.flatnonzero((table.instance[0] == number) | (table.decode_instance[0] == number))
    spans = [_span(table, int(one), number, end_s) for one in here]
    free: list[tuple[float, int]] = []
    tracks = 0
    for span in sorted(filter(None, spans), key=lambda span: span.start_s):
        if free and free[0][0] <= span.start_s:
            _, track = heapq.heappop(free)
        else:
            track, tracks = tracks, tracks + 1
            yield from _names(pid, "thread", f"requests {track}", _REQUESTS + track, tid=_REQUESTS + track)
        heapq.heappush(free, (span.end_s, track))
        place = {"pid": pid, "tid": _REQUESTS + track}
        yield _slice(span.name, "request", span.start_s, span.end_s, dict(span.facts), **place)
        for name, start_s, stop_s in span.phases:
            if stop_s > start_s:
                yield _slice(name, "phase", start_s, stop_s, {}, **place)


def _span(table: RequestTable, one: int, number: int, end_s: float) -> _Span | None:
    """A request's phases at an instance; None if it did nothing there. What never ended goes on to the end."""
    arrival, scheduled, first, finish = (
        float(getattr(table, name)[0, one]) for name in ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s")
    )
    end_s = end_s if np.isnan(finish) else finish
    decoder = int(table.decode_instance[0, one])
    if number == decoder:
        steps = _handed_over(table, one, first)
        last = end_s
    else:
        steps = [("queued", arrival), ("prefill", scheduled), ("decode", first)][: 3 if decoder < 0 else 2]
        last = end_s if decoder < 0 or np.isnan(first) else first
    steps = [(name, at) for name, at in steps if not np.isnan(at)]
    if not steps:
        return None
    ends = [*(at for _, at in steps[1:]), last]
    phases = [(name, at, stop) for (name, at), stop in zip(steps, ends, strict=True)]
    facts = {
        "prompt_tokens": int(table.prompt_tokens[0, one]),
        "output_tokens": int(table.output_tokens[0, one]),
        "cached_tokens": int(table.cached_tokens[0, one]),
        "preemptions": int(table.preemptions[0, one]),
        "status": RequestStatus(int(table.status[0, one])).name.lower(),
    }
    if not np.isnan(first):
        facts["ttft_ms"] = round((first - arrival) * 1e3, 6)
    return _Span(f"request {int(table.request[0, one])}", tuple(phases), facts)


def _handed_over(table: RequestTable, one: int, first: float) -> list[tuple[str, float]]:
    """What a request does at the instance that decodes it, each with when it begins; nan: it did not."""
    if table.kv_asked_s is None:
        return [("decode", first)]
    begins = (table.kv_asked_s, table.kv_granted_s, table.kv_started_s, table.kv_landed_s, table.decode_scheduled_s)
    names = ("waits for memory", "waits for link", "transfer", "queued", "decode")
    return [(name, float(of[0, one])) for name, of in zip(names, begins, strict=True) if of is not None]


def _batches(events: Events, pid: int) -> list[TraceEvent]:
    """Slices and counters of one instance."""
    found = _names(pid, "thread", "iterations", _ITERATIONS, tid=_ITERATIONS)
    for row in range(len(events)):
        prefill, decodes = int(events.prefill_tokens[row]), int(events.decodes[row])
        name = "mixed" if prefill and decodes else "prefill" if prefill else "decode"
        start_s, stop_s, iterations = float(events.start_s[row]), float(events.end_s[row]), int(events.iterations[row])
        facts: dict[str, Any] = {
            "iterations": iterations,
            "iteration_ms": round((stop_s - start_s) / iterations * 1e3, 6),
            **{field: int(getattr(events, field)[row]) for field in _FACTS},
        }
        found.append(_slice(name, "batch", start_s, stop_s, facts, pid=pid, tid=_ITERATIONS))
        found.append(_counter("requests", start_s, pid, running=facts["running"], waiting=facts["waiting"]))
        found.append(_counter("KV blocks", start_s, pid, used=facts["kv_blocks"]))
        if row + 1 == len(events) or events.start_s[row + 1] > events.end_s[row]:
            found.append(_counter("requests", stop_s, pid, running=0, waiting=0))
            found.append(_counter("KV blocks", stop_s, pid, used=0))
    return found


_FACTS = ("new_tokens", "prefill_tokens", "decodes", "context_tokens", "running", "waiting", "kv_blocks")


def _counts_of_requests(table: RequestTable, number: int, pid: int) -> list[TraceEvent]:
    found = occupancy(table, 0, number)
    return [
        _counter("requests", time_s, pid, running=running, waiting=waiting)
        for time_s, running, waiting in zip(
            found.time_s.tolist(), found.running.tolist(), found.waiting.tolist(), strict=True
        )
    ]


def _not_routed(table: RequestTable) -> list[TraceEvent]:
    """Requests that no instance took, as instants."""
    lost = np.flatnonzero(table.instance[0] < 0)
    if not len(lost):
        return []
    found = _names(0, "process", "not served", 0)
    for one in lost:
        status = RequestStatus(int(table.status[0, one])).name.lower()
        found.append(
            {
                "name": f"request {int(table.request[0, one])} {status}",
                "cat": "request",
                "ph": "i",
                "s": "p",
                "ts": _microseconds(float(table.arrival_s[0, one])),
                "pid": 0,
                "tid": 0,
                "args": {"prompt_tokens": int(table.prompt_tokens[0, one])},
            }
        )
    return found


def _end_s(table: RequestTable, events: Events | None) -> float:
    times = [table.arrival_s, table.first_scheduled_s, table.first_token_s, table.finish_s]
    latest = max((float(np.nanmax(time)) for time in times if not np.isnan(time).all()), default=0.0)
    return max(latest, float(events.end_s.max()) if events is not None and len(events) else 0.0)


def _names(pid: int, what: str, name: str, order: int, tid: int = 0) -> list[TraceEvent]:
    place = {"ph": "M", "pid": pid, "tid": tid, "ts": 0}
    return [
        {"name": f"{what}_name", **place, "args": {"name": name}},
        {"name": f"{what}_sort_index", **place, "args": {"sort_index": order}},
    ]


def _slice(
    name: str, category: str, start_s: float, end_s: float, facts: dict[str, Any], *, pid: int, tid: int
) -> TraceEvent:
    start, end = _microseconds(start_s), _microseconds(end_s)
    found = {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": start,
        "dur": round(end - start, 3),
        "pid": pid,
        "tid": tid,
    }
    return {**found, "args": facts} if facts else found


def _counter(name: str, time_s: float, pid: int, **values: int) -> TraceEvent:
    return {"name": name, "ph": "C", "ts": _microseconds(time_s), "pid": pid, "args": values}


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)
