"""Arrival times that were recorded on a coarse clock."""

import numpy as np

COARSE_S = 0.1
"""Ticks of at least this length change queueing noticeably, so that a user should hear of them ..."""

MANY = 5
"""... if this many requests share one."""


def tick_s(arrival_s: np.ndarray) -> float:
    """The tick of the clock: the median step between times, if requests share times and the steps are multiples of it.

    Nine steps of ten must be within 1 % of a multiple: the Mooncake traces have ticks of 3 s, some of them 1 ms early.

    Args:
        arrival_s: float64 `[M]`, not decreasing.

    Returns:
        Seconds; 0 if there is no such tick.
    """
    steps_s = np.diff(np.unique(arrival_s))
    if not len(steps_s) or len(steps_s) + 1 == len(arrival_s):
        return 0.0
    length_s = float(np.median(steps_s))
    ticks = steps_s / length_s
    even = np.abs(ticks - np.maximum(np.round(ticks), 1)) < 0.01
    return length_s if np.mean(even) >= 0.9 else 0.0


def spread(arrival_s: np.ndarray, length_s: float) -> np.ndarray:
    """Requests of one tick moved apart evenly, in their order: the k-th of m to k/m of the tick after its time.

    Args:
        arrival_s: float64 `[M]`, not decreasing.
        length_s: the tick; one that ends early is as long as it lasts.
    """
    times_s, which, counts = np.unique(arrival_s, return_inverse=True, return_counts=True)
    lengths_s = np.minimum(np.append(np.diff(times_s), length_s), length_s)
    place = np.arange(len(arrival_s)) - np.searchsorted(arrival_s, arrival_s, side="left")
    return arrival_s + lengths_s[which] * place / counts[which]
