"""Fleets on the host: tiles of equal shape, run until every lane has finished, as NumPy records."""

import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim import _loop
from jaxsim._status import LaneStatus
from jaxsim.engine.fleet import round as fleet_round
from jaxsim.engine.fleet.shape import FleetShape
from jaxsim.engine.fleet.state import Fleet, Requests, State, axes, finished, initial
from jaxsim.engine.lane_arrays import as_slice
from jaxsim.engine.lanes import next_width
from jaxsim.engine.programs import PROGRAMS
from jaxsim.engine.record import ITL_BINS
from jaxsim.engine.tile import Stopped

LANES_PER_TILE = 64
"""Lanes side by side on a core. Measured 2.8 microseconds a round and lane with 64 slots; 3.8 at 16, 3.0 at 32, 5.5 at
256, whose slot arrays do not fit the cache."""

LANE_COUNTS = (1, 8, 16, 32, LANES_PER_TILE)
"""Lanes that programs for a core are compiled for; some of a tile may be empty. A round of 64 lanes takes 2.3 times
as long as one of 16: empty lanes cost little beside the seconds to compile."""

FIRST_SLOTS = 64
"""Requests that an instance is first given slots for, and transfers that a lane is: compiling again, wider, takes
seconds."""

FEW_NUMBERS = 64
"""Numbers of a fleet so few are one per lane where any number of the fleets that run side by side differs: there are
two programs, whichever differ."""

TILE_BYTES = 256 << 20
"""Most memory of the state of one tile."""

ROUNDS_PER_CHUNK = 1024
"""Rounds between two returns to the host, which looks at interrupts and lanes that do not move."""


@dataclass(frozen=True)
class Room:
    """What a lane has room for.

    Attributes:
        slots: requests at an instance.
        transfers: KV transfers under way; 0 where no instance hands requests over.
    """

    slots: int
    transfers: int

    @classmethod
    def first(cls, most: FleetShape) -> "Room":
        """The room to try first, of lanes that are sure to fit `most`."""
        transfers = next_width(FIRST_SLOTS, most.transfers) if most.transfers else 0
        return cls(next_width(FIRST_SLOTS, most.slots), transfers)

    def more(self, status: int, most: FleetShape) -> "Room":
        """Four times the slots, or 16 times the transfers, which fewer passes of a round go over."""
        if status == LaneStatus.SLOTS_EXCEEDED:
            return Room(next_width(4 * self.slots, most.slots), self.transfers)
        return Room(self.slots, next_width(16 * self.transfers, most.transfers))


SUFFICED: dict[object, Room] = {}
"""Room that lanes of a kind were found to need: where the next ones start."""


@dataclass(frozen=True, eq=False)
class FleetRecords:
    """What L lanes recorded.

    Attributes:
        first_scheduled_s: float64 `[L, N]`; nan where it never happened, as in the following.
        first_token_s: float64 `[L, N]`.
        finish_s: float64 `[L, N]`.
        given_up: int32 `[L, N]`, `RequestStatus` of requests that ended without having emitted all; 0 of the others.
        known: int32 `[L, N]`, prompt and tokens emitted.
        preemptions: int32 `[L, N]`.
        instance: int32 `[L, N]`; -1 where it never arrived.
        itl_counts: int32 `[L, ITL_BINS]`, tokens by the gap before them.
        kv_token_seconds: float64 `[L]`, integral of the resident KV tokens.
        recomputed_tokens: int64 `[L]`.
        iterations: int64 `[L]`.
        makespan_s: float64 `[L]`, when the last batch ended.
        rounds: int64 `[L]`, rounds of the tile the lane was in.
        status: int32 `[L]`, `LaneStatus`.
        decode_instance: int32 `[L, N]`; -1: not handed over. None: no instance hands over.
        sent_s: float64 `[L, N]`, when clients sent each; nan: never. None: they do not wait for answers.
        events: `(count [L], rows [L, E, fields], times [L, E, 2])`, see `state.Events`, where more may be counted than
            there was room for; None: not recorded.
        handover: float64 `[L, N]` by name, see `handover.Stamps`; empty: no instance hands over.
    """

    first_scheduled_s: np.ndarray
    first_token_s: np.ndarray
    finish_s: np.ndarray
    given_up: np.ndarray
    known: np.ndarray
    preemptions: np.ndarray
    instance: np.ndarray
    itl_counts: np.ndarray
    kv_token_seconds: np.ndarray
    recomputed_tokens: np.ndarray
    iterations: np.ndarray
    makespan_s: np.ndarray
    rounds: np.ndarray
    status: np.ndarray
    decode_instance: np.ndarray | None
    sent_s: np.ndarray | None
    events: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    handover: dict[str, np.ndarray]

    def rows(self, places: np.ndarray | slice) -> "FleetRecords":
        """Those of some lanes."""
        return jax.tree.map(lambda column: column[places], self)

    def first(self, num_requests: int) -> "FleetRecords":
        """Those of the first requests of every lane."""
        width = self.finish_s.shape[1]
        if width == num_requests:
            return self
        cut = {
            name: jax.tree.map(lambda column: column[:, :num_requests], getattr(self, name)) for name in _PER_REQUEST
        }
        return dataclasses.replace(self, **cut)

    @staticmethod
    def join(parts: "list[FleetRecords]") -> "FleetRecords":
        """Those of all parts, one after the other."""
        return jax.tree.map(lambda *columns: np.concatenate(columns), *parts)


_PER_REQUEST = (
    "first_scheduled_s",
    "first_token_s",
    "finish_s",
    "given_up",
    "known",
    "preemptions",
    "instance",
    "decode_instance",
    "sent_s",
    "handover",
)

jax.tree_util.register_dataclass(
    FleetRecords, data_fields=[field.name for field in dataclasses.fields(FleetRecords)], meta_fields=[]
)


@dataclass(frozen=True, eq=False)
class FleetSet:
    """Lanes of one fleet.

    Attributes:
        fleet: its numbers as NumPy arrays.
        requests: of L lanes, NumPy arrays `[L, N + 1]`.
        shape: with room that is enough for any lane; the lanes are run with less first.
        num_requests: of a lane; what comes after them in its columns never arrives.
    """

    fleet: Fleet
    requests: Requests
    shape: FleetShape
    num_requests: int


def simulate(
    sets: Sequence[FleetSet], workers: Sequence[_loop.Worker], progress: Callable[[int], None] = lambda lanes: None
) -> list[FleetRecords]:
    """Run lanes, side by side where their structure is equal.

    Results do not depend on which lanes share a tile, the number of workers or the number of slots.

    Args:
        sets: the lanes.
        workers: where to run.
        progress: called with the number of lanes that finished.

    Returns:
        The records of each set.
    """
    alike: dict[object, list[int]] = {}
    for place, one in enumerate(sets):
        leaves, structure = jax.tree.flatten((one.fleet, jax.tree.map(lambda x: x[0], one.requests)))
        alike.setdefault((one.shape, structure, tuple(np.shape(leaf) for leaf in leaves)), []).append(place)
    found: dict[int, FleetRecords] = {}
    for kind, places in alike.items():
        fleet, of_leaf, requests = _join([sets[place] for place in places])
        records = _simulate_alike(kind, fleet, of_leaf, requests, sets[places[0]].shape, workers, progress)
        first = 0
        for place in places:
            count = len(sets[place].requests.arrival_s)
            found[place] = records.rows(slice(first, first + count)).first(sets[place].num_requests)
            first += count
    return [found[place] for place in range(len(sets))]


def _join(sets: list[FleetSet]) -> tuple[Fleet, tuple[int | None, ...], Requests]:
    """One fleet of the lanes of all, and the lane axes of its numbers: those that differ get one, in front."""
    lanes = [len(one.requests.arrival_s) for one in sets]

    leaves = list(zip(*(jax.tree.leaves(one.fleet) for one in sets), strict=True))
    differ = [any(not np.array_equal(values[0], value) for value in values[1:]) for values in leaves]
    few = [any(differ) and np.size(values[0]) <= FEW_NUMBERS for values in leaves]
    of_leaf = tuple(0 if one or small else None for one, small in zip(differ, few, strict=True))
    joined = [
        values[0] if axis is None else np.repeat(np.stack(values), lanes, axis=0)
        for values, axis in zip(leaves, of_leaf, strict=True)
    ]
    fleet = jax.tree.unflatten(jax.tree.structure(sets[0].fleet), joined)
    return fleet, of_leaf, jax.tree.map(lambda *v: np.concatenate(v), *(one.requests for one in sets))


def _simulate_alike(
    kind: object,
    fleet: Fleet,
    of_leaf: tuple[int | None, ...],
    requests: Requests,
    shape: FleetShape,
    workers: Sequence[_loop.Worker],
    progress: Callable[[int], None],
) -> FleetRecords:
    count = len(requests.arrival_s)
    parts: list[FleetRecords] = []
    where: list[np.ndarray] = []
    todo: dict[Room, list[np.ndarray]] = {SUFFICED.get(kind, Room.first(shape)): [np.arange(count)]}
    stop = threading.Event()

    def run(work: tuple[Room, np.ndarray], worker: _loop.Worker) -> FleetRecords:
        room, lanes = work
        sized = dataclasses.replace(shape, slots=room.slots, transfers=room.transfers)
        return _run_tile(fleet, of_leaf, requests, sized, stop, lanes, worker)

    try:
        while todo:
            room, waiting = todo.popitem()
            tiles = [(room, tile) for tile in _tiles(np.concatenate(waiting), shape, room.slots, workers)]
            for (tried, tile), records in _loop.map_tiles(run, tiles, list(workers)):
                crowded = np.zeros(len(tile), bool)
                for status in (LaneStatus.SLOTS_EXCEEDED, LaneStatus.TRANSFERS_EXCEEDED):
                    full = records.status == status
                    if full.any():
                        wider = tried.more(status, shape)
                        todo.setdefault(wider, []).append(tile[full])
                        before = SUFFICED.get(kind, wider)
                        SUFFICED[kind] = Room(max(wider.slots, before.slots), max(wider.transfers, before.transfers))
                    crowded |= full
                parts.append(records.rows(~crowded))
                where.append(tile[~crowded])
                progress(int(np.sum(~crowded)))
    except BaseException:
        stop.set()
        raise
    return FleetRecords.join(parts).rows(np.argsort(np.concatenate(where), kind="stable"))


def _tiles(lanes: np.ndarray, shape: FleetShape, slots: int, workers: Sequence[_loop.Worker]) -> list[np.ndarray]:
    """Lanes in tiles of nearly equal size, at least one for every worker where lanes are many enough."""
    per_lane = 70 * shape.instances * slots + 100 * shape.num_requests
    widest = min(LANES_PER_TILE, max(1, TILE_BYTES // per_lane))
    tiles = max(-(-len(lanes) // widest), min(len(workers), -(-len(lanes) // 8)))
    return np.array_split(lanes, tiles)


def _run_tile(
    fleet: Fleet,
    of_leaf: tuple[int | None, ...],
    requests: Requests,
    shape: FleetShape,
    stop: threading.Event,
    lanes: np.ndarray,
    worker: _loop.Worker,
) -> FleetRecords:
    with jax.enable_x64(True), jax.default_device(worker.device):
        mine = as_slice(lanes)
        kind = (
            shape,
            of_leaf,
            jax.tree.structure((fleet, requests)),
            requests.arrival_s.shape[1],
            _shapes(fleet, of_leaf),
        )
        width = _lanes_of_program(kind, len(lanes), worker.device)
        empty = width - len(lanes)

        def with_empty(values: np.ndarray) -> np.ndarray:
            return np.pad(values[mine], ((0, empty), *[(0, 0)] * (values.ndim - 1)), "edge")

        leaves = [
            jnp.asarray(leaf if axis is None else with_empty(leaf))
            for leaf, axis in zip(jax.tree.leaves(fleet), of_leaf, strict=True)
        ]
        fleet = jax.tree.unflatten(jax.tree.structure(fleet), leaves)
        columns = jax.tree.map(with_empty, requests)
        columns.arrival_s[len(lanes) :] = np.inf  # nobody arrives at an empty lane
        requests = jax.tree.map(jnp.asarray, columns)
        state = _start(fleet, requests, shape, of_leaf)
        advance = functools.partial(_advance, shape=shape, of_leaf=of_leaf)
        chunk = PROGRAMS.program((*kind, width), advance, (state, fleet, requests), worker.device)
        rounds = 0
        before = _position(state)
        while True:
            if stop.is_set():
                raise Stopped
            state, count = chunk(state, fleet, requests)
            rounds += int(count)
            done = np.asarray(_done(state))
            now = _position(state)
            stuck = ~done & _is_stuck(before, now)
            before = now
            if np.all(done | stuck):
                waiting = np.asarray(state.ended) < np.isfinite(np.asarray(requests.arrival_s)).sum(axis=1)
                return _records(state, shape, rounds, waiting).rows(slice(len(lanes)))


def _shapes(fleet: Fleet, of_leaf: tuple[int | None, ...]) -> tuple[tuple[int, ...], ...]:
    """Of the numbers of one lane."""
    leaves = zip(jax.tree.leaves(fleet), of_leaf, strict=True)
    return tuple(np.shape(leaf) if axis is None else np.shape(leaf)[1:] for leaf, axis in leaves)


def _lanes_of_program(kind: tuple[object, ...], count: int, device: jax.Device) -> int:
    """Lanes of the program that runs `count`: the fewest, or more if that is compiled; a lone one is not worth it."""
    enough = [few for few in LANE_COUNTS if few >= count]
    compiled = (few for few in enough if count > 1 and PROGRAMS.has((*kind, few), device))
    return next(compiled, enough[0])


def _axes(fleet: Fleet, of_leaf: tuple[int | None, ...]) -> Any:
    return jax.tree.unflatten(jax.tree.structure(fleet), of_leaf)


def _advance(
    state: State, fleet: Fleet, requests: Requests, *, shape: FleetShape, of_leaf: tuple[int | None, ...]
) -> tuple[State, jax.Array]:
    of_state = axes(state)

    def step(state: State, fleet: Fleet, requests: Requests) -> State:
        return fleet_round.build(fleet, requests, shape)(state)

    round_of_tile = jax.vmap(step, in_axes=(of_state, _axes(fleet, of_leaf), 0), out_axes=of_state)
    unfinished = jax.vmap(lambda state: ~finished(state), in_axes=(of_state,))
    return _loop.advance(lambda state: round_of_tile(state, fleet, requests), unfinished, state, ROUNDS_PER_CHUNK)


@functools.partial(jax.jit, static_argnames=("shape", "of_leaf"))
def _start(fleet: Fleet, requests: Requests, shape: FleetShape, of_leaf: tuple[int | None, ...]) -> State:
    def of_lane(fleet: Fleet, requests: Requests) -> State:
        return initial(fleet, requests, shape)

    axis = _axes(fleet, of_leaf)
    one = jax.tree.unflatten(
        jax.tree.structure(fleet),
        [leaf if a is None else leaf[0] for leaf, a in zip(jax.tree.leaves(fleet), of_leaf, strict=True)],
    )
    abstract = jax.eval_shape(of_lane, one, jax.tree.map(lambda column: column[0], requests))
    return jax.vmap(of_lane, in_axes=(axis, 0), out_axes=axes(abstract))(fleet, requests)


@jax.jit
def _done(state: State) -> jax.Array:
    return jax.vmap(finished, in_axes=(axes(state),))(state)


def _position(state: State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrivals and tokens so far, the time, and preemptions, `[L]` each."""
    return np.asarray(state.moves), np.asarray(state.now_s), np.asarray(state.records.preemptions.sum(axis=1))


def _is_stuck(before: tuple[np.ndarray, ...], now: tuple[np.ndarray, ...]) -> np.ndarray:
    """bool `[L]`: nobody arrived or emitted a token, and time stands still or requests preempt each other."""
    return (before[0] == now[0]) & ((before[1] == now[1]) | (before[2] < now[2]))


def _records(state: State, shape: FleetShape, rounds: int, stuck: np.ndarray) -> FleetRecords:
    n, lanes, kept = shape.num_requests, len(stuck), state.records

    def column(values: jax.Array) -> np.ndarray:
        return np.asarray(values)[:, :n]

    first_scheduled_s = column(kept.first_scheduled_s)
    exceeded = np.asarray(state.exceeded)
    events = None
    if kept.events is not None:
        parts = kept.events
        events = np.asarray(parts.count), np.asarray(parts.rows), np.asarray(parts.times)
    passed, clients = state.handover, state.clients
    stamps = (
        {}
        if passed is None
        else {f.name: column(getattr(passed.stamps, f.name)) for f in dataclasses.fields(passed.stamps)}
    )
    sent_s = None if clients is None else column(clients.sent_s)
    return FleetRecords(
        first_scheduled_s=np.where(np.isinf(first_scheduled_s), np.nan, first_scheduled_s),
        first_token_s=column(kept.first_token_s),
        finish_s=column(kept.finish_s),
        given_up=column(kept.given_up),
        known=column(kept.known),
        preemptions=column(kept.preemptions),
        instance=column(kept.instance),
        itl_counts=np.zeros((lanes, ITL_BINS), np.int32) if kept.itl_counts is None else np.asarray(kept.itl_counts).T,
        kv_token_seconds=np.zeros(lanes) if kept.kv_token_seconds is None else np.asarray(kept.kv_token_seconds),
        recomputed_tokens=np.asarray(kept.recomputed_tokens).astype(np.int64),
        iterations=np.asarray(kept.iterations).astype(np.int64),
        makespan_s=np.asarray(kept.makespan_s),
        rounds=np.full(lanes, rounds, np.int64),
        status=np.where((exceeded == LaneStatus.OK) & stuck, int(LaneStatus.NO_PROGRESS), exceeded).astype(np.int32),
        decode_instance=None if passed is None else column(passed.target),
        sent_s=None if sent_s is None else np.where(np.isinf(sent_s), np.nan, sent_s),
        events=events,
        handover=stamps,
    )
