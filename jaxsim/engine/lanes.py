"""Many lanes on the host: cut into tiles, run again larger or gathered where need be, joined to one record."""

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from jaxsim import _loop
from jaxsim._status import LaneStatus
from jaxsim.engine import tile
from jaxsim.engine.lane_arrays import LaneRecords, LaneRequests, LaneSet
from jaxsim.engine.shape import Shape
from jaxsim.engine.state import Model
from jaxsim.engine.tile import RERUN_SHARE, Ran, Rest, Work

LANES_PER_TILE = 320
"""Lanes side by side on a core: enough to hide the cost of calling a kernel, few enough for the cache.
Measured 39 to 41 ns a round at 256 to 384, 42 at 512, 45 at 128."""

LANES_PER_ACCELERATOR_TILE = 65_536
"""Lanes side by side on an accelerator, whose kernels take microseconds to launch however few lanes there are."""

TILE_BYTES = 512 << 20
ACCELERATOR_TILE_BYTES = 16 << 30
"""Most memory of the request columns of one tile."""

LANE_COUNTS = (8, 64, 128, 192, 264, LANES_PER_TILE)
"""Lanes that programs for a core are compiled for; some of a tile may be empty. An empty lane costs little beside a
second to compile. Not 256: rows of slots then share the same few places of the cache, and a round with passes over them
takes twice as long."""

PADDED_BYTES = 64 << 20
"""More than `MOST_EMPTY` lanes are only added to tiles whose request columns take no more than this with them."""

MOST_EMPTY = 8

SLOT_WIDTHS = (8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
"""Numbers of slots that programs are compiled for; a pass over slots costs 0.25 ns per slot and round."""

FEW_SLOT_WIDTHS = (8, 32, 128, 512, 2048, 4096)
"""The same as long as compiling costs more than wide slots do: until `MANY_REQUESTS` were simulated."""

MANY_REQUESTS = 5_000_000
"""Requests of a kind that take about as long, with slots four times as wide as needed, as compiling a better width."""

FEW = 4
"""Where the KV pool preempts, lanes take very different numbers of rounds (the slowest of 320 with 5 % of requests
preempted 1.4 times the mean): a tile is left when one in so many is unfinished, and those are gathered. Moving them
costs, too: measured 349 ns a request with 4, 365 to 384 with 2, 343 to 361 with 5, 358 to 364 with 8."""

_BYTES_PER_REQUEST = 48


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
        return tile.run(dataclasses.replace(lanes, model=models[worker.device]), records, work, stop, worker)

    def tiles(shape: Shape, places: np.ndarray) -> Iterator[Work]:
        parts = _tiles(places, num_requests, workers)
        for part in parts:
            first = needs.first(lanes.shape)
            kv = first.kv if shape.kv == "watched" else shape.kv
            larger = dataclasses.replace(shape, slots=max(shape.slots, first.slots), kv=kv)
            width = _lanes_of_program(len(part), larger.num_requests)
            yield Work(larger, part, width, [], len(part) // FEW if larger.counted and len(parts) > 1 else 0)

    try:
        while todo or left:
            if todo:
                shape, waiting = todo.popitem()
                work = tiles(shape, np.concatenate(waiting))
            else:
                work = iter(_gathered(*left.popitem()))
            for (tried, mine, _, begun, _), ran in _loop.map_tiles(run, work, list(workers)):
                crowded = ran.status == LaneStatus.SLOTS_EXCEEDED
                full = ran.status == LaneStatus.BLOCKS_EXCEEDED
                if np.sum(crowded) > RERUN_SHARE * len(mine):
                    needs.too_few = max(needs.too_few, tried.slots)
                if np.sum(full) > RERUN_SHARE * len(mine):
                    needs.counted = True
                needs.requests += 0 if begun else len(mine) * num_requests
                if crowded.any():
                    wider = dataclasses.replace(tried, slots=needs.slots(tried.slots + 1, lanes.shape.slots))
                    todo.setdefault(wider, []).append(mine[crowded])
                if full.any():
                    todo.setdefault(dataclasses.replace(tried, kv="counted"), []).append(mine[full])
                if ran.rest is not None:
                    left.setdefault(tried, []).append(ran.rest)
                again = np.sum(crowded | full) + (0 if ran.rest is None else len(ran.rest.lanes))
                progress(len(mine) - int(again))
    except BaseException:
        stop.set()
        raise
    return records


def _gathered(shape: Shape, rests: list[Rest]) -> list[Work]:
    """Unfinished lanes of several tiles side by side in fewer; the last of all are run to their end."""
    width = max(rest.width for rest in rests)
    tiles: list[list[Rest]] = [[]]
    for rest in rests:
        if sum(len(one.lanes) for one in tiles[-1]) + len(rest.lanes) > width:
            tiles.append([])
        tiles[-1].append(rest)
    lanes = [np.concatenate([rest.lanes for rest in begun]) for begun in tiles]
    few = [len(mine) // FEW if len(tiles) > 1 else 0 for mine in lanes]
    return [Work(shape, mine, width, begun, left) for mine, begun, left in zip(lanes, tiles, few, strict=True)]


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
    small = lanes * num_requests * _BYTES_PER_REQUEST <= PADDED_BYTES
    return lanes if small or lanes - count <= MOST_EMPTY else count


def _on_device(model: Model, device: jax.Device) -> Model:
    """The numbers that all lanes share where they are used, put there once; those of each lane go with their tile."""
    with jax.enable_x64(True):
        return jax.tree.map(lambda leaf: leaf if leaf.ndim else jax.device_put(leaf, device), model)
