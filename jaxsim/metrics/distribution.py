"""One latency metric over all clusters: its mean, its percentiles and how sure they are."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxsim.metrics.intervals import Estimate, Interval, Pool, QuantileEstimate, quantile_estimate


@dataclass(frozen=True, eq=False)
class Distribution:
    """The values of one metric, in seconds.

    Attributes:
        mean: their mean.
        pool: all of them.
        count: how many there are.
        copies: how often each cluster holds every value.
        relative_error: bound on the relative error of quantiles of the pool.
        design_effect: that of quantiles, where the clusters of the pool cannot tell it.
        clusters: how many clusters `design_effect` comes from.
    """

    mean: Estimate
    pool: Pool
    count: int
    copies: int
    relative_error: float
    design_effect: float | None = None
    clusters: int = 0

    def quantile(self, share: float, confidence: float) -> QuantileEstimate:
        """The quantile and its interval."""
        return quantile_estimate(
            self.pool,
            share,
            confidence,
            copies=self.copies,
            design_effect=self.design_effect,
            clusters=self.clusters,
        )

    def summary(self, percentiles: Mapping[str, float], confidence: float) -> dict[str, Any]:
        """`count`, `mean` and percentiles (shares by name) with intervals, `ci_truncated`, `relative_error`."""
        found = {"count": self.count, **with_interval("mean", self.mean.value, self.mean.interval(confidence))}
        truncated = []
        for name, share in percentiles.items():
            estimate = self.quantile(share, confidence)
            found |= with_interval(name, estimate.value, estimate.interval)
            if estimate.truncated:
                truncated.append(name)
        return found | {"ci_truncated": truncated, "relative_error": self.relative_error}


def with_interval(name: str, value: float, interval: Interval | None) -> dict[str, Any]:
    """`{name: value, name_ci: [low, high]}` for JSON; what is not a finite number is None."""
    return {name: number(value), f"{name}_ci": pair(interval)}


def pair(interval: Interval | None) -> list[float | None] | None:
    """The interval for JSON."""
    return None if interval is None else [number(end) for end in interval]


def number(value: float) -> float | None:
    """The number for JSON; None for nan and infinity."""
    return float(value) if math.isfinite(value) else None
