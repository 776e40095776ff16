"""Replications that start warm: what was before the start is simulated, and then forgotten."""

import dataclasses
from typing import Any

import numpy as np

from jaxsim.metrics import LaneTotals, RequestTable
from jaxsim.workload import Requests

_COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens", "routing_uniform", "row", "priority", "class_index")


def after(past: Requests, requests: Requests) -> tuple[Requests, np.ndarray]:
    """The requests behind those before the start, and when the start is, float64 `[R]`, if the first comes at 0.

    The start is at a whole second: adding it may round the last bit of an arrival, but taking it away from any later
    time is exact, so latencies are those that were simulated.
    """
    start_s = np.ceil(-past.arrival_s[:, 0])
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(past, name), getattr(requests, name)], axis=1) for name in _COLUMNS
    }
    columns["arrival_s"] += start_s[:, None]
    return dataclasses.replace(requests, **columns), start_s


def since_start(
    table: RequestTable, totals: LaneTotals, start_s: np.ndarray, past: int
) -> tuple[RequestTable, LaneTotals]:
    """The requests after the start, with times since then.

    Totals still include the past, except the makespan: gaps between tokens and the use of KV memory, whose summaries
    are shares, count from the empty start on.

    Args:
        table: what became of all.
        totals: of all.
        start_s: of each seed.
        past: how many came before.
    """
    own = table.block(requests=slice(past, None))
    names = [field.name for field in dataclasses.fields(own) if field.name.endswith("_s")]
    times = {name: getattr(own, name) - start_s[:, None] for name in names if getattr(own, name) is not None}
    return dataclasses.replace(own, **times), dataclasses.replace(totals, makespan_s=totals.makespan_s - start_s)
