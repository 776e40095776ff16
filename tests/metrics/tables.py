"""Small tables of requests and totals of lanes for tests."""

from typing import Any

import numpy as np

from jaxsim._status import RequestStatus
from jaxsim.metrics import Accumulator, LaneTotals, RequestTable
from jaxsim.metrics.request_table import STAMPS

EDGES_S = np.geomspace(1e-3, 10.0, 401)
"""400 bins, each 2.3 % wide."""


def table(**columns: Any) -> RequestTable:
    """A table of one or more seeds; what is not given is zero, alone on instance 0, and completed. With any of `STAMPS`
    the others of them are nan."""
    arrival = np.atleast_2d(np.asarray(columns.pop("arrival_s"), np.float64))
    seeds = np.atleast_1d(np.asarray(columns.pop("seed", np.arange(len(arrival))), np.int64))
    whole: dict[str, Any] = {
        "request": np.arange(arrival.shape[1]),
        "prompt_tokens": 10,
        "output_tokens": 2,
        "instance": 0,
        "decode_instance": -1,
        "preemptions": 0,
        "cached_tokens": 0,
    }
    times = {"first_scheduled_s": arrival, "first_token_s": arrival + 1, "finish_s": arrival + 2}
    status = np.broadcast_to(np.asarray(columns.pop("status", RequestStatus.COMPLETED), np.int8), arrival.shape)
    for name, default in whole.items():
        whole[name] = np.broadcast_to(np.asarray(columns.pop(name, default), np.int32), arrival.shape)
    if set(STAMPS) & set(columns):
        times |= dict.fromkeys(STAMPS, np.nan)
    for name, default in times.items():
        times[name] = np.broadcast_to(np.asarray(columns.pop(name, default), np.float64), arrival.shape)
    assert not columns, columns
    return RequestTable(seed=seeds, arrival_s=arrival, status=status, **whole, **times)


def totals(requests: RequestTable, **columns: Any) -> LaneTotals:
    """The totals that fit a table: its makespan and gaps, half-full KV memory."""
    seeds = requests.num_seeds
    finish = np.where(np.isnan(requests.finish_s), 0, requests.finish_s)
    makespan = np.broadcast_to(np.asarray(columns.pop("makespan_s", finish.max(axis=1)), np.float64), seeds)
    counts = np.zeros((seeds, len(EDGES_S) - 1), np.int64)
    tpot, gaps = requests.tpot_s, requests.output_tokens - 1
    for row in range(seeds):
        some = np.isfinite(tpot[row])
        bins = np.clip(np.searchsorted(EDGES_S, tpot[row, some], side="right") - 1, 0, len(EDGES_S) - 2)
        np.add.at(counts[row], bins, gaps[row, some])
    found = {
        "itl_counts": counts,
        "kv_token_seconds": makespan * 50,
        "kv_capacity_token_seconds": makespan * 100,
        "makespan_s": makespan,
        "iterations": np.ones(seeds, np.int64),
        "rounds": np.ones(seeds, np.int64),
        "recomputed_tokens": np.zeros(seeds, np.int64),
        "status": np.zeros(seeds, np.int32),
    }
    return LaneTotals(**found | {name: np.asarray(value) for name, value in columns.items()})


def random_table(rng: np.random.Generator, seeds: int, requests: int, first_seed: int = 0) -> RequestTable:
    """Seeds that differ from each other more than their requests do; a third of the requests does not queue."""
    shape, pace = (seeds, requests), rng.gamma(20, 1 / 20, (seeds, 1))
    arrival = np.cumsum(rng.exponential(0.2, shape), axis=1)
    scheduled = arrival + rng.exponential(pace, shape) * (rng.random(shape) < 0.67)
    first = scheduled + 0.05 + rng.exponential(0.1, shape)
    tokens = rng.geometric(0.05, shape)
    return table(
        seed=first_seed + np.arange(seeds),
        arrival_s=arrival,
        output_tokens=tokens,
        first_scheduled_s=scheduled,
        first_token_s=first,
        finish_s=first + (tokens - 1) * 0.02 * pace * rng.uniform(0.9, 1.1, shape),
    )


def accumulated(*tables: RequestTable, **settings: Any) -> Accumulator:
    """An accumulator that has been given these tables."""
    accumulator = Accumulator(itl_edges_s=EDGES_S, **settings)
    for requests in tables:
        accumulator.add(requests, totals(requests))
    return accumulator
