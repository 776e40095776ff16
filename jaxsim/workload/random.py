"""Every random number of a workload, as a pure function of the seed, the purpose and the request's index.

The number of request `i` is read from the key `fold_in(fold_in(key(seed), purpose), i)`: 52 of that key's 64 bits.
Nothing else enters, neither the number of requests nor other seeds nor a global JAX flag, so one seed gives the same
requests under every rate and configuration, and a longer run starts like a shorter one.
"""

import contextlib
import enum
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

TILE = 1024
"""Requests per call of the compiled program. A request always sits at the same place of a program of the same shape, so
vectorised arithmetic, whose last bit may depend on the place, cannot break exact reproducibility; and no number of
requests or seeds compiles anew."""


PAST = 1 << 31
"""First index of what was before the start, counted backwards from it: a longer past ends like a shorter one."""


_STRATA_BITS = 4
STRATA = 1 << _STRATA_BITS
"""Seeds that share out [0, 1) where draws are stratified: a Latin hypercube (McKay, Beckman & Conover 1979) with a
dimension for every number of a seed. Which sixteenth seed s gets of a number is `(a s + b) mod 16` with an odd a and a
b of the number's own, so that every seed is as random as ever, and each sixteenth is had once by sixteen seeds."""


class Purpose(enum.IntEnum):
    """What a random number decides. The codes are part of what a seed means: add, never renumber."""

    ARRIVAL = 0
    PROMPT = 1
    OUTPUT = 2
    ROUTING = 3
    STATE = 4
    """Sojourn times of a modulated arrival process (indexed by sojourn, not by request)."""
    INITIAL_STATE = 5
    """Where a modulated arrival process starts."""
    RESAMPLE = 6
    """First rows of the blocks of a resampled trace (indexed by block)."""
    CLASS = 7
    """Which class a request is of."""
    STRATUM = 8
    """Which sixteenth of [0, 1) a number of a seed lies in, of the numbers of sixteen seeds."""


_OWN: Mapping[Purpose, tuple[Purpose, ...]] = types.MappingProxyType({})


def _identity(uniform: jax.Array) -> jax.Array:
    return uniform


uniform_sampler = Partial(_identity)
"""The sampler of the uniforms themselves."""


def draw(
    samplers: Mapping[Purpose, Partial],
    seeds: np.ndarray,
    count: int,
    inputs: Mapping[Purpose, tuple[Purpose, ...]] = _OWN,
    first: int = 0,
    stratified: bool = False,
) -> dict[Purpose, np.ndarray]:
    """Draw the numbers with index `first` .. `first` + count - 1 under every seed.

    Args:
        samplers: per purpose a function of uniforms in (0, 1), float64 `[n]`, to `n` values: an elementwise inverse CDF
            whose parameters are the bound arguments of the `Partial`, so that new numbers do not compile anew.
        seeds: whole numbers of zero or greater, `[R]`.
        count: numbers per seed.
        inputs: purposes whose uniforms a sampler takes, in order, where that is not just its own.
        first: 0, or `PAST`.
        stratified: of the seeds 16 g to 16 g + 15, each number has one in every sixteenth of [0, 1) (see `STRATA`).

    Returns:
        NumPy arrays `[R, count]`, one per purpose; read-only if they are kept for the next call that asks for the same.
    """
    seeds = checked_seeds(seeds)
    samplers = dict(samplers)
    takes = tuple((purpose, inputs.get(purpose, (purpose,))) for purpose in samplers)
    if len(seeds) * count > _KEPT_NUMBERS:
        return _draw(takes, samplers, seeds, first, count, stratified)
    leaves, structure = jax.tree.flatten(samplers)
    bound = tuple((leaf.dtype.str, leaf.shape, leaf.tobytes()) for leaf in map(np.asarray, leaves))
    key = (takes, structure, bound, seeds.tobytes(), first, count, stratified)
    return _KEPT.get(key, lambda: _draw(takes, samplers, seeds, first, count, stratified))


def _draw(
    takes: tuple[tuple[Purpose, tuple[Purpose, ...]], ...],
    samplers: dict[Purpose, Partial],
    seeds: np.ndarray,
    first: int,
    count: int,
    stratified: bool,
) -> dict[Purpose, np.ndarray]:
    drawn: dict[Purpose, np.ndarray] = {}
    with _on_cpu_in_float64():
        for lane, seed in enumerate(seeds):
            for start in range(0, count, TILE):
                for purpose, values in _tile(takes, stratified, samplers, seed, np.uint32(first + start)).items():
                    if purpose not in drawn:
                        drawn[purpose] = np.empty((len(seeds), count), values.dtype)
                    into = drawn[purpose][lane, start : start + TILE]
                    into[:] = np.asarray(values)[: len(into)]
    return drawn


_KEPT_NUMBERS = 1 << 20
"""Most numbers per purpose of a draw that is kept."""


class _Kept:
    """The latest draws, because many scenarios serve the same requests at other rates and under other configurations.

    Args:
        most_bytes: of all together.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._draws: OrderedDict[Hashable, dict[Purpose, np.ndarray]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, draw: Callable[[], dict[Purpose, np.ndarray]]) -> dict[Purpose, np.ndarray]:
        """What `draw` returns, read-only; kept under `key`."""
        with self._lock:
            if key in self._draws:
                self._draws.move_to_end(key)
                return dict(self._draws[key])
        drawn = draw()
        for values in drawn.values():
            values.flags.writeable = False
        with self._lock:
            self._draws[key] = drawn
            while len(self._draws) > 1 and sum(map(_bytes, self._draws.values())) > self._most_bytes:
                self._draws.popitem(last=False)
        return dict(drawn)


_KEPT = _Kept(64 << 20)


def _bytes(drawn: Mapping[Purpose, np.ndarray]) -> int:
    return sum(values.nbytes for values in drawn.values())


def uniforms(purpose: Purpose, seeds: np.ndarray, count: int, first: int = 0) -> np.ndarray:
    """The uniforms themselves: float64 `[R, count]`, in the open interval (0, 1)."""
    return draw({purpose: uniform_sampler}, seeds, count, first=first)[purpose]


def quantiles(sampler: Partial, count: int) -> np.ndarray:
    """What a sampler makes of `count` evenly spaced uniforms: the distribution without the luck of a draw."""
    with _on_cpu_in_float64():
        return np.asarray(_apply(sampler, (np.arange(count) + 0.5) / count))


@jax.jit
def _apply(sampler: Partial, uniform: jax.Array) -> jax.Array:
    return sampler(uniform)


def checked_seeds(seeds: Sequence[int] | np.ndarray) -> np.ndarray:
    """The seeds as int64 `[R]`, or a ValueError if they are not whole numbers in [0, 2^63)."""
    array = np.asarray(seeds)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= 2**63:
        raise ValueError(f"seeds must be a non-empty list of whole numbers, 0 or greater and below 2^63, not {seeds!r}")
    return array.astype(np.int64)


@partial(jax.jit, static_argnums=(0, 1))
def _tile(
    takes: tuple[tuple[Purpose, tuple[Purpose, ...]], ...],
    stratified: bool,
    samplers: dict[Purpose, Partial],
    seed: jax.Array,
    start: jax.Array,
) -> dict[Purpose, jax.Array]:
    index = start + jnp.arange(TILE, dtype=jnp.uint32)
    uniforms = {purpose: _uniforms(seed, purpose, index, stratified) for _, taken in takes for purpose in taken}
    return {purpose: samplers[purpose](*(uniforms[other] for other in taken)) for purpose, taken in takes}


def _uniforms(seed: jax.Array, purpose: Purpose, index: jax.Array, stratified: bool) -> jax.Array:
    """One uniform per index: (k + 1/2) 2^-52 for a 52-bit k, hence exact in float64, never 0 and never 1."""
    key = jax.random.key(seed, impl="threefry2x32")
    words = _words(jax.random.fold_in(key, int(purpose)), index)
    bits = words[:, 0].astype(jnp.uint64) << 20 | words[:, 1].astype(jnp.uint64) >> 12
    if stratified:
        group = jax.random.fold_in(jax.random.key(seed // STRATA, impl="threefry2x32"), int(Purpose.STRATUM))
        chosen = _words(jax.random.fold_in(group, int(purpose)), index)
        stratum = ((2 * chosen[:, 0] + 1) * (seed % STRATA).astype(jnp.uint32) + chosen[:, 1]) % STRATA
        bits = stratum.astype(jnp.uint64) << (52 - _STRATA_BITS) | bits >> _STRATA_BITS
    return (bits.astype(jnp.float64) + 0.5) * 2.0**-52


def _words(key: jax.Array, index: jax.Array) -> jax.Array:
    """Two random words of 32 bits per index, `[n, 2]`."""
    return jax.random.key_data(jax.vmap(jax.random.fold_in, (None, 0))(key, index))


@contextlib.contextmanager
def _on_cpu_in_float64() -> Iterator[Any]:
    """The host draws wherever the engine runs: an accelerator's logarithm may differ in the last bit."""
    try:
        device = jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX was told to use an accelerator only
        device = None
    with jax.enable_x64(True), jax.default_device(device):
        yield
