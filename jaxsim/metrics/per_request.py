"""Latencies of requests, and which requests were served well."""

from collections.abc import Mapping, Sequence

import numpy as np

from jaxsim.metrics.request_table import BREAKDOWN, RequestTable
from jaxsim.specs.slo import TTFT_WITH_TRANSFER

METRICS = ("ttft_s", "tpot_s", "e2e_s", "queue_s")
"""The latencies that every request has one of."""

HANDOVER_METRICS = (TTFT_WITH_TRANSFER, *BREAKDOWN)
"""What there is beside them in a fleet that hands requests over; the parts only of requests that were."""


def metrics_of(handover: bool, promised: bool = False) -> tuple[str, ...]:
    """The latencies to look at.

    Args:
        handover: the fleet hands requests over.
        promised: the TTFT with transfer has a limit, in whatever fleet.
    """
    if handover:
        return (*METRICS, *HANDOVER_METRICS)
    return (*METRICS, TTFT_WITH_TRANSFER) if promised else METRICS


def latencies(table: RequestTable, metrics: Sequence[str] = METRICS) -> dict[str, np.ndarray]:
    """Some metrics of completed requests, float64 `[R, N]` by name; nan for all others."""
    parts = table.breakdown_s if set(metrics) & set(BREAKDOWN) else {}
    values = {metric: parts[metric] if metric in BREAKDOWN else getattr(table, metric) for metric in metrics}
    if not (completed := table.completed).all():
        values = {metric: np.where(completed, value, np.nan) for metric, value in values.items()}
    return values


def meets_slo(
    completed: np.ndarray, latencies_s: dict[str, np.ndarray], thresholds_s: Mapping[str, float | np.ndarray]
) -> np.ndarray:
    """Whether each request was served within every threshold; bool, of the shape of `completed`.

    A request that did not complete misses. An undefined (nan) latency passes: TPOT of a one-token output.

    Args:
        completed: bool.
        latencies_s: seconds by metric, of the same shape.
        thresholds_s: `Slo.thresholds`, or such by request, of that shape, too.
    """
    good = completed
    for metric, threshold_s in thresholds_s.items():
        good = good & ~(latencies_s[metric] > threshold_s)
    return good
