"""A fleet whose router needs no state: every instance is a lane with its own stream of requests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from jaxsim import _loop
from jaxsim.cluster.instances import InstanceGroup
from jaxsim.cluster.routing import StaticRouter
from jaxsim.engine import lanes
from jaxsim.engine.record import ITL_BINS
from jaxsim.engine.shape import Shape
from jaxsim.workload import Requests


@dataclass(frozen=True, eq=False)
class FleetRecords:
    """What R seeds of N requests recorded, in the requests' order; per seed summed over the instances.

    Attributes:
        instance: int32 `[R, N]`; -1: not accepted.
        output_tokens: int32 `[R, N]`, tokens emitted when finished.
        first_scheduled_s: float64 `[R, N]`; nan: never, as in the following.
        first_token_s: float64 `[R, N]`.
        finish_s: float64 `[R, N]`.
        preemptions: int32 `[R, N]`.
        itl_counts: int64 `[R, ITL_BINS]`.
        kv_token_seconds: float64 `[R]`.
        makespan_s: float64 `[R]`, when the last instance stopped.
        iterations: int64 `[R]`.
        rounds: int64 `[R]`.
        recomputed_tokens: int64 `[R]`.
        status: int32 `[R]`, the worst `LaneStatus` of the instances.
    """

    instance: np.ndarray
    output_tokens: np.ndarray
    first_scheduled_s: np.ndarray
    first_token_s: np.ndarray
    finish_s: np.ndarray
    preemptions: np.ndarray
    itl_counts: np.ndarray
    kv_token_seconds: np.ndarray
    makespan_s: np.ndarray
    iterations: np.ndarray
    rounds: np.ndarray
    recomputed_tokens: np.ndarray
    status: np.ndarray


def simulate(
    groups: Sequence[InstanceGroup],
    router: StaticRouter,
    requests: Requests,
    accepted: np.ndarray,
    *,
    leap: bool,
    workers: Sequence[_loop.Worker],
    progress: Callable[[float], None] = lambda share: None,
) -> FleetRecords:
    """Simulate every seed.

    Args:
        groups: the instances, numbered in this order.
        router: which instance a request goes to.
        requests: of R seeds.
        accepted: bool `[R, N]`, requests that are served; the others are not routed.
        leap: advance whole stretches at once.
        workers: where to run.
        progress: called with the share of the work that was just finished.
    """
    seeds, count = requests.arrival_s.shape
    instances = sum(group.count for group in groups)
    instance = np.where(accepted, router.assign(accepted, requests.routing_uniform, instances), np.int32(-1))
    per_seed = {"iterations": np.int64, "rounds": np.int64, "recomputed_tokens": np.int64, "status": np.int32}
    fleet = FleetRecords(
        instance=instance.astype(np.int32),
        output_tokens=requests.output_tokens.copy(),
        first_scheduled_s=np.full((seeds, count), np.nan),
        first_token_s=np.full((seeds, count), np.nan),
        finish_s=np.full((seeds, count), np.nan),
        preemptions=np.zeros((seeds, count), np.int32),
        itl_counts=np.zeros((seeds, ITL_BINS), np.int64),
        kv_token_seconds=np.zeros(seeds),
        makespan_s=np.zeros(seeds),
        **{name: np.zeros(seeds, dtype) for name, dtype in per_seed.items()},
    )
    first = 0
    for group in groups:
        streams = _streams(instance, range(first, first + group.count))
        first += group.count
        if not streams.shape[-1]:
            continue
        share = group.count / instances / streams.shape[0]
        _run_group(group, requests, streams, fleet, leap, workers, lambda lanes, s=share: progress(lanes * s))
    return fleet


def _streams(instance: np.ndarray, numbers: range) -> np.ndarray:
    """Places of the requests of each instance, `[len(numbers) * R, M]`, padded with N; instance by instance."""
    seeds, count = instance.shape
    places = []
    for number in numbers:
        mine = instance == number
        longest = int(mine.sum(axis=1).max(initial=0))
        row, place = np.nonzero(mine)
        stream = np.full((seeds, longest), count)
        stream[row, np.cumsum(mine, axis=1)[row, place] - 1] = place
        places.append(stream)
    width = max(stream.shape[1] for stream in places)
    return np.concatenate([np.pad(s, ((0, 0), (0, width - s.shape[1])), constant_values=count) for s in places])


def _run_group(
    group: InstanceGroup,
    requests: Requests,
    streams: np.ndarray,
    fleet: FleetRecords,
    leap: bool,
    workers: Sequence[_loop.Worker],
    progress: Callable[[int], None],
) -> None:
    seeds, count = requests.arrival_s.shape
    seed = np.tile(np.arange(seeds), group.count)[:, None]
    there = streams < count
    place = np.minimum(streams, count - 1)

    def column(values: np.ndarray, padding: float) -> np.ndarray:
        return np.where(there, values[seed, place], values.dtype.type(padding))

    prompt_tokens = column(requests.prompt_tokens, 0)
    emitted = np.where(there, group.policy.emitted(prompt_tokens, column(requests.output_tokens, 0)), 0)
    lane_requests = lanes.LaneRequests(
        arrival_s=column(requests.arrival_s, np.inf),
        prompt_tokens=prompt_tokens,
        output_tokens=emitted.astype(np.int32),
    )
    most_slots = min(group.policy.max_num_seqs, streams.shape[1])
    shape = Shape(
        num_requests=streams.shape[1],
        slots=most_slots,
        block_size=group.block_size,
        kv=_kv_mode(group, lane_requests, there, most_slots),
        leap=leap,
    )
    records = lanes.simulate(group.model(), lane_requests, shape, most_slots, workers, progress)

    row, place = np.broadcast_to(seed, streams.shape)[there], streams[there]
    fleet.output_tokens[row, place] = lane_requests.output_tokens[there]
    for name in ("first_scheduled_s", "first_token_s", "finish_s", "preemptions"):
        getattr(fleet, name)[row, place] = getattr(records, name)[there]
    for name in ("itl_counts", "kv_token_seconds", "iterations", "recomputed_tokens"):
        values = getattr(records, name)
        getattr(fleet, name)[:] += values.reshape(group.count, seeds, *values.shape[1:]).sum(axis=0)
    for name in ("makespan_s", "rounds", "status"):
        values = getattr(records, name).reshape(group.count, seeds)
        np.maximum(getattr(fleet, name), values.max(axis=0), out=getattr(fleet, name))


def _kv_mode(
    group: InstanceGroup, requests: lanes.LaneRequests, there: np.ndarray, most_slots: int
) -> Literal["unlimited", "watched", "counted"]:
    """How closely to look at the KV pool: not at all if the largest requests that may run together fit; if it is large
    against one request it is probably never full, and watching is enough to know."""
    if group.num_blocks is None:
        return "unlimited"
    largest = int(group.most_blocks(requests.prompt_tokens, requests.output_tokens)[there].max(initial=0))
    reserved = int(group.model().pool.watermark_blocks)
    if largest * (most_slots + 1) + reserved <= group.num_blocks:
        return "unlimited"
    return "watched" if largest * 16 <= group.num_blocks else "counted"
