"""Lanes on the host: tiles of equal shape, run until every lane has finished, as NumPy records."""

import dataclasses
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim import _loop
from jaxsim._status import LaneStatus
from jaxsim.engine import round as engine_round
from jaxsim.engine.programs import PROGRAMS
from jaxsim.engine.record import ITL_BINS
from jaxsim.engine.shape import Shape
from jaxsim.engine.state import Columns, Model, State, axes, finished, initial, rebase

LANES_PER_TILE = 320
"""Lanes side by side on a core: enough to hide the cost of calling a kernel, few enough for the cache.
Measured 57 ns a round at 320, 58 at 256 and 384, 67 at 512 and 640."""

LANES_PER_ACCELERATOR_TILE = 65_536
"""Lanes side by side on an accelerator, whose kernels take microseconds to launch however few lanes there are."""

TILE_BYTES = 512 << 20
ACCELERATOR_TILE_BYTES = 16 << 30
"""Most memory of the request columns of one tile."""

ROUNDS_PER_CHUNK = 4096
"""Rounds between two returns to the host, which looks at progress, interrupts and lanes that do not move."""

LANE_COUNTS = (8, 64, 128, 192, 264, LANES_PER_TILE)
"""Lanes that programs for a core are compiled for; some of a tile may be empty. An empty lane costs little beside a
second to compile. Not 256: rows of slots then share the same few places of the cache, and a round with passes over them
takes twice as long."""

PADDED_BYTES = 64 << 20
"""Empty lanes are only added to tiles whose request columns take no more than this with them."""

SLOT_WIDTHS = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
"""Numbers of slots that programs are compiled for; a pass over slots costs 0.25 ns per slot and round."""

FEW_SLOT_WIDTHS = (8, 32, 128, 512, 2048, 4096)
"""The same as long as compiling costs more than wide slots do: until `MANY_REQUESTS` were simulated."""

MANY_REQUESTS = 5_000_000
"""Requests of a kind that take about as long, with slots four times as wide as needed, as compiling a better width."""

_BYTES_PER_REQUEST = 48


@dataclass(frozen=True, eq=False)
class LaneRequests:
    """The requests of L lanes in order of arrival, padded to N with arrivals at infinity.

    Attributes:
        arrival_s: float64 `[L, N]`.
        prompt_tokens: int32 `[L, N]`.
        output_tokens: int32 `[L, N]`, tokens each will emit.
    """

    arrival_s: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray

    def __getitem__(self, lanes: slice | np.ndarray) -> "LaneRequests":
        return LaneRequests(self.arrival_s[lanes], self.prompt_tokens[lanes], self.output_tokens[lanes])


@dataclass(frozen=True, eq=False)
class LaneRecords:
    """What L lanes recorded.

    Attributes:
        first_scheduled_s: float64 `[L, N]`; nan where it never happened, as in the following.
        first_token_s: float64 `[L, N]`.
        finish_s: float64 `[L, N]`.
        preemptions: int32 `[L, N]`.
        itl_counts: int32 `[L, ITL_BINS]`, tokens by the gap before them.
        kv_token_seconds: float64 `[L]`, integral of the resident KV tokens.
        makespan_s: float64 `[L]`, when the lane stopped.
        iterations: int64 `[L]`.
        recomputed_tokens: int64 `[L]`.
        rounds: int64 `[L]`, rounds of the tile the lane was in.
        status: int32 `[L]`, `LaneStatus`.
    """

    first_scheduled_s: np.ndarray
    first_token_s: np.ndarray
    finish_s: np.ndarray
    preemptions: np.ndarray
    itl_counts: np.ndarray
    kv_token_seconds: np.ndarray
    makespan_s: np.ndarray
    iterations: np.ndarray
    recomputed_tokens: np.ndarray
    rounds: np.ndarray
    status: np.ndarray

    @classmethod
    def empty(cls, lanes: int, requests: int) -> "LaneRecords":
        """Room for the records of `lanes` lanes."""
        per_request = {
            "first_scheduled_s": np.float64,
            "first_token_s": np.float64,
            "finish_s": np.float64,
        }
        per_lane = {
            "kv_token_seconds": np.float64,
            "makespan_s": np.float64,
            "iterations": np.int64,
            "recomputed_tokens": np.int64,
            "rounds": np.int64,
            "status": np.int32,
        }
        return cls(
            **{name: np.empty((lanes, requests), dtype) for name, dtype in per_request.items()},
            **{name: np.empty(lanes, dtype) for name, dtype in per_lane.items()},
            preemptions=np.zeros((lanes, requests), np.int32),
            itl_counts=np.empty((lanes, ITL_BINS), np.int32),
        )

    def split(self, ends: np.ndarray) -> "list[LaneRecords]":
        """The records of consecutive lanes, cut at `ends`."""
        parts = {field.name: np.split(getattr(self, field.name), ends) for field in dataclasses.fields(self)}
        return [LaneRecords(**dict(zip(parts, part, strict=True))) for part in zip(*parts.values(), strict=True)]

    def first(self, requests: int) -> "LaneRecords":
        """The records without those of what comes after the first requests of a lane, which are empty places."""
        if self.finish_s.shape[1] == requests:
            return self
        names = ("first_scheduled_s", "first_token_s", "finish_s", "preemptions")
        return dataclasses.replace(self, **{name: getattr(self, name)[:, :requests] for name in names})


class Stopped(Exception):
    """Raised inside a worker when the run was interrupted."""


def _program(
    state: State, model: Model, columns: Columns, few: jax.Array, shape: Shape, rounds: int, device: jax.Device
) -> Callable[..., tuple[State, jax.Array]]:
    """The program that advances a tile by up to `rounds` rounds, until only `few` of its lanes are unfinished."""
    leaves, structure = jax.tree.flatten(model)
    key = (shape, rounds, columns.arrival_s.shape, structure, tuple(leaf.shape for leaf in leaves))
    advance = functools.partial(_advance, shape=shape, rounds=rounds)
    return PROGRAMS.program(key, advance, (state, model, columns, few), device, wide=True)


def _model_axes(model: Model) -> Model:
    """Lane axis of every number of a model: None where all lanes share it."""
    return jax.tree.map(lambda leaf: 0 if leaf.ndim else None, model)


def _advance(
    state: State, model: Model, columns: Columns, few: jax.Array, *, shape: Shape, rounds: int
) -> tuple[State, jax.Array]:
    of_state, of_model = axes(state), _model_axes(model)

    def step(state: State, model: Model, columns: Columns) -> State:
        return engine_round.build(model, columns, shape)(state)

    round_of_tile = jax.vmap(step, in_axes=(of_state, of_model, 0), out_axes=of_state)
    unfinished_lanes = jax.vmap(lambda state: ~finished(state), in_axes=(of_state,))

    def unfinished(state: State) -> jax.Array:
        # most lanes must be run again, larger: there is no point in finishing the others
        return unfinished_lanes(state) & (jnp.sum(state.exceeded > 0) <= RERUN_SHARE * state.exceeded.shape[0])

    rebase_tile = jax.vmap(functools.partial(rebase, shape=shape), in_axes=(of_state,), out_axes=of_state)
    return _loop.advance(
        lambda state: round_of_tile(state, model, columns), unfinished, rebase_tile(state), rounds, few, unroll=2
    )


@functools.partial(jax.jit, static_argnames="shape")
def _start(model: Model, columns: Columns, shape: Shape) -> State:
    def of_lane(model: Model, columns: Columns) -> State:
        return initial(columns, model, shape)

    abstract = jax.eval_shape(of_lane, jax.tree.map(lambda leaf: leaf[0] if leaf.ndim else leaf, model), _lane(columns))
    return jax.vmap(of_lane, in_axes=(_model_axes(model), 0), out_axes=axes(abstract))(model, columns)


def _lane(columns: Columns) -> Columns:
    return jax.tree.map(lambda column: column[0], columns)


@dataclass(frozen=True, eq=False)
class LaneSet:
    """Lanes of one model.

    Attributes:
        model: its numbers as 0-d arrays.
        requests: of L lanes.
        shape: with slots that are enough for any lane; the lanes are run with fewer first.
    """

    model: Model
    requests: LaneRequests
    shape: Shape


def simulate(
    sets: Sequence[LaneSet], workers: Sequence[_loop.Worker], progress: Callable[[int], None] = lambda lanes: None
) -> list[LaneRecords]:
    """Run lanes, side by side where their structure is equal.

    Lanes are run with few slots first; those that need more are run again with more. Results do not depend on which
    lanes share a tile, the number of workers or the number of slots.

    Args:
        sets: the lanes.
        workers: where to run.
        progress: called with the number of lanes that finished.

    Returns:
        The records of each set.

    Raises:
        KeyboardInterrupt: the user stopped the run.
    """
    sets = _watched_together(sets)
    alike: dict[object, list[int]] = {}
    for place, one in enumerate(sets):
        columns = stepped_up(one.shape.num_requests)
        alike.setdefault((columns, _kind(one)), []).append(place)
    found: dict[int, LaneRecords] = {}
    for places in alike.values():
        joined = _join([sets[place] for place in places])
        records = _simulate_alike(joined, workers, progress)
        ends = np.cumsum([len(sets[place].requests.arrival_s) for place in places])
        found |= dict(zip(places, records.split(ends[:-1]), strict=True))
    return [found[place].first(one.shape.num_requests) for place, one in enumerate(sets)]


def _watched_together(sets: Sequence[LaneSet]) -> list[LaneSet]:
    """The sets; those whose KV pool cannot be full are watched where others like them are: a 3 % longer round, but one
    program less."""
    kinds = {*map(_kind, sets), *NEEDS}
    watched = [dataclasses.replace(one, shape=dataclasses.replace(one.shape, kv="watched")) for one in sets]
    return [
        other if one.shape.kv == "unlimited" and one.model.pool.num_blocks > 0 and _kind(other) in kinds else one
        for one, other in zip(sets, watched, strict=True)
    ]


def _kind(lanes: LaneSet) -> object:
    """What lanes must have in common to run side by side, beside the number of columns."""
    return dataclasses.replace(lanes.shape, num_requests=0, slots=0), jax.tree.structure(lanes.model)


def _join(sets: list[LaneSet]) -> LaneSet:
    """One set of the lanes of all, with slots and columns that are enough for any. If the models differ, every number
    becomes one per lane: there are two programs, whichever numbers differ."""
    if len(sets) == 1:
        return sets[0]
    lanes = [len(one.requests.arrival_s) for one in sets]
    numbers = [[leaf.item() for leaf in jax.tree.leaves(one.model)] for one in sets]
    model = sets[0].model
    if any(mine != numbers[0] for mine in numbers[1:]):
        model = jax.tree.map(lambda *values: np.repeat(np.stack(values), lanes), *(one.model for one in sets))
    width = max(one.shape.num_requests for one in sets)
    columns = {
        name: np.concatenate([_widened(getattr(one.requests, name), width, filler) for one in sets])
        for name, filler in (("arrival_s", np.inf), ("prompt_tokens", 0), ("output_tokens", 0))
    }
    shape = dataclasses.replace(sets[0].shape, num_requests=width, slots=max(one.shape.slots for one in sets))
    return LaneSet(model, LaneRequests(**columns), shape)


def _widened(column: np.ndarray, width: int, filler: float) -> np.ndarray:
    """The column with more places at its end."""
    more = width - column.shape[1]
    return np.pad(column, ((0, 0), (0, more)), constant_values=filler) if more else column


def _simulate_alike(lanes: LaneSet, workers: Sequence[_loop.Worker], progress: Callable[[int], None]) -> LaneRecords:
    count, num_requests = lanes.requests.arrival_s.shape
    records = LaneRecords.empty(count, num_requests)
    by_length = np.arange(count)
    if np.isinf(lanes.requests.arrival_s[:, -1]).any():
        # lanes with equally many requests share tiles, so that few wait for the slowest
        by_length = np.argsort(np.isfinite(lanes.requests.arrival_s).sum(axis=1), kind="stable")
    needs = NEEDS.setdefault(_kind(lanes), Needs())
    todo: dict[Shape, list[np.ndarray]] = {needs.first(lanes.shape): [by_length]}
    left: dict[Shape, list[Rest]] = {}
    stop = threading.Event()

    models = {worker.device: _on_device(lanes.model, worker.device) for worker in workers}

    def run(work: Work, worker: _loop.Worker) -> Ran:
        return _run_tile(dataclasses.replace(lanes, model=models[worker.device]), records, work, stop, worker)

    def tiles(shape: Shape, places: np.ndarray) -> Iterator[Work]:
        parts = _tiles(places, num_requests, workers)
        for tile in parts:
            first = needs.first(lanes.shape)
            kv = first.kv if shape.kv == "watched" else shape.kv
            larger = dataclasses.replace(shape, slots=max(shape.slots, first.slots), kv=kv)
            yield Work(larger, tile, [], len(tile) // 2 if larger.counted and len(parts) > 1 else 0)

    try:
        while todo or left:
            if todo:
                shape, waiting = todo.popitem()
                work = tiles(shape, np.concatenate(waiting))
            else:
                work = iter(_gathered(*left.popitem()))
            for (tried, tile, begun, _), ran in _loop.map_tiles(run, work, list(workers)):
                crowded = ran.status == LaneStatus.SLOTS_EXCEEDED
                full = ran.status == LaneStatus.BLOCKS_EXCEEDED
                if np.sum(crowded) > RERUN_SHARE * len(tile):
                    needs.too_few = max(needs.too_few, tried.slots)
                if np.sum(full) > RERUN_SHARE * len(tile):
                    needs.counted = True
                needs.requests += 0 if begun else len(tile) * num_requests
                if crowded.any():
                    wider = dataclasses.replace(tried, slots=needs.slots(tried.slots + 1, lanes.shape.slots))
                    todo.setdefault(wider, []).append(tile[crowded])
                if full.any():
                    todo.setdefault(dataclasses.replace(tried, kv="counted"), []).append(tile[full])
                if ran.rest is not None:
                    left.setdefault(tried, []).append(ran.rest)
                again = np.sum(crowded | full) + (0 if ran.rest is None else len(ran.rest.lanes))
                progress(len(tile) - int(again))
    except BaseException:
        stop.set()
        raise
    return records


@dataclass(frozen=True, eq=False)
class Rest:
    """The lanes of a tile that were unfinished when most had finished.

    Attributes:
        lanes: their places in the set.
        state: theirs, then that of a lane that has finished, NumPy.
        rounds: int64, of each so far.
        width: lanes of the program that ran them.
    """

    lanes: np.ndarray
    state: State
    rounds: np.ndarray
    width: int


class Work(NamedTuple):
    """A tile to run."""

    shape: Shape
    lanes: np.ndarray
    begun: list[Rest]
    """Where its lanes stand; empty at the start."""
    few: int
    """So many unfinished lanes are left for another tile."""


class Ran(NamedTuple):
    """What became of a tile."""

    status: np.ndarray
    rest: Rest | None


def _gathered(shape: Shape, rests: list[Rest]) -> list[Work]:
    """Unfinished lanes of several tiles side by side in fewer; the last of all are run to their end.

    Where the KV pool preempts, lanes take very different numbers of rounds: with 5 % of requests preempted the slowest
    of 320 takes 1.4 times the mean.
    """
    tiles: list[list[Rest]] = [[]]
    for rest in rests:
        if sum(len(one.lanes) for one in tiles[-1]) + len(rest.lanes) > rest.width:
            tiles.append([])
        tiles[-1].append(rest)
    lanes = [np.concatenate([rest.lanes for rest in tile]) for tile in tiles]
    few = [len(tile) // 2 if len(tiles) > 1 else 0 for tile in lanes]
    return [Work(shape, *work) for work in zip(lanes, tiles, few, strict=True)]


RERUN_SHARE = 1 / 16
"""A tile is given up when more of its lanes than this must be run again larger, and the next ones start larger: running
a few lanes again costs nearly as much as running a tile."""


@dataclass
class Needs:
    """What most lanes of a kind were found to need: where the next ones start.

    Attributes:
        too_few: so many slots were not enough for most lanes of a tile.
        counted: most lanes of a tile came near the limit of their KV pool.
        requests: that were simulated.
    """

    too_few: int = 0
    counted: bool = False
    requests: int = 0

    def first(self, shape: Shape) -> Shape:
        """The shape to try first, for lanes that are sure to fit `shape`."""
        slots = self.slots(max(self.too_few + 1, 32), shape.slots)
        kv = "counted" if self.counted and shape.kv == "watched" else shape.kv
        return dataclasses.replace(shape, num_requests=stepped_up(shape.num_requests), slots=slots, kv=kv)

    def slots(self, least: int, most: int) -> int:
        """`next_width` of as few widths as the requests so far are worth."""
        return next_width(least, most, SLOT_WIDTHS if self.requests > MANY_REQUESTS else FEW_SLOT_WIDTHS)


NEEDS: dict[object, Needs] = {}
"""By kind of lanes."""


def next_width(least: int, most: int, widths: Sequence[int] = SLOT_WIDTHS) -> int:
    """The smallest width of slots that programs are compiled for and that holds `least` requests, or `most` at once."""
    needed = min(least, most)
    return next((width for width in widths if width >= needed), -(-needed // 1024) * 1024)


def stepped_up(count: int) -> int:
    """At most a quarter more, of few different numbers: each is a program."""
    step = 1 << max(0, (count - 1).bit_length() - 3)
    return -(-count // step) * step


def as_slice(lanes: np.ndarray) -> np.ndarray | slice:
    """Consecutive lanes as a slice, which is a view instead of a copy."""
    first, last = int(lanes[0]), int(lanes[-1])
    consecutive = last - first + 1 == len(lanes) and bool(np.all(np.diff(lanes) == 1))
    return slice(first, last + 1) if consecutive else lanes


def _tiles(lanes: np.ndarray, num_requests: int, workers: Sequence[_loop.Worker]) -> list[np.ndarray]:
    """Lanes in tiles of nearly equal size, at least one for every worker where lanes are many enough."""
    on_cpu = workers[0].device.platform == "cpu"
    most, memory = (LANES_PER_TILE, TILE_BYTES) if on_cpu else (LANES_PER_ACCELERATOR_TILE, ACCELERATOR_TILE_BYTES)
    widest = min(most, max(1, memory // (_BYTES_PER_REQUEST * stepped_up(num_requests))))
    tiles = max(-(-len(lanes) // widest), min(len(workers), -(-len(lanes) // 32)))
    return np.array_split(lanes, tiles)


def _lanes_of_program(count: int, num_requests: int) -> int:
    """Lanes of the program that runs a tile of `count`."""
    lanes = next((few for few in LANE_COUNTS if few >= count), stepped_up(count))
    return lanes if lanes * num_requests * _BYTES_PER_REQUEST <= PADDED_BYTES else count


def _on_device(model: Model, device: jax.Device) -> Model:
    """The numbers that all lanes share where they are used, put there once; those of each lane go with their tile."""
    with jax.enable_x64(True):
        return jax.tree.map(lambda leaf: leaf if leaf.ndim else jax.device_put(leaf, device), model)


def _run_tile(set: LaneSet, records: LaneRecords, work: Work, stop: threading.Event, worker: _loop.Worker) -> Ran:
    """Run some lanes of a set and write what they recorded into `records`."""
    shape, lanes = work.shape, work.lanes
    with jax.enable_x64(True), jax.default_device(worker.device):
        mine, count = as_slice(lanes), len(lanes)
        requests = set.requests[mine]
        fresh = _lanes_of_program(count, shape.num_requests)
        width = max((rest.width for rest in work.begun), default=fresh)
        empty = width - count
        model = jax.tree.map(
            lambda leaf: jnp.asarray(np.pad(leaf[mine], (0, empty), "edge")) if leaf.ndim else leaf, set.model
        )
        columns = _columns(requests, width, shape.num_requests + 1)
        longest = int(requests.output_tokens.max())
        state = _resumed(work.begun, width) if work.begun else _start(model, columns, shape)
        rounds = np.concatenate([rest.rounds for rest in work.begun]) if work.begun else np.zeros(count, np.int64)
        few = jnp.int32(work.few)
        chunk = _program(state, model, columns, few, shape, _rounds_per_chunk(longest, shape), worker.device)
        before = _position(state)
        while True:
            if stop.is_set():
                raise Stopped
            state, run = chunk(state, model, columns, few)
            rounds = rounds + int(run)
            done = ~np.asarray(_unfinished(state))
            exceeded = np.asarray(state.exceeded)
            if np.sum(exceeded > 0) > RERUN_SHARE * count:
                why = np.bincount(exceeded[exceeded > 0]).argmax()
                return Ran(_record(records, mine, state, requests, rounds, ~done, np.where(done, exceeded, why)), None)
            now = _position(state)
            stuck = ~done & np.all(now == before, axis=0)
            before = now
            slow = ~(done | stuck)[:count]
            if np.sum(slow) <= work.few:
                status = _record(records, mine, state, requests, rounds, stuck, exceeded)
                if not slow.any():
                    return Ran(status, None)
                return Ran(status, _rest(lanes, state, rounds, slow, int(np.argmax(done & (exceeded == 0))), width))


def _rest(lanes: np.ndarray, state: State, rounds: np.ndarray, slow: np.ndarray, finished: int, width: int) -> Rest:
    """The slow lanes of a tile, and one that has finished."""
    kept = [*np.flatnonzero(slow), finished]
    rows = jax.tree.map(lambda axis, leaf: np.take(np.asarray(leaf), kept, axis), axes(state), state)
    return Rest(lanes[slow], rows, rounds[slow], width)


def _resumed(rests: list[Rest], width: int) -> State:
    """The state of a tile of lanes that were begun; other places are filled with a lane that has finished."""
    count = sum(len(rest.lanes) for rest in rests)

    def joined(axis: int, *leaves: np.ndarray) -> jax.Array:
        begun = [leaf[:, :-1] if axis else leaf[:-1] for leaf in leaves]
        filler = leaves[-1][:, -1:] if axis else leaves[-1][-1:]
        return jnp.asarray(np.concatenate([*begun, np.repeat(filler, width - count, axis)], axis))

    return jax.tree.map(joined, axes(rests[0].state), *(rest.state for rest in rests))


def _columns(requests: LaneRequests, lanes: int, width: int) -> Columns:
    """The columns of a tile, with places and lanes that nobody arrives at."""
    count, num_requests = requests.arrival_s.shape
    arrival_s = _aligned((lanes, width), np.float64)
    arrival_s[:count, :num_requests] = requests.arrival_s
    arrival_s[:count, num_requests:] = arrival_s[count:] = np.inf
    lengths = _aligned((lanes, width), np.int64)
    packed = lengths.view(np.int32).reshape(lanes, width, 2)
    high, low = (1, 0) if sys.byteorder == "little" else (0, 1)  # as `pack`, without its temporary columns
    packed[:count, :num_requests, high] = requests.prompt_tokens
    packed[:count, :num_requests, low] = requests.output_tokens
    lengths[:count, num_requests:] = lengths[count:] = 0
    return Columns(jax.device_put(arrival_s), jax.device_put(lengths))


def _aligned(shape: tuple[int, int], dtype: type) -> np.ndarray:
    """An array that starts where XLA wants arrays to start: on a CPU, `device_put` takes it as it is."""
    size = shape[0] * shape[1] * np.dtype(dtype).itemsize
    memory = np.empty(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(dtype).reshape(shape)


def _rounds_per_chunk(longest: int, shape: Shape) -> int:
    """Rounds after which finish keys are rebased: no key may overflow however far each round leaps."""
    keys = 1 << (31 - shape.slot_bits)
    rounds = (keys - 2 * longest - 2) // (longest if shape.leap else 1)
    if rounds < _loop.ROUNDS_PER_SCAN:
        most = keys // (_loop.ROUNDS_PER_SCAN + 2)
        raise ValueError(f"output_tokens must be at most {most} with {shape.slots} requests at once, not {longest}")
    return min(ROUNDS_PER_CHUNK, rounds)


@jax.jit
def _unfinished(state: State) -> jax.Array:
    return jax.vmap(lambda state: ~finished(state), in_axes=(axes(state),))(state)


def _position(state: State) -> np.ndarray:
    """What changes in every lane that makes progress, `[facts, L]`."""
    iteration = np.asarray(state.iteration) + np.asarray(state.rebased)
    facts = [state.now_s, iteration, state.head, state.computed, state.decodes]
    if state.shortage is not None:
        facts.append(state.shortage.preempted)
    return np.stack([np.asarray(fact, np.float64) for fact in facts])


def _record(
    into: LaneRecords,
    lanes: np.ndarray | slice,
    state: State,
    requests: LaneRequests,
    rounds: np.ndarray,
    stuck: np.ndarray,
    exceeded: np.ndarray,
) -> np.ndarray:
    """Write what a tile recorded of its lanes, the first of the state's; returns their statuses."""
    count, num_requests = requests.arrival_s.shape
    kept, short = state.records, state.shortage
    status = np.where((exceeded == LaneStatus.OK) & stuck, LaneStatus.NO_PROGRESS, exceeded)[:count]

    def column(values: jax.Array) -> np.ndarray:
        return np.asarray(values)[:count, :num_requests]

    def number(values: jax.Array | None) -> np.ndarray | int:
        return 0 if values is None else np.asarray(values)[:count]

    scheduled_s = column(kept.first_scheduled_s)
    if status.any() or np.isinf(requests.arrival_s[:, -1]).any():  # not everything has happened
        scheduled_s = np.where(np.isinf(scheduled_s), np.nan, scheduled_s)
    into.first_scheduled_s[lanes] = scheduled_s
    into.first_token_s[lanes] = column(kept.first_token_s)
    _resolve(into.first_token_s, lanes, np.asarray(kept.first_token_s))
    into.finish_s[lanes] = column(kept.finish_s)
    if short is not None:
        into.preemptions[lanes] = column(short.preemptions)
    into.itl_counts[lanes] = 0
    if kept.itl_counts is not None:
        counts = np.asarray(kept.itl_counts)  # bins before lanes: turned only where there is something
        used = np.flatnonzero(counts.any(axis=1))
        numbers = np.arange(len(into.status))[lanes]
        into.itl_counts[numbers[:, None], used] = counts[used, :count].T
    into.kv_token_seconds[lanes] = number(kept.kv_token_seconds)
    ended_s = (state.now_s,) if state.free_s is None else (state.now_s, state.free_s)
    into.makespan_s[lanes] = np.maximum.reduce([np.asarray(time_s)[:count] for time_s in ended_s])
    into.iterations[lanes] = (np.asarray(state.iteration) + np.asarray(state.rebased) - 1)[:count]
    into.recomputed_tokens[lanes] = number(None if short is None else short.recomputed_tokens)
    into.rounds[lanes] = rounds
    into.status[lanes] = status
    return status


def _resolve(first_token_s: np.ndarray, lanes: np.ndarray | slice, recorded: np.ndarray) -> None:
    """Replace every `-1 - r` that was recorded by the time of request r of the same lane, following chains."""
    flat, width = recorded.reshape(-1), recorded.shape[1]
    places = np.flatnonzero(flat < 0)
    lane, place = np.divmod(places, width)
    lane_start = places - place
    values = flat[places]
    while (linked := np.flatnonzero(values < 0)).size:
        values[linked] = flat[lane_start[linked] + (-1 - values[linked]).astype(np.intp)]
    there = (place < first_token_s.shape[1]) & (lane < len(first_token_s[lanes]))
    numbers = np.arange(len(first_token_s))[lanes]
    first_token_s[numbers[lane[there]], place[there]] = values[there]
