"""Array idioms of the engine: written for one lane, fast when `vmap` puts a thousand lanes side by side.

The engine's text is about one lane. What `vmap` makes of it on a CPU decides its speed, and each idiom here exists
because the plain form was measured to be slower (`benchmarks/README.md` has the figures):

* `phase`    keeps a group of operations one compiled kernel;
* `take`, `put`, `put_min`, `put_add`   touch one element of a column, in bounds, without a batched gather;
* `rarely`   skips an expensive pass unless some lane of the batch needs it;
* `Pending`  reads a slot array as if a write were made that comes later;
* `reduce_slots`, `least_of_slots`   combine all slots in a form that is vectorised over lanes;
* `first_there`, `first_least`   find a place without a reduction of pairs;
* `select`   is `where` without the nested call;
* `rounded`  keeps a product from being fused into a following sum.

Columns have lanes on their first axis (`[lanes, N]`), slot arrays on their last (`[S, lanes]`): a minimum over slots is
then a plain vector operation over lanes.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

from jaxsim._kernels import marked

P = ParamSpec("P")
R = TypeVar("R")

_IN_BOUNDS: dict[str, Any] = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
"""An index is neither checked nor counted from the end."""


def phase(function: Callable[P, R]) -> Callable[P, R]:
    """Make `function` a fusion barrier: its operations are compiled as calls of their own.

    XLA fuses a whole round into its consumers and recomputes shared producer chains once per output; as separate calls
    the phases of the study's round took 20 ns instead of 39 ns. `lax.optimization_barrier` does not help: it is removed
    before fusion.
    """
    jitted = jax.jit(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if jax.default_backend() != "cpu":  # a call costs a GPU a launch, and saves nothing
            return function(*args, **kwargs)
        with marked(inlineable="false"):
            result: R = jitted(*args, **kwargs)
        return result

    return call


def select(condition: Any, if_true: Any, if_false: Any) -> jax.Array:
    """`where` as a bare `lax.select`: inside a phase `jnp.where` would be a call of its own (a round 64 to 45 ns).

    The result has the type of the side that has one; two plain numbers are int32.
    """
    dtype = next((x.dtype for x in (if_true, if_false) if hasattr(x, "dtype")), jnp.int32)
    shape = jnp.broadcast_shapes(jnp.shape(condition), jnp.shape(if_true), jnp.shape(if_false))
    return lax.select(
        jnp.broadcast_to(condition, shape),
        jnp.broadcast_to(jnp.asarray(if_true, dtype), shape),
        jnp.broadcast_to(jnp.asarray(if_false, dtype), shape),
    )


def rounded(product: jax.Array) -> jax.Array:
    """The product of two float64 numbers, rounded before anything is added to it.

    LLVM contracts a multiplication and an addition into one fused operation with one rounding; iteration times would
    then differ in the last bit from the documented order of operations, and an arrival exactly at the end of an
    iteration would fall on its wrong side. This maximum is the identity for every finite number and is not fused
    through.
    """
    return lax.max(product, jnp.finfo(jnp.float64).min)


def _flat_index(batch: int, width: int, index: jax.Array) -> jax.Array:
    return jnp.arange(batch, dtype=index.dtype) * width + index


def _batched(batch: int, batched: bool, x: jax.Array) -> jax.Array:
    return x if batched else jnp.broadcast_to(x, (batch, *x.shape))


def _get(column: jax.Array, index: jax.Array) -> jax.Array:
    return column.at[index].get(**_IN_BOUNDS)


@custom_vmap
def take(column: jax.Array, index: jax.Array) -> jax.Array:
    """`column[index]` for an index known to be in bounds."""
    return _get(column, index)


@take.def_vmap
def _take_lanes(batch: int, batched: list[bool], column: jax.Array, index: jax.Array) -> tuple[jax.Array, bool]:
    index = _batched(batch, batched[1], index)
    if not batched[0]:
        return _get(column, index), True
    flat = _flat_index(batch, column.shape[1], index)
    return _get(column.reshape(-1), flat), True


@custom_vmap
def take_slot(slots: jax.Array, index: jax.Array) -> jax.Array:
    """`slots[index]` for a slot array (lanes on the last axis)."""
    return _get(slots, index)


@take_slot.def_vmap
def _take_slot_lanes(batch: int, batched: list[bool], slots: jax.Array, index: jax.Array) -> tuple[jax.Array, bool]:
    slots, index = _batched(batch, batched[0], slots), _batched(batch, batched[1], index)
    flat = index * batch + jnp.arange(batch, dtype=index.dtype)
    return _get(slots.T.reshape(-1), flat), True


def _column_writer(method: str) -> Callable[[jax.Array, jax.Array, jax.Array], jax.Array]:
    def write(column: jax.Array, index: jax.Array, value: jax.Array) -> jax.Array:
        scatter = getattr(column.at[index], method)
        return scatter(value, unique_indices=True, **_IN_BOUNDS)

    writer = custom_vmap(write)

    @writer.def_vmap
    def _(
        batch: int, batched: list[bool], column: jax.Array, index: jax.Array, value: jax.Array
    ) -> tuple[jax.Array, bool]:
        column, index, value = (_batched(batch, b, x) for b, x in zip(batched, (column, index, value), strict=True))
        flat = _flat_index(batch, column.shape[1], index)
        return write(column.reshape(-1), flat, value).reshape(column.shape), True

    return writer


put = _column_writer("set")
"""`column[index] = value`, in bounds: a lane with nothing to write names the column's spare last element."""

put_min = _column_writer("min")
"""`column[index] = min(column[index], value)`: for a time that keeps its first value."""

put_add = _column_writer("add")
"""`column[index] += value`."""


@custom_vmap
def add_each(counts: jax.Array, indices: tuple[jax.Array, ...], values: tuple[jax.Array, ...]) -> jax.Array:
    """`counts[i] += v` for each of a few indices and values, which may repeat: one scatter instead of several.

    Lanes of `counts` are on the last axis: lanes add to about the same few bins, which then share memory pages.
    """
    return counts.at[jnp.stack(indices)].add(jnp.stack(values), **_IN_BOUNDS)


@add_each.def_vmap
def _add_each_lanes(
    batch: int, batched: Any, counts: jax.Array, indices: tuple[jax.Array, ...], values: tuple[jax.Array, ...]
) -> tuple[jax.Array, bool]:
    counts, indices, values = jax.tree.map(
        functools.partial(_batched, batch), tuple(batched), (counts, indices, values)
    )
    places = jnp.concatenate([index * batch + jnp.arange(batch, dtype=index.dtype) for index in indices])
    lanes_last = counts.T
    added = lanes_last.reshape(-1).at[places].add(jnp.concatenate(values), **_IN_BOUNDS)
    return added.reshape(lanes_last.shape).T, True


@custom_vmap
def put_slot(slots: jax.Array, index: jax.Array, value: jax.Array) -> jax.Array:
    """`slots[index] = value` for a slot array; a lane with nothing to write names the spare last slot."""
    return slots.at[index].set(value, unique_indices=True, **_IN_BOUNDS)


@put_slot.def_vmap
def _put_slot_lanes(
    batch: int, batched: list[bool], slots: jax.Array, index: jax.Array, value: jax.Array
) -> tuple[jax.Array, bool]:
    slots, index, value = (_batched(batch, b, x) for b, x in zip(batched, (slots, index, value), strict=True))
    flat = index * batch + jnp.arange(batch, dtype=index.dtype)
    lanes_last = slots.T
    written = lanes_last.reshape(-1).at[flat].set(value, unique_indices=True, **_IN_BOUNDS)
    return written.reshape(lanes_last.shape).T, True


class Pending(NamedTuple):
    """A slot array and a write to it that is yet to be made: a round makes all its writes at its end, so that what it
    computes is one kernel (`few_kernels`)."""

    slots: jax.Array
    place: jax.Array
    value: jax.Array

    def all(self) -> jax.Array:
        """The array as written, without its spare slot: for a pass, which makes it on the way."""
        slots = self.slots[:-1]
        return select(slot_numbers(slots) == self.place, self.value, slots)

    def at(self, index: jax.Array) -> jax.Array:
        """An element of the array as written."""
        return select(index == self.place, self.value, take_slot(self.slots, index))

    def written(self) -> jax.Array:
        """The array as written."""
        return put_slot(self.slots, self.place, self.value)


def over_slots(function: Callable[P, R]) -> Callable[P, R]:
    """A phase over slot arrays, whose reductions are along their first axis.

    The function must work for one lane (slot arrays `[S]`, scalars) and, unchanged, for many (slot arrays `[S, lanes]`,
    scalars `[lanes]`): elementwise operations that broadcast, and reductions along axis 0. `vmap` would turn lanes to
    the first axis, a transposing copy of every slot array (a minimum over 96 slots takes 5 ns a lane as `[S, lanes]`,
    80 turned). Arguments and results may be pytrees; leaves that are the same for all lanes stay as they are.
    """

    over_arrays: Callable[..., Any] = function

    @custom_vmap
    def one(*args: Any) -> Any:
        return over_arrays(*args)

    @one.def_vmap
    def _(batch: int, batched: Any, *args: Any) -> tuple[Any, Any]:
        turned = jax.tree.map(lambda of, x: x.T if of and x.ndim == 2 else x, tuple(batched), args)
        result = phase(over_arrays)(*turned)

        def back(x: jax.Array) -> jax.Array:  # one that does not depend on the lane may have no lane axis
            return x.T if x.ndim == 2 else jnp.broadcast_to(x, (batch,)) if x.ndim == 0 else x

        result = jax.tree.map(back, result)
        return result, jax.tree.map(lambda _: True, result)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = one(*args, **kwargs)
        return result

    return call


def _lanes_last(batched: list[bool], args: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return tuple(a.T if b and a.ndim == 2 else a for a, b in zip(args, batched, strict=True))


def slot_numbers(slots: jax.Array) -> jax.Array:
    """0 .. S-1 along the first axis, in the shape of a slot array."""
    return lax.broadcasted_iota(jnp.int32, slots.shape, 0)


def reduce_slots(combine: Callable[[jax.Array, jax.Array], jax.Array], values: jax.Array) -> jax.Array:
    """All slots combined (by `jnp.minimum`, `jnp.maximum` or, for whole numbers, `jnp.add`), in halves.

    XLA's reduction is a loop over slots in a loop over lanes. It is vectorised only where LLVM unrolls the inner one:
    for up to 32 slots, if what is reduced is as simple as one comparison. Else it is several times slower than this.
    """
    while (slots := values.shape[0]) % 2 == 0:
        values = combine(values[: slots // 2], values[slots // 2 :])
    return functools.reduce(combine, [values[slot] for slot in range(slots)])


def least_of_slots(values: jax.Array) -> jax.Array:
    """The minimum over slots of something simple: see `reduce_slots`."""
    return jnp.min(values, axis=0) if values.shape[0] <= 32 else reduce_slots(jnp.minimum, values)


def first_slot(there: jax.Array) -> jax.Array:
    """The first slot where `there` (bool, a slot array) is true, S where none is."""
    return reduce_slots(jnp.minimum, select(there, slot_numbers(there), jnp.int32(there.shape[0])))


def first_there(there: jax.Array) -> jax.Array:
    """The first place, int32, of a bool array where it is true; 0 where nowhere. `argmax` is a reduction of pairs, a
    scalar loop in XLA: 16 against 4 microseconds for 64 lanes of 64 places (equal for 8 places)."""
    size = there.shape[-1]
    place = jnp.min(select(there, jnp.arange(size, dtype=jnp.int32), jnp.int32(size)))
    return select(place == size, 0, place)


def first_least(values: jax.Array) -> jax.Array:
    """The first place, int32, of the least of the values, of which none is nan; see `first_there`."""
    return first_there(values == jnp.min(values))


def rarely(needed: jax.Array, function: Callable[..., Any], otherwise: Any, *args: jax.Array) -> Any:
    """`function(*args)` where `needed`, else `otherwise`; the work is skipped while no lane of the batch needs it.

    A `cond` under `vmap` computes both sides for every lane on every round. Here the predicate is "does any lane need
    it", so a pass over all slots costs 1-3 ns a round while nobody does. `function` works for one lane and for many as
    in `over_slots`, and returns scalars per lane, never a buffer: a conditional that returns one copies it.
    """

    @custom_vmap
    def one(needed: jax.Array, otherwise: Any, *args: jax.Array) -> Any:
        return lax.cond(needed, lambda o, *a: function(*a), lambda o, *a: o, otherwise, *args)

    @one.def_vmap
    def _(batch: int, batched: Any, needed: jax.Array, otherwise: Any, *args: jax.Array) -> tuple[Any, Any]:
        needed = _batched(batch, batched[0], needed)
        otherwise = jax.tree.map(functools.partial(_batched, batch), batched[1], otherwise)

        def some(otherwise: Any, *args: jax.Array) -> Any:
            return jax.tree.map(functools.partial(select, needed), phase(function)(*args), otherwise)

        result = lax.cond(jnp.any(needed), some, lambda o, *a: o, otherwise, *_lanes_last(batched[2:], args))
        return result, jax.tree.map(lambda _: True, result)

    return one(needed, otherwise, *args)
