"""Many drawn fleets side by side, as lanes of one compiled program.

A new structure compiles for seconds, while a lane takes milliseconds: so a test draws the structure once, and as many
numbers for it as it likes. They come from Hypothesis, but all at once, and without shrinking: a failure names the
smallest of the cases that fail, as text that can be pasted.
"""

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from unittest import mock

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from jaxsim import _loop
from jaxsim.cluster import whole
from jaxsim.config.io import parse_scenario
from jaxsim.job import Job, simulate_together
from jaxsim.metrics import LaneTotals, RequestTable
from jaxsim.workload import Requests
from jaxsim.workload.clients import Clients
from tests.draws import DrawnCase, Request, Structure
from tests.front_door import UNUSED_WORKLOAD

T = TypeVar("T")

SLOTS = 8
"""Of every program: drawn instances run at most so many requests at once."""


@dataclass(frozen=True)
class Lane:
    """One simulated case."""

    table: RequestTable
    totals: LaneTotals


def drawn(strategy: st.SearchStrategy[T], count: int, seed: int) -> list[T]:
    """`count` examples, always the same ones for a seed.

    Hypothesis begins with the simplest example, and goes on with variants of what it has drawn before: so each comes
    from a beginning of its own.
    """
    return [_example(strategy, f"{seed} {place}") for place in range(count)]


def _example(strategy: st.SearchStrategy[T], seed: str) -> T:
    examples: list[T] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=3,
        database=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(example: T) -> None:
        examples.append(example)

    collect()
    return examples[-1]


def simulate(cases: Sequence[DrawnCase], leap: bool, slots: int = SLOTS) -> list[Lane]:
    """Run every case; those of one structure share a program whatever their numbers are."""
    workers = _loop.workers(1)
    jobs = [Job(parse_scenario(scenario_of(case.cluster, leap)), requests_of_case(case), workers) for case in cases]
    real = whole._lanes_of

    def with_equal_slots(fleet: Any) -> Any:
        lanes = real(fleet)
        return dataclasses.replace(lanes, shape=dataclasses.replace(lanes.shape, slots=slots))

    with mock.patch.object(whole, "_lanes_of", with_equal_slots):
        found = simulate_together([(job, np.arange(1)) for job in jobs], lambda share: None)
    return [Lane(table, totals) for table, totals, _ in found]


def scenario_of(cluster: dict[str, Any], leap: bool = True) -> dict[str, Any]:
    """A scenario of a cluster in the words of a file, whose requests are given apart."""
    return {"workload": UNUSED_WORKLOAD, "cluster": cluster, "engine": {"leap": leap}}


def requests_of_case(case: DrawnCase) -> Requests:
    """The requests of a drawn case, and who sends them."""
    arrivals = case.arrivals or {}
    users = arrivals.get("concurrency")
    columns = {
        name: [getattr(request, name) for request in case.requests]
        for name in ("prompt_tokens", "output_tokens", "priority", "routing_uniform")
    }
    session = [request.session or str(place) for place, request in enumerate(case.requests)]
    arrival_s = [0.0 if users else request.arrival_s for request in case.requests]
    requests = Requests.from_arrays(arrival_s, **columns, session=session)
    if users:
        clients = Clients(concurrency=users, think_s=np.array([[request.think_s for request in case.requests]]))
        return dataclasses.replace(requests, clients=clients)
    if limit := arrivals.get("max_in_flight"):
        return dataclasses.replace(requests, clients=Clients(max_in_flight=limit))
    return requests


def told(case: DrawnCase) -> str:
    """The case as text that makes it again."""
    fields = [field.name for field in dataclasses.fields(Request)]
    requests = ", ".join(f"Request{tuple(getattr(request, name) for name in fields)}" for request in case.requests)
    return f"DrawnCase({case.cluster}, [{requests}], {case.arrivals})"


def settled(structure: Structure, seed: int) -> Structure:
    """The structure with what would be drawn, and shapes the program: instances of every entry, and users."""
    choose = random.Random(seed)
    counts = [entry.count or choose.choice([1, 2]) for entry in structure.entries]
    entries = tuple(dataclasses.replace(e, count=count) for e, count in zip(structure.entries, counts, strict=True))
    users = 4 if structure.clients == "closed_loop" else None
    return dataclasses.replace(structure, entries=entries, users=users)
