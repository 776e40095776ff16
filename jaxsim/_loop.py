"""The only loops: rounds of a batch of lanes on the device, tiles of lanes over cores and devices on the host."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from jaxsim._kernels import few_kernels

if os.environ.get("JAXSIM_SETTLED"):  # `cli.process.settle`
    # each worker starts its programs in its own thread: XLA's thread would be one for all
    jax.config.update("jax_cpu_enable_async_dispatch", False)

State = TypeVar("State")
Tile = TypeVar("Tile")
Result = TypeVar("Result")

ROUNDS_PER_SCAN = 16
"""Rounds between two looks at whether every lane has finished."""


def advance(
    step: Callable[[State], State],
    unfinished: Callable[[State], jax.Array],
    state: State,
    rounds: int,
    few: jax.Array | int = 0,
    unroll: int = 1,
) -> tuple[State, jax.Array]:
    """Apply `step` until only `few` lanes are `unfinished`, or `rounds` times (rounded up to whole scans).

    The predicate is one scalar for all lanes: a loop whose predicate is batched selects over every buffer it carries,
    hundreds of times slower. A finished lane must be a fixed point of `step`.

    Args:
        step: one round of all lanes.
        unfinished: bool per lane.
        state: of all lanes.
        rounds: most rounds.
        few: unfinished lanes that are left as they are.
        unroll: rounds in the body of the compiled loop. With two, the state goes back and forth between two buffers;
            with one it is copied every time, and where XLA finds more than eight copies and scatters to do it hands
            them, and the rest of the run, to its own thread, which all cores have to share. Compiling takes longer.

    Returns:
        The state and the number of rounds run, int32.
    """

    round_of_all = few_kernels(step)

    def more(carry: tuple[jax.Array, State]) -> jax.Array:
        count, state = carry
        return (count < rounds) & (jnp.sum(unfinished(state), dtype=jnp.int32) > few)

    def scan(carry: tuple[jax.Array, State]) -> tuple[jax.Array, State]:
        count, state = carry
        state, _ = lax.scan(lambda s, _: (round_of_all(s), None), state, None, length=ROUNDS_PER_SCAN, unroll=unroll)
        return count + ROUNDS_PER_SCAN, state

    count, state = lax.while_loop(more, scan, (jnp.int32(0), state))
    return state, count


@dataclass(frozen=True)
class Worker:
    """Where one stream of tiles runs: a device, and the core its thread is pinned to (None: any)."""

    device: jax.Device
    core: int | None


def workers(devices: int | None = None) -> list[Worker]:
    """One worker per core on CPU, one per device on accelerators.

    Several threads on one CPU device each run their own tile at a core's full speed; a single tile handed to XLA's
    thread pool is slower than one core (its kernels are too small to share).

    Args:
        devices: how many at most; None for all.

    Raises:
        ValueError: more than there are.
    """
    if jax.default_backend() == "cpu":
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None] * (os.cpu_count() or 1)
        found = [Worker(jax.local_devices()[i % jax.local_device_count()], core) for i, core in enumerate(cores)]
    else:
        found = [Worker(device, None) for device in jax.local_devices()]
    if devices is not None and devices > len(found):
        raise ValueError(f"devices must be at most {len(found)} here, not {devices}")
    return found[:devices]


def map_tiles(
    function: Callable[[Tile, Worker], Result], tiles: Iterable[Tile], workers: list[Worker]
) -> Iterator[tuple[Tile, Result]]:
    """`function(tile, worker)` for every tile, one tile at a time per worker; results as they come.

    The order of results depends on timing, what they hold must not. An exception of a tile, and Ctrl-C, wait for the
    tiles under way and start no others.
    """
    todo = iter(tiles)
    mine = threading.local()
    unused = list(workers)

    def settle() -> None:
        mine.worker = unused.pop()
        if mine.worker.core is not None and len(workers) > 1:
            os.sched_setaffinity(0, {mine.worker.core})

    with ThreadPoolExecutor(len(workers), "jaxsim", settle) as pool:
        running: dict[Future[Result], Tile] = {}
        try:
            while True:
                while len(running) < len(workers) and (tile := next(todo, None)) is not None:
                    running[pool.submit(lambda tile: function(tile, mine.worker), tile)] = tile
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), future.result()
        finally:
            for future in running:
                future.cancel()
