"""A whole distribution as percentiles, each with its interval."""

import math
from dataclasses import dataclass

import numpy as np

from jaxsim.metrics.cluster_sums import batch_starts
from jaxsim.metrics.exact_pool import ExactPool
from jaxsim.metrics.intervals import quantile_estimate

_POINTS = 60
_BODY = 24
_MOST_NINES = 4.0


@dataclass(frozen=True, eq=False)
class PercentileCurve:
    """Percentiles of one metric, all arrays float64 `[S]`, seconds.

    Attributes:
        share: shares in [0, 1), ascending, dense in the body and in the tail, there in nines (-log10(1 - share)).
        value: the value with that share of all values below it.
        low: lower end of the confidence interval; nan where there is none.
        high: upper end.
    """

    share: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def percentile_curve(values: np.ndarray, *, batches: bool, confidence: float = 0.95) -> PercentileCurve:
    """Percentiles as far out as there are values for.

    Args:
        values: float64 `[R, M]`, seconds of each seed's measured requests, nan where there is none.
        batches: the seeds are one run or copies of it, so batches of consecutive requests are independent rather than
            seeds (`ci_method` of the summary).
        confidence: level of the intervals, in (0, 1).

    Returns:
        The curve; empty if there are no values.
    """
    pool = ExactPool([values], [batch_starts(values.shape[1])] if batches else None)
    count = int(np.count_nonzero(~np.isnan(values)))
    if not count:
        return PercentileCurve(*np.empty((4, 0)))
    nines = min(max(math.log10(count), 0.31), _MOST_NINES)
    tail = 1 - 10 ** -np.linspace(0, nines, _POINTS)
    shares = np.unique(np.concatenate([np.linspace(0, min(0.9, tail[-1]), _BODY), tail]))
    found = np.full((3, len(shares)), math.nan)
    copies = len(values) if batches else 1
    for place, share in enumerate(shares):
        found[0, place] = pool.quantile(share)
        if 0 < share < 1:
            estimate = quantile_estimate(pool, float(share), confidence, copies=copies)
            if estimate.interval is not None:
                found[1:, place] = estimate.interval
    return PercentileCurve(shares, *found)
