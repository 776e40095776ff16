"""The requests of a run: what every workload produces and the engine consumes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from jaxsim.workload.clients import Clients
from jaxsim.workload.random import Purpose, uniforms

MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Requests:
    """R seeds x N requests on the host, in order of arrival within a seed. Arrays may be read-only views.

    Attributes:
        arrival_s: float64 `[R, N]`, seconds from the start, not decreasing along N.
        prompt_tokens: int32 `[R, N]`, 1 or greater.
        output_tokens: int32 `[R, N]`, 1 or greater.
        routing_uniform: float64 `[R, N]` in [0, 1), each request's own random number for routers.
        row: int32 `[R, N]`, the `request` column of results: the row of a trace (from 0), else 0 .. N-1.
        priority: int32 `[R, N]`, smaller is served first by policies that look at it.
        class_index: int32 `[R, N]`, place in `class_names`.
        rate_per_s: nominal rate in requests/s, nan if the workload has none.
        id: text ids by row; None means the zero-padded row.
        session: text session names by row, if the workload has them.
        class_names: names of the request classes, if the workload has them.
        notices: sentences for the user about what was done to the input.
        clients: who sends the requests, if they wait for answers; of a closed loop `arrival_s` is 0.
    """

    arrival_s: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    routing_uniform: np.ndarray
    row: np.ndarray
    priority: np.ndarray
    class_index: np.ndarray
    rate_per_s: float = math.nan
    id: tuple[str, ...] | None = None
    session: tuple[str, ...] | None = None
    class_names: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    clients: Clients | None = None

    @classmethod
    def from_arrays(
        cls,
        arrival_s: ArrayLike,
        prompt_tokens: ArrayLike,
        output_tokens: ArrayLike,
        *,
        routing_uniform: ArrayLike | None = None,
        priority: ArrayLike = 0,
        class_index: ArrayLike = 0,
        rate_per_s: float = math.nan,
        id: Sequence[str] | None = None,
        session: Sequence[str] | None = None,
        class_names: Sequence[str] = (),
    ) -> "Requests":
        """Check plain arrays and put them in order of arrival.

        Args:
            arrival_s: seconds, `[N]` for one seed or `[R, N]`; sorted stably if need be (`row` keeps the place given).
            prompt_tokens: whole numbers, of a shape that broadcasts to that of `arrival_s`; likewise the following.
            output_tokens: whole numbers.
            routing_uniform: in [0, 1); by default those of the seeds 0 .. R-1.
            priority: whole numbers.
            class_index: whole numbers.
            rate_per_s: nominal rate in requests/s, if there is one.
            id: text id of each of the N places.
            session: session name of each of the N places.
            class_names: what `class_index` counts.

        Raises:
            ValueError: no requests, or a value that is not a finite number in range, named by array and place.
        """
        arrival = np.asarray(arrival_s)
        if arrival.ndim not in (1, 2) or arrival.size == 0:
            raise ValueError(f"arrival_s must have shape [N] or [R, N] and at least one request, not {arrival.shape}")
        shape = np.atleast_2d(arrival).shape
        arrival = _checked("arrival_s", arrival, shape, _FINITE)
        columns: dict[str, Any] = {
            "prompt_tokens": _checked("prompt_tokens", prompt_tokens, shape, _TOKENS),
            "output_tokens": _checked("output_tokens", output_tokens, shape, _TOKENS),
            "priority": _checked("priority", priority, shape, _WHOLE),
            "class_index": _checked("class_index", class_index, shape, _COUNT),
            "row": np.broadcast_to(np.arange(shape[1], dtype=np.int32), shape),
        }
        if routing_uniform is None:
            columns["routing_uniform"] = uniforms(Purpose.ROUTING, np.arange(shape[0]), shape[1])
        else:
            columns["routing_uniform"] = _checked("routing_uniform", routing_uniform, shape, _FRACTION)
        for name, texts in (("id", id), ("session", session)):
            if texts is not None and len(texts) != shape[1]:
                raise ValueError(f"{name} must have one text per request ({shape[1]}), not {len(texts)}")
        notices: tuple[str, ...] = ()
        if np.any(np.diff(arrival, axis=1) < 0):
            order = np.argsort(arrival, axis=1, kind="stable")
            arrival = np.take_along_axis(arrival, order, axis=1)
            columns = {name: np.take_along_axis(column, order, axis=1) for name, column in columns.items()}
            notices = ("requests were not in order of arrival and were sorted (equal arrivals keep their order)",)
        return cls(
            arrival_s=arrival,
            **columns,
            rate_per_s=rate_per_s,
            id=None if id is None else tuple(id),
            session=None if session is None else tuple(session),
            class_names=tuple(class_names),
            notices=notices,
        )


class _Range(NamedTuple):
    low: float
    high: float
    dtype: type
    must: str


_FINITE = _Range(0.0, float(np.finfo(np.float64).max), np.float64, "a finite number, 0 or greater")
_FRACTION = _Range(0.0, math.nextafter(1.0, 0.0), np.float64, "a number in [0, 1)")
_TOKENS = _Range(1, MAX_INT32, np.int32, f"a whole number from 1 to {MAX_INT32}")
_COUNT = _Range(0, MAX_INT32, np.int32, f"a whole number from 0 to {MAX_INT32}")
_WHOLE = _Range(-MAX_INT32, MAX_INT32, np.int32, f"a whole number from -{MAX_INT32} to {MAX_INT32}")


def _checked(name: str, values: ArrayLike, shape: tuple[int, ...], valid: _Range) -> np.ndarray:
    """The values broadcast to `shape`; a ValueError names the first that is not valid."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold numbers, not {array.dtype}")
    try:
        array = np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"{name} has shape {array.shape}, which does not fit that of arrival_s, {shape}") from None
    good = (array >= valid.low) & (array <= valid.high)  # false for nan
    if valid.dtype is np.int32:
        good &= array == np.floor(array)
    if not good.all():
        seed, place = np.argwhere(~good)[0]
        raise ValueError(f"{name}[{seed}, {place}] is {array[seed, place]}; it must be {valid.must}")
    return array.astype(valid.dtype)
