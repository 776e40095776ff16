"""Confidence intervals for statistics of simulated requests.

Requests of one run share queues, so they are not independent; *clusters* are: the seeds (independent replications), or,
within one run, batches of consecutive requests (batch means; Law, Simulation Modeling and Analysis, ch. 9). Everything
here sees the data only through its clusters, so correlation inside a cluster widens an interval as it should.

* Means, ratios and their products (`Estimate`): first-order (Taylor) linearisation over clusters and Student's t with
  one degree of freedom less than there are clusters (Woodruff 1971; Binder 1983). For the mean of clusters of one size
  this is exactly the t interval of the cluster means.
* Quantiles (`quantile_estimate`): Woodruff, "Confidence Intervals for Medians and Other Position Measures", JASA 47
  (1952): an interval for the share of values up to the estimate, read back through the pooled quantiles.
* Shares of requests (`proportion_interval`): Wilson's interval at the effective sample size, which stays inside [0, 1]
  and has a width even when every request is good (Dean & Pagano 2015; Franco, Little, Louis & Slud 2019).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from jaxsim.metrics.student_t import student_t_quantile


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


class Pool(Protocol):
    """All values of one metric, pooled over clusters."""

    def quantile(self, share: float) -> float:
        """The value with `share` of all values below it (linear interpolation); nan if there are none."""

    def up_to(self, value: float) -> tuple[np.ndarray, np.ndarray]:
        """How many values of each cluster are at most `value`, and how many it has; float64 `[C]` each."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """A statistic and how much each cluster contributes to its error.

    Attributes:
        value: the statistic over all clusters; nan if it has no data.
        influence: float64 `[C]`, first-order change of the statistic due to each cluster; sums to zero.
    """

    value: float
    influence: np.ndarray

    @classmethod
    def ratio(cls, numerator: np.ndarray, denominator: np.ndarray) -> "Estimate":
        """Sum of numerators over sum of denominators, both `[C]`; with sums and counts of values it is their mean."""
        whole = denominator.sum()
        if not whole > 0:
            return cls(math.nan, np.full(len(numerator), math.nan))
        value = float(numerator.sum() / whole)
        influence = (numerator - value * denominator) / whole
        return cls(value, influence if np.count_nonzero(denominator) > 1 else np.full(len(numerator), math.nan))

    def __mul__(self, other: "Estimate | float") -> "Estimate":
        """The product with a constant, or with another estimate over the same clusters."""
        if isinstance(other, Estimate):
            influence = self.influence * other.value + other.influence * self.value
            return Estimate(self.value * other.value, influence)
        return Estimate(self.value * other, self.influence * other)

    @property
    def variance(self) -> float:
        """Estimated variance of the value; nan with fewer than two clusters."""
        clusters = len(self.influence)
        if clusters < 2:
            return math.nan
        return clusters / (clusters - 1) * math.fsum(self.influence**2)  # exact, so the order of clusters is immaterial

    def interval(self, confidence: float, low: float = 0.0, high: float = math.inf) -> Interval | None:
        """The t interval of the value, cut to the range it can have; None if fewer than two clusters have data."""
        if math.isnan(variance := self.variance):
            return None
        half = _t(confidence, len(self.influence) - 1) * math.sqrt(variance)
        return Interval(max(self.value - half, low), min(self.value + half, high))


class QuantileEstimate(NamedTuple):
    """A quantile, its interval (None with fewer than two clusters or values), and how it came about.

    `design_effect` is the variance over that of as many independent values (Kish 1965). `truncated` means that there
    are too few values to bound the quantile: the interval ends at the smallest or largest value seen.
    """

    value: float
    interval: Interval | None
    design_effect: float
    truncated: bool


def quantile_estimate(
    pool: Pool,
    share: float,
    confidence: float,
    *,
    copies: int = 1,
    design_effect: float | None = None,
    clusters: int = 0,
) -> QuantileEstimate:
    """The pooled quantile with Woodruff's (1952) interval.

    The share of values up to the estimate has a standard error, from how that share differs between clusters but never
    less than for independent values. `share` minus and plus t standard errors, read back through the pooled quantiles,
    is the interval. It has no width only where the values around the quantile are all equal.

    Args:
        pool: values by cluster.
        share: in (0, 1), 0.99 for P99.
        confidence: in (0, 1).
        copies: how often each cluster holds every value: copies of one run say no more than the run.
        design_effect: used in place of the clusters of `pool`, where those are too few to tell.
        clusters: how many clusters `design_effect` comes from.
    """
    value = pool.quantile(share)
    below, counts = pool.up_to(value)
    here = counts > 0
    if design_effect is None:
        clusters = int(np.count_nonzero(here))
    total = float(counts.sum()) / copies
    if total < 2 or clusters < 2:
        return QuantileEstimate(value, None, math.nan, False)
    independent = share * (1 - share) / total
    if design_effect is None:
        design_effect = Estimate.ratio(below[here], counts[here]).variance / independent
    design_effect = max(design_effect, 1.0)
    half = _t(confidence, clusters - 1) * math.sqrt(design_effect * independent)
    interval = Interval(pool.quantile(max(share - half, 0.0)), pool.quantile(min(share + half, 1.0)))
    return QuantileEstimate(value, interval, design_effect, share - half < 1 / total or share + half > 1 - 1 / total)


def proportion_interval(
    estimate: Estimate, total: float, confidence: float, *, design_effect: float = 1.0
) -> Interval | None:
    """Wilson's interval for a share of requests, at the sample size that `total` correlated requests are worth.

    Args:
        estimate: the share.
        total: requests it is a share of.
        confidence: in (0, 1).
        design_effect: used where all clusters have the same share, which says nothing about their variance.
    """
    if math.isnan(variance := estimate.variance):
        return None
    share = min(max(estimate.value, 0.0), 1.0)
    t = _t(confidence, len(estimate.influence) - 1)
    independent = share * (1 - share) / total
    if variance > 0 and independent > 0:
        design_effect = variance / independent
    size = total / design_effect if design_effect > 1 else total
    centre = (share + t**2 / (2 * size)) / (1 + t**2 / size)
    half = t / (1 + t**2 / size) * math.sqrt(share * (1 - share) / size + t**2 / (4 * size**2))
    return Interval(min(max(centre - half, 0.0), share), max(min(centre + half, 1.0), share))


def rare_count_interval(confidence: float) -> Interval:
    """The interval for the expected number of events when none was seen: Poisson, Garwood 1936 (at 95 % up to 3.7)."""
    return Interval(0.0, -math.log((1 - confidence) / 2))


def _t(confidence: float, degrees: int) -> float:
    return student_t_quantile((1 + confidence) / 2, degrees)
