"""Inter-token latency: statistics over all gaps between tokens, not over requests."""

import math

import numpy as np

from jaxsim.metrics.intervals import Estimate
from jaxsim.metrics.quantile_sketch import BinnedPool


def gap_pool(counts: np.ndarray, edges_s: np.ndarray) -> BinnedPool:
    """All gaps between tokens, known by their bins, by cluster.

    A percentile of the pool is within the relative width of its bin of the exact percentile.

    Args:
        counts: whole numbers `[C, BINS]`.
        edges_s: float64 `[BINS + 1]` in seconds, ascending.
    """
    return BinnedPool(counts, edges_s[:-1], edges_s[1:])


def gap_error(edges_s: np.ndarray, credited_error: float = 0.0) -> float:
    """Bound on the relative error of a percentile of gaps: the widest bin, and how far gaps were moved before binning.

    Args:
        edges_s: float64 `[BINS + 1]`, all greater than 0.
        credited_error: relative distance between a gap and the value it was counted at.
    """
    return float((1 + np.max(np.diff(edges_s) / edges_s[:-1])) * (1 + credited_error) - 1)


def mean_gap(gap_s: np.ndarray, gaps: np.ndarray) -> Estimate:
    """Mean over tokens, exact: the time between first and last token over the number of gaps, both `[C]`."""
    return Estimate.ratio(gap_s, gaps)


def gap_design_effect(mean: Estimate, pool: BinnedPool, copies: int = 1) -> float | None:
    """How many correlated gaps are worth one independent gap (Kish 1965), from the batches of one run.

    The bins of one run are not kept by batch, but the mean gap is; its design effect stands in for that of the
    percentiles. None if there are too few batches, or all gaps are equal.
    """
    independent = pool.variance() / (pool.total / copies) if pool.total else 0.0
    return mean.variance / independent if independent > 0 and not math.isnan(mean.variance) else None
