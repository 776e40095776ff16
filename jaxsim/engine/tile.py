"""One tile: lanes of one shape side by side on a device, until they have finished or only a few have not."""

import functools
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim import _loop
from jaxsim._status import LaneStatus
from jaxsim.engine import round as engine_round
from jaxsim.engine.lane_arrays import LaneRecords, LaneRequests, LaneSet, as_slice
from jaxsim.engine.programs import PROGRAMS
from jaxsim.engine.shape import Shape
from jaxsim.engine.state import Columns, Model, State, axes, finished, initial, rebase

ROUNDS_PER_CHUNK = 4096
"""Rounds between two returns to the host, which looks at progress, interrupts and lanes that do not move."""

RERUN_SHARE = 1 / 16
"""A tile is given up when more of its lanes than this must be run again larger, and the next ones start larger: running
a few lanes again costs nearly as much as running a tile."""


class Stopped(Exception):
    """Raised inside a worker when the run was interrupted."""


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
    width: int
    """Lanes of the program that runs it; those that are too many stay empty."""
    begun: list[Rest]
    """Where its lanes stand; empty at the start."""
    few: int
    """So many unfinished lanes are left for another tile."""


class Ran(NamedTuple):
    """What became of a tile."""

    status: np.ndarray
    rest: Rest | None


def run(set: LaneSet, records: LaneRecords, work: Work, stop: threading.Event, worker: _loop.Worker) -> Ran:
    """Run some lanes of a set and write what they recorded into `records`."""
    shape, lanes, width = work.shape, work.lanes, work.width
    with jax.enable_x64(True), jax.default_device(worker.device):
        mine, count = as_slice(lanes), len(lanes)
        requests = set.requests[mine]
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
            state, more = chunk(state, model, columns, few)
            rounds = rounds + int(more)
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
