"""A fleet whose router needs no state: every instance is a lane with its own stream of requests."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from jaxsim import _loop
from jaxsim.cluster.instances import InstanceGroup
from jaxsim.cluster.routing import StaticRouter
from jaxsim.cluster.served import Fleet, FleetRecords
from jaxsim.engine import lanes
from jaxsim.engine.lane_arrays import LaneRecords, LaneRequests, LaneSet
from jaxsim.engine.policy import StreamPolicy
from jaxsim.engine.record import ITL_BINS
from jaxsim.engine.shape import Shape


def can_serve(fleet: Fleet) -> bool:
    """Whether its instances can be simulated one by one."""
    policies = [group.policy for group in fleet.groups]
    streams = all(isinstance(policy, StreamPolicy) and policy.is_stream for policy in policies)
    always = all(group.role == "unified" and not group.unavailable for group in fleet.groups)
    return isinstance(fleet.router, StaticRouter) and streams and always and fleet.requests.clients is None


def simulate(
    fleets: Sequence[Fleet],
    workers: Sequence[_loop.Worker],
    progress: Callable[[float], None] = lambda share: None,
) -> list[FleetRecords]:
    """Simulate every seed of every fleet; instances of equal structure run side by side, whosever they are.

    Args:
        fleets: what to simulate.
        workers: where to run.
        progress: called with the share of the work that was just finished.
    """
    routed = [_route(fleet) for fleet in fleets]
    groups = [_lanes_of(fleet, instance) for fleet, instance in zip(fleets, routed, strict=True)]
    sets = [one.lanes for of_fleet in groups for one in of_fleet]
    total = sum(len(one.requests.arrival_s) for one in sets)
    found = iter(lanes.simulate(sets, workers, lambda count: progress(count / total)))
    return [
        _collect(fleet, instance, [(one, next(found)) for one in of_fleet])
        for fleet, instance, of_fleet in zip(fleets, routed, groups, strict=True)
    ]


def _route(fleet: Fleet) -> np.ndarray:
    """The instance of every request, int32 `[R, N]`; -1 where it is not accepted."""
    assert isinstance(fleet.router, StaticRouter)
    instances = sum(group.count for group in fleet.groups)
    if instances == 1 and fleet.accepted.all():
        return np.broadcast_to(np.int32(0), fleet.accepted.shape)
    routed = fleet.router.assign(fleet.accepted, fleet.requests.routing_uniform, instances)
    return np.where(fleet.accepted, routed, np.int32(-1)).astype(np.int32, copy=False)


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


@dataclass(frozen=True, eq=False)
class _GroupLanes:
    """The lanes of one group of instances, instance by instance, and which request each place of them is (None: the
    same)."""

    group: InstanceGroup
    streams: np.ndarray | None
    lanes: LaneSet


def _lanes_of(fleet: Fleet, instance: np.ndarray) -> list[_GroupLanes]:
    """The lanes of every group that serves any request."""
    requests = fleet.requests
    seeds, count = requests.arrival_s.shape
    found, first = [], 0
    for group in fleet.groups:
        first += group.count
        if group.count == len(fleet.groups) == 1 and fleet.accepted.all():
            found.append(_single(fleet, group))
            continue
        streams = _streams(instance, range(first - group.count, first))
        if not streams.shape[1]:
            continue
        seed = np.tile(np.arange(seeds), group.count)[:, None]
        there = streams < count
        place = np.minimum(streams, count - 1)
        prompt_tokens = np.where(there, requests.prompt_tokens[seed, place], 0)
        emitted = group.policy.emitted(prompt_tokens, requests.output_tokens[seed, place])
        served = LaneRequests(
            arrival_s=np.where(there, requests.arrival_s[seed, place] + group.front_end_s, np.inf),
            prompt_tokens=prompt_tokens,
            output_tokens=np.where(there, emitted, 0).astype(np.int32),
        )
        found.append(_GroupLanes(group, streams, _lane_set(group, served, fleet.leap)))
    return found


def _single(fleet: Fleet, group: InstanceGroup) -> _GroupLanes:
    """One instance that serves every request: the requests are its lanes as they are."""
    requests = fleet.requests
    emitted = requests.output_tokens
    longest = requests.prompt_tokens.max(keepdims=True), emitted.max(keepdims=True)
    if group.policy.emitted(*longest) < longest[1]:  # else no other stops early, either
        emitted = group.policy.emitted(requests.prompt_tokens, emitted)
    arrival_s = requests.arrival_s + group.front_end_s if group.front_end_s else requests.arrival_s
    served = LaneRequests(arrival_s, requests.prompt_tokens, emitted.astype(np.int32, copy=False))
    return _GroupLanes(group, None, _lane_set(group, served, fleet.leap))


def _lane_set(group: InstanceGroup, served: LaneRequests, leap: bool) -> LaneSet:
    width = served.arrival_s.shape[1]
    most_slots = min(group.most_seqs, width)
    kv = _kv_mode(group, served, most_slots)
    shape = Shape(num_requests=width, slots=most_slots, block_size=group.block_size, kv=kv, leap=leap)
    return LaneSet(group.model(), served, shape)


def _collect(fleet: Fleet, instance: np.ndarray, found: list[tuple[_GroupLanes, LaneRecords]]) -> FleetRecords:
    """What the groups' lanes recorded, in the order of the requests; per seed added up."""
    if len(found) == 1 and found[0][0].streams is None:
        of, records = found[0]
        columns = {field.name: getattr(records, field.name) for field in dataclasses.fields(records)}
        return FleetRecords(instance=instance, output_tokens=of.lanes.requests.output_tokens, **columns)
    into = _empty(fleet, instance)
    for of, records in found:
        _add_group(into, of, records)
    return into


def _empty(fleet: Fleet, instance: np.ndarray) -> FleetRecords:
    """Records of a fleet that has served nothing."""
    requests = fleet.requests
    seeds, count = requests.arrival_s.shape
    return FleetRecords(
        instance=instance,
        output_tokens=requests.output_tokens.copy(),
        first_scheduled_s=np.full((seeds, count), np.nan),
        first_token_s=np.full((seeds, count), np.nan),
        finish_s=np.full((seeds, count), np.nan),
        preemptions=np.zeros((seeds, count), np.int32),
        itl_counts=np.zeros((seeds, ITL_BINS), np.int32),
        kv_token_seconds=np.zeros(seeds),
        makespan_s=np.zeros(seeds),
        iterations=np.zeros(seeds, np.int64),
        rounds=np.zeros(seeds, np.int64),
        recomputed_tokens=np.zeros(seeds, np.int64),
        status=np.zeros(seeds, np.int32),
    )


def _add_group(into: FleetRecords, of: _GroupLanes, records: LaneRecords) -> None:
    assert of.streams is not None
    seeds, count = into.instance.shape
    there = of.streams < count
    seed = np.broadcast_to(np.tile(np.arange(seeds), of.group.count)[:, None], there.shape)
    row, place = seed[there], of.streams[there]
    into.output_tokens[row, place] = of.lanes.requests.output_tokens[there]
    for name in ("first_scheduled_s", "first_token_s", "finish_s", "preemptions"):
        getattr(into, name)[row, place] = getattr(records, name)[there]
    for name in ("itl_counts", "kv_token_seconds", "iterations", "recomputed_tokens"):
        values = getattr(records, name)
        getattr(into, name)[:] += values.reshape(of.group.count, seeds, *values.shape[1:]).sum(
            axis=0, dtype=values.dtype
        )
    for name in ("makespan_s", "rounds", "status"):
        values = getattr(records, name).reshape(of.group.count, seeds)
        np.maximum(getattr(into, name), values.max(axis=0), out=getattr(into, name))


def _kv_mode(
    group: InstanceGroup, requests: LaneRequests, most_slots: int
) -> Literal["unlimited", "watched", "counted"]:
    """How closely to look at the KV pool: not at all if the largest requests that may run together fit; if it is large
    against one request it is probably never full, and watching is enough to know."""
    if group.num_blocks is None:
        return "unlimited"
    prompts, outputs = requests.prompt_tokens, requests.output_tokens
    fits = int(prompts.max(initial=0)) + int(outputs.max(initial=0)) < 1 << 31
    most_tokens = int(np.add(prompts, outputs, dtype=np.int32 if fits else np.int64).max(initial=1))
    largest = -(-(most_tokens - 1) // group.block_size)  # the last token is never fed
    reserved = group.watermark_blocks
    if largest * (most_slots + 1) + reserved <= group.num_blocks:
        return "unlimited"
    return "watched" if largest * 16 <= group.num_blocks else "counted"
