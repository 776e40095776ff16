"""A fleet as one lane: any scheduler, and routers that look at the state of the fleet."""

from collections.abc import Callable, Sequence

import jax
import numpy as np

from jaxsim import _loop
from jaxsim._component import as_arrays, as_leaves
from jaxsim.cluster import streams
from jaxsim.cluster.instances import InstanceGroup
from jaxsim.cluster.routing import StaticRouter
from jaxsim.cluster.served import Fleet, FleetRecords
from jaxsim.engine.fleet import lanes
from jaxsim.engine.fleet.shape import FleetShape
from jaxsim.engine.fleet.state import Fleet as Model
from jaxsim.engine.fleet.state import Kind
from jaxsim.engine.fleet.state import Requests as Columns
from jaxsim.engine.policy.orders import static_rank
from jaxsim.workload import Requests

UNLIMITED = 1 << 30
"""Blocks of a pool without a limit."""


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


def _lanes_of(fleet: Fleet) -> lanes.FleetSet:
    count = fleet.requests.arrival_s.shape[1]
    slots = min(count, max(group.most_seqs for group in fleet.groups))
    instances = sum(group.count for group in fleet.groups)
    shape = FleetShape(num_requests=count, instances=instances, slots=slots, leap=fleet.leap)
    return lanes.FleetSet(_model(fleet), _columns(fleet), shape)


def _model(fleet: Fleet) -> Model:
    """Groups of equal structure are one kind, their numbers stacked."""
    kinds: dict[object, list[Kind]] = {}
    where = []
    for group in fleet.groups:
        one = _kind(group)
        leaves, structure = jax.tree.flatten(one)
        same = kinds.setdefault((structure, tuple(np.shape(leaf) for leaf in leaves)), [])
        where += [(list(kinds).index((structure, tuple(np.shape(leaf) for leaf in leaves))), len(same))] * group.count
        same.append(one)
    stacked = tuple(jax.tree.map(lambda *leaves: np.stack(leaves), *same) for same in kinds.values())
    kind, place = (np.asarray(column, np.int32) for column in zip(*where, strict=True))
    router = None if isinstance(fleet.router, StaticRouter) else as_arrays(fleet.router)
    return Model(kinds=stacked, kind=kind, place=place, router=router)


def _kind(group: InstanceGroup) -> Kind:
    blocks = UNLIMITED if group.num_blocks is None else group.num_blocks
    return Kind(
        as_arrays(group.policy),
        as_arrays(group.latency),
        *as_leaves(blocks, group.watermark_blocks, group.policy.most_tokens),
        block_size=group.block_size,
    )


def _columns(fleet: Fleet) -> Columns:
    """The requests of every seed, those that are not accepted at the end and never arriving."""
    requests, accepted = fleet.requests, fleet.accepted
    seeds = len(accepted)
    orders = {group.policy.order for group in fleet.groups} - {"fcfs"}
    place = np.argsort(~accepted, axis=1, kind="stable")

    def column(values: np.ndarray, dtype: type, spare: float) -> np.ndarray:
        kept = np.take_along_axis(np.asarray(values, dtype), place, axis=1)
        return np.pad(kept, ((0, 0), (0, 1)), constant_values=spare)

    front_end_s = fleet.groups[0].front_end_s
    arrival_s = np.where(accepted, requests.arrival_s + front_end_s, np.inf)
    text_rank = _in_order_of_text(requests) if "priority" in orders else requests.row
    ranks = {
        order: static_rank(order, requests.prompt_tokens, requests.output_tokens, requests.priority, text_rank)
        for order in orders
    }
    count = accepted.shape[1]
    assigned = streams.route(fleet) if isinstance(fleet.router, StaticRouter) else None
    return Columns(
        arrival_s=column(arrival_s, np.float64, np.inf),
        prompt=column(requests.prompt_tokens, np.int32, 0),
        total=column(requests.prompt_tokens.astype(np.int64) + requests.output_tokens, np.int32, 0),
        urgency=column(_urgency(requests), np.int32, 0) if "priority" in orders else None,
        uniform=column(np.broadcast_to(requests.routing_uniform, (seeds, count)), np.float64, 0.0),
        assigned=None if assigned is None else column(np.maximum(assigned, 0), np.int32, 0),
        ranks={order: column(rank, np.int32, count) for order, rank in ranks.items()},
    )


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
    order = np.lexsort((requests.arrival_s, requests.priority), axis=-1)
    keys = [np.take_along_axis(column, order, axis=1) for column in (requests.priority, requests.arrival_s)]
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
    )
