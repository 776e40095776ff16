"""Is the SLO kept, and how sure is that?"""

import math
from collections.abc import Mapping
from typing import Any

from jaxsim.metrics.distribution import Distribution, number
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

    `certain` says that the whole interval lies on the same side of the limit as the value. In a percentile of a latency
    of requests, the `lost` ones count as infinitely slow, so `value` may be above that of the summary, or None.

    Args:
        slo: the promises.
        distributions: the latencies by metric.
        lost: measured requests that did not complete.
        attainment: share of measured requests that met the thresholds, and its interval.
        confidence: level of the intervals.
    """
    verdicts = []
    for metric, statistic, limit_s in slo.limits:
        value, interval = _statistic(distributions[metric], statistic, 0 if metric == "itl_s" else lost, confidence)
        verdicts.append(_verdict(metric, statistic, limit_s, value, interval, at_most=True))
    if slo.attainment is not None and slo.thresholds:
        verdicts.append(_verdict("slo_attainment", "share", slo.attainment, *attainment, at_most=False))
    return verdicts


def _statistic(values: Distribution, statistic: str, lost: int, confidence: float) -> tuple[float, Interval | None]:
    share = quantile_of(statistic)
    if share is None:
        return values.mean.value, values.mean.interval(confidence)
    if not values.count:
        return (math.inf if lost else math.nan), None
    share *= (values.count + lost) / values.count
    if share >= 1:
        return math.inf, None
    estimate = values.quantile(share, confidence)
    return estimate.value, estimate.interval


def _verdict(
    metric: str, statistic: str, limit: float, value: float, interval: Interval | None, *, at_most: bool
) -> dict[str, Any]:
    met = None if math.isnan(value) else bool(value <= limit if at_most else value >= limit)
    certain = value == math.inf
    if interval is not None and met is not None:
        worst = interval.high if met == at_most else interval.low
        certain = bool((worst <= limit if at_most else worst >= limit) == met)
    return {
        "metric": metric,
        "statistic": statistic,
        "limit": limit,
        "value": number(value),
        "ci": None if interval is None else [number(x) for x in interval],
        "met": met,
        "certain": certain,
    }
