"""A fleet as one lane: any scheduler, and routers that look at the state of the fleet."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxsim import _loop
from jaxsim._component import as_arrays, as_leaves
from jaxsim.cluster.instances import InstanceGroup
from jaxsim.cluster.routing import CentralQueue, LeastWaiting
from jaxsim.cluster.served import Fleet, FleetRecords
from jaxsim.cluster.transfer import KvTransfer
from jaxsim.engine.fleet import lanes
from jaxsim.engine.fleet.handover import Network
from jaxsim.engine.fleet.shape import FleetShape
from jaxsim.engine.fleet.state import DECODE, EVENT_FIELDS, PREFILL, UNIFIED, UNLIMITED_BLOCKS, Kind, Outages, Switching
from jaxsim.engine.fleet.state import Fleet as Model
from jaxsim.engine.fleet.state import Requests as Columns
from jaxsim.engine.lanes import stepped_up
from jaxsim.engine.policy.orders import static_rank
from jaxsim.workload import Requests


def simulate(
    fleets: Sequence[Fleet],
    workers: Sequence[_loop.Worker],
    progress: Callable[[float], None] = lambda share: None,
) -> list[FleetRecords]:
    """Simulate every seed of every fleet, each as one lane.

    Args:
        fleets: what to simulate.
        workers: where to run.
        progress: called with the share of the work that was just finished.
    """
    sets = [_lanes_of(fleet) for fleet in fleets]
    total = sum(len(one.requests.arrival_s) for one in sets)
    found = lanes.simulate(sets, workers, lambda count: progress(count / total))
    return [_collect(fleet, records) for fleet, records in zip(fleets, found, strict=True)]


def record(fleet: Fleet, workers: Sequence[_loop.Worker]) -> tuple[FleetRecords, dict[str, np.ndarray]]:
    """Simulate one seed, and keep what the instances did, batch by batch.

    Args:
        fleet: with the requests of one seed.
        workers: where to run.

    Returns:
        The records, and the columns of `jaxsim.metrics.events.Events`.
    """
    one = _lanes_of(fleet)
    room, count = 0, 8 * one.shape.num_requests + 1024
    while count > room:  # every row that there was no room for was counted
        room = count
        shape = dataclasses.replace(one.shape, events=room)
        [records] = lanes.simulate([dataclasses.replace(one, shape=shape)], workers)
        assert records.events is not None
        counts, rows, times = (part[0] for part in records.events)
        count = int(counts)
    columns = dict(zip(EVENT_FIELDS, rows[:count].T, strict=True))
    start_s, end_s = times[:count].T
    batch_tokens = columns.pop("batch_tokens").astype(np.int64)
    prefill_tokens = (batch_tokens - columns["decodes"]) * columns["iterations"]
    new_tokens = batch_tokens * columns["iterations"]
    columns |= {"start_s": start_s, "end_s": end_s, "new_tokens": new_tokens, "prefill_tokens": prefill_tokens}
    return _collect(fleet, records), columns


def _lanes_of(fleet: Fleet) -> lanes.FleetSet:
    requests, clients = fleet.requests, fleet.requests.clients
    count = requests.arrival_s.shape[1]
    room = stepped_up(count)
    slots = min(room, max(group.most_seqs for group in fleet.groups))
    hands_over = any(group.role == "prefill" for group in fleet.groups)
    transfer = fleet.transfer or KvTransfer()
    sessions = len(set(requests.session)) if requests.session is not None else 0
    shape = FleetShape(
        num_requests=room,
        instances=sum(group.count for group in fleet.groups),
        slots=slots,
        leap=fleet.leap,
        transfers=room if hands_over else 0,
        contention=transfer.contention if hands_over else "none",
        layers=transfer.layers or 1 if hands_over and transfer.overlap == "layerwise" else 0,
        users=0 if clients is None else min(clients.concurrency or 0, count),
        capped=clients is not None and clients.max_in_flight is not None,
        central=isinstance(fleet.router, CentralQueue),
        sessions=sessions if _looks_at_sessions(fleet) else 0,
        outages=sum(2 * len(group.unavailable) * group.count for group in fleet.groups),
        switches=fleet.switching is not None and hands_over,
    )
    return lanes.FleetSet(_model(fleet), _columns(fleet, room), shape, count)


_ROLES = {"unified": UNIFIED, "prefill": PREFILL, "decode": DECODE}


def _model(fleet: Fleet) -> Model:
    """Groups of equal structure are one kind, their numbers stacked."""
    kinds: dict[object, list[Kind]] = {}
    places, clients = [], fleet.requests.clients
    counts = [group.count for group in fleet.groups]
    for group in fleet.groups:
        one = _kind(group)
        leaves, structure = jax.tree.flatten(one)
        key = (structure, tuple(np.shape(leaf) for leaf in leaves))
        same = kinds.setdefault(key, [])
        places.append((list(kinds).index(key), len(same)))
        same.append(one)
    stacked = tuple(jax.tree.map(lambda *leaves: np.stack(leaves), *same) for same in kinds.values())

    def each(values: list[int]) -> Any:
        return np.repeat(np.asarray(values, np.int32), counts)

    fronts = [group.role != "decode" for group in fleet.groups]
    among = [fronts[:place].count(front) for place, front in enumerate(fronts)]
    hands_over = any(group.role == "prefill" for group in fleet.groups)
    transfer = fleet.transfer or KvTransfer()
    return Model(
        kinds=stacked,
        kind=each([kind for kind, _ in places]),
        place=each([place for _, place in places]),
        role=each([_ROLES[group.role] for group in fleet.groups]),
        group=each(among),
        num_blocks=each([_blocks(group) for group in fleet.groups]),
        block_size=each([group.block_size for group in fleet.groups]),
        most_tokens=each([group.policy.most_tokens for group in fleet.groups]),
        router=as_arrays(fleet.router),
        decode_router=as_arrays(fleet.decode_router or LeastWaiting()) if hands_over else None,
        outages=_outages(fleet.groups) if any(group.unavailable for group in fleet.groups) else None,
        switching=None
        if fleet.switching is None or not hands_over
        else Switching(*_numbers(fleet.switching.queue_tokens_high, fleet.switching.queue_tokens_low)),
        network=_network(transfer) if hands_over else None,
        max_in_flight=None if clients is None or clients.max_in_flight is None else as_leaves(clients.max_in_flight)[0],
    )


def _outages(groups: Sequence[InstanceGroup]) -> Outages:
    """Changes in order of time; what recovers at an instant comes first, then by instance."""
    changes, first = [], 0
    for group in groups:
        for index in range(first, first + group.count):
            for start_s, end_s in group.unavailable:
                changes += [(start_s, 1, index), (end_s, 0, index)]
        first += group.count
    at_s, fails, instance = zip(*sorted(changes), (np.inf, 0, 0), strict=True)
    loses = [group.on_failure == "lose" for group in groups for _ in range(group.count)]
    columns: list[Any] = [np.asarray(at_s, np.float64), *(np.asarray(c, np.int32) for c in (instance, fails, loses))]
    return Outages(*columns)


def _numbers(*values: float) -> list[Any]:
    return [np.asarray(value, np.float64) for value in values]


def _network(transfer: KvTransfer) -> Network:
    bandwidth = np.inf if transfer.bandwidth_bytes_per_s is None else transfer.bandwidth_bytes_per_s
    return Network(*_numbers(transfer.latency_s, transfer.bytes_per_token or 0.0, bandwidth))


def _blocks(group: InstanceGroup) -> int:
    return UNLIMITED_BLOCKS if group.num_blocks is None else group.num_blocks


def _kind(group: InstanceGroup) -> Kind:
    blocks, watermark, tokens, seqs = as_leaves(
        _blocks(group), group.watermark_blocks, group.policy.most_tokens, group.most_seqs
    )
    return Kind(
        policy=as_arrays(group.policy),
        latency=as_arrays(group.latency),
        num_blocks=blocks,
        watermark_blocks=watermark,
        most_tokens=tokens,
        most_seqs=seqs,
        block_size=group.block_size,
    )


def _columns(fleet: Fleet, room: int) -> Columns:
    """The requests of every seed, those that are not accepted at the end and never arriving, as nobody does in the rest
    of the `room`."""
    requests, accepted = fleet.requests, fleet.accepted
    seeds, count = accepted.shape
    orders = {group.policy.order for group in fleet.groups} - {"fcfs"}
    place = np.argsort(~accepted, axis=1, kind="stable")

    def column(values: np.ndarray, dtype: Any, spare: float) -> Any:
        kept = np.take_along_axis(np.asarray(values, dtype), place, axis=1)
        return np.pad(kept, ((0, 0), (0, room + 1 - count)), constant_values=spare)

    def ranked(rank: np.ndarray) -> Any:  # a permutation, of the spare places too
        found = column(rank, np.int32, 0)
        found[:, count:] = np.arange(count, room + 1)
        return found

    front_end_s = fleet.groups[0].front_end_s
    arrival_s = np.where(accepted, requests.arrival_s + front_end_s, np.inf)
    text_rank = _in_order_of_text(requests) if "priority" in orders else requests.row
    ranks = {
        order: static_rank(order, requests.prompt_tokens, requests.output_tokens, requests.priority, text_rank)
        for order in orders
    }
    clients = requests.clients
    # a user's next request takes as long to reach the scheduler as the first
    think_s = None if clients is None or clients.think_s is None else clients.think_s + front_end_s
    session = _sessions(requests) if _looks_at_sessions(fleet) and requests.session is not None else None
    return Columns(
        arrival_s=column(arrival_s, np.float64, np.inf),
        prompt=column(requests.prompt_tokens, np.int32, 0),
        total=column(requests.prompt_tokens.astype(np.int64) + requests.output_tokens, np.int32, 0),
        uniform=column(np.broadcast_to(requests.routing_uniform, (seeds, count)), np.float64, 0.0),
        urgency=column(_urgency(requests), np.int32, 0) if "priority" in orders else None,
        session=None if session is None else column(session, np.int32, session.max() + 1),
        think_s=None if think_s is None else column(np.broadcast_to(think_s, accepted.shape), np.float64, 0.0),
        ranks={order: ranked(rank) for order, rank in ranks.items()},
    )


def _looks_at_sessions(fleet: Fleet) -> bool:
    return fleet.router.by_session or (fleet.decode_router is not None and fleet.decode_router.by_session)


def _sessions(requests: Requests) -> np.ndarray:
    """The number of every request's session, int `[R, N]`."""
    assert requests.session is not None
    _, number = np.unique(np.asarray(requests.session, dtype=str), return_inverse=True)
    return number[requests.row]


def _in_order_of_text(requests: Requests) -> np.ndarray:
    """Place of every request in order of (arrival, id as text), int `[R, N]`."""
    row = requests.row
    if requests.id is not None:
        by_text = np.empty(len(requests.id), np.int64)
        by_text[np.argsort(np.asarray(requests.id, dtype=str), kind="stable")] = np.arange(len(requests.id))
        row = by_text[row]
    return _place(np.lexsort((row, requests.arrival_s), axis=-1))


def _place(order: np.ndarray) -> np.ndarray:
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
    return place


def _urgency(requests: Requests) -> np.ndarray:
    """Place in order of (priority, arrival), equal for equals, int `[R, N]`."""
    arrival_s = requests.arrival_s
    if requests.clients is not None and requests.clients.concurrency is not None:  # in the order in which they are sent
        arrival_s = np.broadcast_to(np.arange(arrival_s.shape[1]), arrival_s.shape)
    order = np.lexsort((arrival_s, requests.priority), axis=-1)
    keys = [np.take_along_axis(column, order, axis=1) for column in (requests.priority, arrival_s)]
    differs = np.zeros(order.shape, np.int64)
    differs[:, 1:] = np.any([np.diff(key, axis=1) != 0 for key in keys], axis=0)
    dense = np.empty_like(order)
    np.put_along_axis(dense, order, np.cumsum(differs, axis=1), axis=1)
    return dense


def _collect(fleet: Fleet, records: lanes.FleetRecords) -> FleetRecords:
    """The records in the requests' order."""
    accepted, requests = fleet.accepted, fleet.requests
    place = np.argsort(np.argsort(~accepted, axis=1, kind="stable"), axis=1, kind="stable")

    def column(values: np.ndarray) -> np.ndarray:
        return values if accepted.all() else np.take_along_axis(values, place, axis=1)

    return FleetRecords(
        instance=column(records.instance),
        output_tokens=column(records.known) - requests.prompt_tokens,
        first_scheduled_s=column(records.first_scheduled_s),
        first_token_s=column(records.first_token_s),
        finish_s=column(records.finish_s),
        preemptions=column(records.preemptions),
        itl_counts=records.itl_counts,
        kv_token_seconds=records.kv_token_seconds,
        makespan_s=records.makespan_s,
        iterations=records.iterations,
        rounds=records.rounds,
        recomputed_tokens=records.recomputed_tokens,
        status=records.status,
        decode_instance=None if records.decode_instance is None else column(records.decode_instance),
        given_up=column(records.given_up),
        sent_s=None if records.sent_s is None else column(records.sent_s) - fleet.groups[0].front_end_s,
        handover={name: column(values) for name, values in records.handover.items()},
    )
