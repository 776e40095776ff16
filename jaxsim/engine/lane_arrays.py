"""Lanes as NumPy arrays: what is simulated, and what was recorded."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from jaxsim.engine.record import ITL_BINS
from jaxsim.engine.shape import Shape
from jaxsim.engine.state import Model


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
        rounds: int64 `[L]`, rounds of the tiles the lane was in.
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


def as_slice(lanes: np.ndarray) -> np.ndarray | slice:
    """Consecutive lanes as a slice, which is a view instead of a copy."""
    first, last = int(lanes[0]), int(lanes[-1])
    consecutive = last - first + 1 == len(lanes) and bool(np.all(np.diff(lanes) == 1))
    return slice(first, last + 1) if consecutive else lanes
