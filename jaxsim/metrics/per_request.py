"""Latencies of requests, and which requests were served well."""

from collections.abc import Mapping

import numpy as np

from jaxsim.metrics.request_table import RequestTable

METRICS = ("ttft_s", "tpot_s", "e2e_s", "queue_s")
"""The latencies that every request has one of."""


def latencies(table: RequestTable) -> dict[str, np.ndarray]:
    """The `METRICS` of completed requests, float64 `[R, N]` by name; nan for all others."""
    values = {metric: getattr(table, metric) for metric in METRICS}
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
        latencies_s: seconds by metric (`ttft_s`, `tpot_s`, `e2e_s`), of the same shape.
        thresholds_s: `Slo.thresholds`, or such by request, of that shape, too.
    """
    good = completed
    for metric, threshold_s in thresholds_s.items():
        good = good & ~(latencies_s[metric] > threshold_s)
    return good
