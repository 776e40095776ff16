"""What a whole lane adds up to, beside its requests."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class LaneTotals:
    """Totals of R seeds, summed over the instances of the fleet.

    Attributes:
        itl_counts: int64 `[R, BINS]`, gaps between tokens by length (bins: `engine.record.itl_bin_edges`).
        kv_token_seconds: float64 `[R]`, integral over time of the tokens resident in KV memory.
        kv_capacity_token_seconds: float64 `[R]`, integral of the tokens that KV memory can hold; nan: unlimited.
        makespan_s: float64 `[R]`, when the last iteration ended.
        iterations: int64 `[R]`, engine iterations simulated.
        rounds: int64 `[R]`, rounds of the array program they took.
        recomputed_tokens: int64 `[R]`, tokens computed again after a preemption.
        status: int32 `[R]`, codes of `LaneStatus`.
    """

    itl_counts: np.ndarray
    kv_token_seconds: np.ndarray
    kv_capacity_token_seconds: np.ndarray
    makespan_s: np.ndarray
    iterations: np.ndarray
    rounds: np.ndarray
    recomputed_tokens: np.ndarray
    status: np.ndarray

    def block(self, seeds: slice) -> "LaneTotals":
        """The totals of some rows, as views."""
        return LaneTotals(**{f.name: getattr(self, f.name)[seeds] for f in dataclasses.fields(self)})

    @classmethod
    def concatenate(cls, totals: Sequence["LaneTotals"]) -> "LaneTotals":
        """The totals of the seeds of all chunks."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: np.concatenate([getattr(chunk, name) for chunk in totals]) for name in names})
