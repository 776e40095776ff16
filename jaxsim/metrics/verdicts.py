"""Is the SLO kept, and how sure is that?"""

import math
from collections.abc import Mapping
from typing import Any

from jaxsim.metrics.distribution import Distribution, number, pair
from jaxsim.metrics.intervals import Interval
from jaxsim.specs.slo import Slo, quantile_of


def slo_verdicts(
    slo: Slo,
    distributions: Mapping[str, Distribution],
    lost: int,
    attainment: tuple[float, Interval | None],
    confidence: float,
) -> list[dict[str, Any]]:
    """One entry per promise: `metric, statistic, limit, value, ci, met, certain`.

    `certain` says that the whole interval lies on the same side of the limit as the value, and does not end there only
    for want of requests. In a percentile of a latency
    of requests, the `lost` ones count as infinitely slow, so `value` may be above that of the summary, or None.

    Args:
        slo: the promises.
        distributions: the latencies by metric.
        lost: measured requests that did not complete.
        attainment: share of measured requests that met the thresholds, and its interval.
        confidence: level of the intervals.
    """
    verdicts = []
    for named, statistic, limit_s in slo.limits:
        metric = slo.counted(named)
        value, interval, truncated = _statistic(
            distributions[metric], statistic, 0 if metric == "itl_s" else lost, confidence
        )
        met = None if math.isnan(value) else value <= limit_s
        certain = value == math.inf or (_one_side(limit_s, interval) and not (met and truncated))
        verdicts.append(_verdict(metric, statistic, limit_s, value, interval, met, certain))
    if slo.attainment is not None:
        share, interval = attainment
        met = None if math.isnan(share) else share >= slo.attainment
        verdicts.append(
            _verdict(
                "slo_attainment", "share", slo.attainment, share, interval, met, _one_side(slo.attainment, interval)
            )
        )
    return verdicts


def _statistic(
    values: Distribution, statistic: str, lost: int, confidence: float
) -> tuple[float, Interval | None, bool]:
    """Value, interval, and whether the interval is truncated for want of requests."""
    share = quantile_of(statistic)
    if share is None:
        return values.mean.value, values.mean.interval(confidence), False
    if not values.count:
        return (math.inf if lost else math.nan), None, False
    share *= (values.count + lost) / values.count
    if share >= 1:
        return math.inf, None, False
    estimate = values.quantile(share, confidence)
    return estimate.value, estimate.interval, estimate.truncated


def _one_side(limit: float, interval: Interval | None) -> bool:
    return interval is not None and not interval.low <= limit <= interval.high


def _verdict(
    metric: str,
    statistic: str,
    limit: float,
    value: float,
    interval: Interval | None,
    met: bool | None,
    certain: bool,
) -> dict[str, Any]:
    return {
        "metric": metric,
        "statistic": statistic,
        "limit": limit,
        "value": number(value),
        "ci": pair(interval),
        "met": None if met is None else bool(met),
        "certain": bool(certain),
    }
