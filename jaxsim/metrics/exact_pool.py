"""Exact pooled quantiles of values that fit in memory."""

import math
from collections.abc import Sequence

import numpy as np


class ExactPool:
    """The values of one metric, all of them, by cluster (a `Pool`).

    Args:
        chunks: float64 `[R, M]` each, nan where a request has no value.
        starts: first column of each batch of each chunk where batches of requests are the clusters; None where the
            rows are.
        clusters: whole numbers `[R]` of each chunk, which cluster a row is of; None: each is one.
    """

    def __init__(
        self,
        chunks: Sequence[np.ndarray],
        starts: Sequence[np.ndarray] | None = None,
        clusters: Sequence[np.ndarray] | None = None,
    ) -> None:
        self._chunks = chunks
        self._starts = starts
        self._clusters = None if clusters is None else np.unique(np.concatenate(clusters), return_inverse=True)[1]
        present = [chunk[~np.isnan(chunk)] for chunk in chunks]
        self._sorted = np.sort(np.concatenate(present)) if present else np.empty(0)
        self._counts = self._by_cluster([~np.isnan(chunk) for chunk in chunks])

    def quantile(self, share: float) -> float:
        """The pooled quantile with linear interpolation, as `numpy.quantile` gives it; nan if there are no values."""
        if not self._sorted.size:
            return math.nan
        position = (self._sorted.size - 1) * share
        low = int(position)
        below, above = self._sorted[low], self._sorted[min(low + 1, self._sorted.size - 1)]
        return float(below + (above - below) * (position - low))

    def up_to(self, value: float) -> tuple[np.ndarray, np.ndarray]:
        """Values at most `value`, and all values, of each cluster; float64 `[C]` each."""
        return self._by_cluster([chunk <= value for chunk in self._chunks]), self._counts

    def _by_cluster(self, masks: Sequence[np.ndarray]) -> np.ndarray:
        if self._starts is None:
            counts = np.concatenate([np.zeros(0), *(np.count_nonzero(mask, axis=1) for mask in masks)])
            return counts if self._clusters is None else np.bincount(self._clusters, counts)
        counts = np.zeros(max((len(starts) for starts in self._starts), default=0))
        for mask, starts in zip(masks, self._starts, strict=True):
            counts[: len(starts)] += np.add.reduceat(mask.sum(axis=0), starts)
        return counts
