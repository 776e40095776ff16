"""Quantiles of more values than fit in memory: counts in bins of equal relative width.

A bin is named by the leading bits of a float64: its exponent and the first 9 bits of its mantissa. So a bin is at most
2**-9 = 0.2 % as wide as its lower edge, binning is an integer shift (no logarithm), and counts add up exactly, in any
order. The idea is that of HdrHistogram (Tene) and DDSketch (Masson, Rim & Lee, VLDB 2019).
"""

import math

import numpy as np

_MANTISSA_BITS = 9
_FIRST_OCTAVE, _LAST_OCTAVE = -30, 34
_SHIFT = 52 - _MANTISSA_BITS
_FIRST_CODE = (1023 + _FIRST_OCTAVE) << _MANTISSA_BITS
_BINS = ((_LAST_OCTAVE - _FIRST_OCTAVE) << _MANTISSA_BITS) + 1
"""Bin 0 holds what is below 2**-30 s (1 ns) and reads as zero; values from 2**34 s (544 years) and nan have no bin."""

RELATIVE_ERROR = 2.0**-_MANTISSA_BITS
"""A quantile of the sketch is within this share of the exact one, usually far closer: bins are interpolated."""

ABSOLUTE_ERROR_S = 2.0**_FIRST_OCTAVE
"""... or within this many seconds, for values close to zero."""


class BinnedPool:
    """Values of one metric known only by their bins, by cluster (a `Pool`).

    The values in a bin are taken to be evenly spread between its edges. The value of a rank lies in the same bin as the
    exact one, so the relative error of a quantile is at most the relative width of a bin.

    Args:
        counts: whole numbers `[C, BINS]`.
        low: lower edges `[BINS]` in seconds, ascending.
        high: upper edges `[BINS]`.
    """

    def __init__(self, counts: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        self._counts = counts
        self._low, self._high = low, high
        self._pooled = counts.sum(axis=0)
        self._cumulative = np.cumsum(self._pooled)
        self._totals = counts.sum(axis=1).astype(np.float64)

    @property
    def num_clusters(self) -> int:
        """C, clusters without values included."""
        return len(self._counts)

    @property
    def num_bins(self) -> int:
        """BINS."""
        return len(self._low)

    @property
    def total(self) -> int:
        """How many values there are."""
        return int(self._cumulative[-1])

    def quantile(self, share: float) -> float:
        """The pooled quantile, by linear interpolation between the two values around it; nan if there are no values."""
        if not self.total:
            return math.nan
        position = (self.total - 1) * share
        rank = int(position)
        below, above = self._value(rank), self._value(min(rank + 1, self.total - 1))
        return float(below + (above - below) * (position - rank))

    def up_to(self, value: float) -> tuple[np.ndarray, np.ndarray]:
        """Values at most `value`, and all values, of each cluster; float64 `[C]` each."""
        bin = int(np.searchsorted(self._low, value, side="right")) - 1
        if bin < 0 or math.isnan(value):
            return np.zeros(len(self._totals)), self._totals
        width = self._high[bin] - self._low[bin]
        inside = min((value - self._low[bin]) / width, 1.0) if width > 0 else 1.0
        return self._counts[:, :bin].sum(axis=1) + inside * self._counts[:, bin], self._totals

    def bin_of(self, share: float) -> int:
        """The bin that the quantile lies in."""
        return int(np.searchsorted(self._cumulative, int((self.total - 1) * share), side="right"))

    def variance(self) -> float:
        """Variance of the pooled values, to the precision of the bins."""
        middle = (self._low + self._high) / 2
        mean = self._pooled @ middle / self.total
        return float(self._pooled @ (middle - mean) ** 2 / self.total)

    def _value(self, rank: int) -> float:
        """The value with `rank` values before it."""
        bin = int(np.searchsorted(self._cumulative, rank, side="right"))
        inside = (rank - (self._cumulative[bin] - self._pooled[bin]) + 0.5) / self._pooled[bin]
        return float(self._low[bin] + (self._high[bin] - self._low[bin]) * inside)


class QuantileSketch:
    """Counts of the values of one metric in bins of equal relative width, for each of a few groups of clusters.

    33 MB for 128 groups, however many values there are.
    """

    def __init__(self, groups: int) -> None:
        self._counts = np.zeros((groups, _BINS + 1), np.int64)

    def add(self, values: np.ndarray, group: np.ndarray) -> None:
        """Count values in seconds; `group` broadcasts to their shape. nan is left out, what is below 0 counts as 0.

        4 ns a value: the additions of a block of values should stay in the cache, so blocks of some 10,000 are best.
        """
        codes = np.ascontiguousarray(values).view(np.int64) >> _SHIFT
        codes -= _FIRST_CODE - 1
        np.clip(codes, 0, _BINS, out=codes)  # the last place takes nan, whose bits are above those of any number
        codes += group * (_BINS + 1)
        np.add.at(self._counts.reshape(-1), codes.reshape(-1), 1)

    def merge(self, other: "QuantileSketch") -> None:
        """Add the counts of another sketch with the same groups."""
        self._counts += other._counts

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """The counts that are not zero: their places, ascending, and the counts; int64 both."""
        counts = self._counts.reshape(-1)
        places = np.flatnonzero(counts)
        return places, counts[places]

    def add_state(self, places: np.ndarray, counts: np.ndarray) -> None:
        """Add what `state` of a sketch with the same groups gave."""
        self._counts.reshape(-1)[places] += counts

    def pool(self) -> BinnedPool:
        """The values counted so far."""
        octave, step = np.divmod(np.arange(_BINS), 1 << _MANTISSA_BITS)
        edges = np.ldexp(1.0 + step / (1 << _MANTISSA_BITS), _FIRST_OCTAVE + octave)
        low, high = np.concatenate([[0.0], edges[:-1]]), edges.copy()
        high[0] = 0.0
        return BinnedPool(self._counts[:, :_BINS], low, high)
