"""How the engine's results are compared with the oracle's."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from jaxsim._status import LaneStatus, RequestStatus
from jaxsim.engine.record import STRETCH_SPREAD, itl_bin_edges
from jaxsim.metrics.request_table import RequestTable
from tests import lanes
from tests.draws import DrawnCase
from tests.oracle.fleet import Outcome
from tests.oracle.job import Job
from tests.oracle.scenario import jobs_of
from tests.oracle.scenario import run as run_oracle

TOLERANCE = 1e-9

STAMPS = {
    "kv_asked_s": "kv_asked",
    "kv_granted_s": "kv_granted",
    "kv_started_s": "kv_started",
    "kv_landed_s": "kv_landed",
    "decode_scheduled_s": "decode_scheduled",
}
STATUSES = {
    "finished": RequestStatus.COMPLETED,
    "aborted": RequestStatus.ABORTED,
    "lost": RequestStatus.LOST,
    "": RequestStatus.UNFINISHED,
}


def differences(table: RequestTable, outcome: Outcome, tolerance: float = TOLERANCE) -> list[str]:
    """Where the columns of one seed differ, in words."""
    found = []
    for i, job in enumerate(outcome.jobs):
        times = {"first_scheduled_s": job.first_scheduled, "first_token_s": job.first_token, "finish_s": job.finish}
        for name, expected in times.items():
            got = float(getattr(table, name)[0, i])
            if not same_time(got, expected, tolerance):
                found.append(f"request {i}: {name} is {got!r}, expected {expected!r}")
        counts = {"instance": job.instance, "output_tokens": job.emitted, "preemptions": job.preemptions}
        for name, count in counts.items():
            if (got := int(getattr(table, name)[0, i])) != count:
                found.append(f"request {i}: {name} is {got}, expected {count}")
    return found


def same_time(got: float, expected: float | None, tolerance: float = TOLERANCE) -> bool:
    """None is nan."""
    if expected is None:
        return math.isnan(got)
    return abs(got - expected) <= tolerance * expected


def disagreements(cases: Sequence[DrawnCase], leap: bool, exact: bool) -> tuple[list[str], dict[str, int]]:
    """Simulate the cases side by side and compare each with the oracle.

    Leaping sums a stretch in closed form, so that its ends may be an ulp away from where stepping puts them, and then
    an event that close falls on either side: near ties are left out. Where all times are binary fractions (`exact`)
    nothing is rounded, and nothing left out: events that coincide are in the order of the rules.

    Returns:
        What differs, in words, of the smallest case in which something does; and how many cases there were: `compared`,
        `near_ties`, `stuck` (by the oracle: only what had happened by then is compared), `preempted`, `differ`.
    """
    outcomes = [run_oracle(case.cluster, jobs_of(case.requests), case.arrivals) for case in cases]
    found, counts = [], dict.fromkeys(("compared", "near_ties", "stuck", "preempted", "differ"), 0)
    for case, lane, outcome in zip(cases, lanes.simulate(cases, leap), outcomes, strict=True):
        if not exact and is_near_tie(outcome, leap):
            counts["near_ties"] += 1
            continue
        counts["compared"] += 1
        counts["stuck"] += outcome.status != "ok"
        counts["preempted"] += any(job.preemptions for job in outcome.jobs)
        if wrong := list(lane_differences(lane, outcome)):
            counts["differ"] += 1
            found.append((len(case.requests), [lanes.told(case), *wrong]))
    return min(found, default=(0, []))[1], counts


def is_near_tie(outcome: Outcome, leap: bool) -> bool:
    """Whether rounding may swap two events. Leaping may also part ends of two instances that coincide."""
    if outcome.has_near_tie():
        return True
    ends = [end for instance in outcome.instances for end in {i.end for i in instance.iterations}]
    return leap and len(ends) > len(set(ends))


def lane_differences(lane: lanes.Lane, outcome: Outcome) -> Iterator[str]:
    """Where the records of one lane differ, in words. Of a lane that gets stuck, what has an end."""
    ended = outcome.status == "ok"
    status = int(lane.totals.status[0])
    if (status == LaneStatus.OK) != ended:
        yield f"the lane ended with {LaneStatus(status).name}, expected {outcome.status}"
    if outcome.status == "livelock":
        return  # where it is noticed, the oracle and the engine may differ
    for i, job in enumerate(outcome.jobs):
        yield from (f"request {i}: {line}" for line in _request_differences(lane.table, i, job, ended))
    if ended and not outcome.changes:
        yield from _total_differences(lane, outcome)


def _request_differences(table: RequestTable, i: int, job: Job, ended: bool) -> Iterator[str]:
    times = {"finish_s": job.finish}
    counts = {"status": int(STATUSES[job.ending])}
    if ended and job.ending != "lost":  # of those, what was on record when they were lost
        times |= {"first_scheduled_s": job.first_scheduled, "first_token_s": job.first_token, "arrival_s": job.arrival}
        if table.kv_asked_s is not None:
            times |= {name: getattr(job, attribute) for name, attribute in STAMPS.items()}
        counts |= {"instance": job.instance, "decode_instance": job.decode_instance, "preemptions": job.preemptions}
        if job.ending == "finished":
            counts["output_tokens"] = job.emitted
    for name, expected in times.items():
        got = float(getattr(table, name)[0, i])
        if not same_time(got, None if expected is not None and math.isnan(expected) else expected):
            yield f"{name} is {got!r}, expected {expected!r}"
    for name, count in counts.items():
        if (got := int(getattr(table, name)[0, i])) != count:
            yield f"{name} is {got}, expected {count}"


def _total_differences(lane: lanes.Lane, outcome: Outcome) -> Iterator[str]:
    totals, iterations = lane.totals, [i for instance in outcome.instances for i in instance.iterations]
    gaps = [b - a for job in outcome.jobs for a, b in zip(job.token_times, job.token_times[1:], strict=False)]
    counted = int(totals.itl_counts[0].sum())
    expected = {
        "iterations": (totals.iterations[0], len(iterations)),
        "recomputed_tokens": (totals.recomputed_tokens[0], sum(job.recomputed for job in outcome.jobs)),
        "kv_token_seconds": (
            totals.kv_token_seconds[0],
            sum(instance.kv_token_seconds for instance in outcome.instances),
        ),
        "makespan_s": (totals.makespan_s[0], max((i.end for i in iterations), default=0.0)),
        "gaps": (counted, len(gaps)),
    }
    for name, (got, want) in expected.items():
        if not math.isclose(got, want, rel_tol=TOLERANCE):
            yield f"{name} is {got}, expected {want}"
    if gaps and counted == len(gaps):
        edges = itl_bin_edges()
        # gaps of a stretch are counted at their mean: each within half the spread of where it belongs, and so in order
        low, high = (np.repeat(side, totals.itl_counts[0]) for side in (edges[:-1], edges[1:]))
        ordered = np.clip(np.sort(gaps), edges[0], edges[-1])
        outside = np.flatnonzero((ordered < low * (1 - STRETCH_SPREAD)) | (ordered > high * (1 + STRETCH_SPREAD)))
        if len(outside):
            place = outside[0]
            yield f"gap {place} is in [{low[place]}, {high[place]}], expected {ordered[place]}"
