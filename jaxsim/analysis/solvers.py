"""Two small least-squares problems, solved with NumPy."""

import itertools
from collections.abc import Callable

import numpy as np


def non_negative(columns: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """The x >= 0 with the smallest |columns x - goal|, exactly, for a handful of columns.

    At the solution the positive entries solve the problem without the others, so every subset is tried.

    Args:
        columns: float64 `[M, C]`.
        goal: float64 `[M]`.
    """
    scale = np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    scaled = columns / scale
    best, least = np.zeros(columns.shape[1]), np.inf
    for positive in itertools.product((False, True), repeat=columns.shape[1]):
        chosen = np.flatnonzero(positive)
        if not len(chosen):
            continue
        found = np.linalg.lstsq(scaled[:, chosen], goal, rcond=None)[0]
        left = float(((scaled[:, chosen] @ found - goal) ** 2).sum())
        if (found >= 0).all() and left < least:
            best, least = np.zeros(columns.shape[1]), left
            best[chosen] = found
    return best / scale


def held(
    errors: Callable[[np.ndarray], np.ndarray],
    prior: np.ndarray,
    spread: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    noise: float,
) -> np.ndarray:
    """The x within bounds with the smallest sum of squares of `errors(x) / noise` and `(x - prior) / spread`.

    A Gauss-Newton search with damping. What the data leave open stays at the prior.

    Args:
        errors: of M samples `[M]`, smooth in x.
        prior: float64 `[C]`, where the search starts.
        spread: float64 `[C]`, standard deviations of the prior.
        low: float64 `[C]`, bounds.
        high: float64 `[C]`, bounds.
        noise: standard deviation of the errors.
    """

    def residuals(x: np.ndarray) -> np.ndarray:
        return np.concatenate([errors(x) / noise, (x - prior) / spread])

    x, damping = prior.copy(), 1e-3
    now = residuals(x)
    for _ in range(60):
        steps = np.where(x + 1e-4 <= high, 1e-4, -1e-4)
        slopes = np.stack([(residuals(x + step) - now) / step.sum() for step in np.diag(steps)], axis=1)
        gradient, curvature = slopes.T @ now, slopes.T @ slopes
        free = ~(((x <= low) & (gradient > 0)) | ((x >= high) & (gradient < 0)))
        while True:
            move = np.zeros(len(x))
            damped = curvature[np.ix_(free, free)] + damping * np.diag(np.diag(curvature)[free])
            move[free] = np.linalg.solve(damped, -gradient[free])
            tried = np.clip(x + move, low, high)
            then = residuals(tried)
            if then @ then <= now @ now or damping > 1e8:
                break
            damping *= 4
        gained = now @ now - then @ then
        if not gained > 0:
            return x
        x, now, damping = tried, then, damping / 4
        if gained < 1e-9 * (now @ now):
            return x
    return x
