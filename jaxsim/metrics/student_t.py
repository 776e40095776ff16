"""Quantiles of Student's t distribution, without SciPy."""

import functools
import math
from statistics import NormalDist

_SERIES_UP_TO = 1000


@functools.cache
def student_t_quantile(probability: float, degrees: int) -> float:
    """The t with `P(T <= t) = probability`, for a whole number of degrees of freedom, to better than 1e-9.

    Bisects the finite trigonometric series of the distribution function (Abramowitz & Stegun 1964, 26.7.3-4); above
    1,000 degrees of freedom its Cornish-Fisher expansion around the normal quantile (26.7.5) is as exact.

    Raises:
        ValueError: probability outside (0, 1) or degrees < 1.
    """
    if not 0 < probability < 1 or degrees < 1:
        raise ValueError(f"no t quantile for probability {probability!r} and {degrees!r} degrees of freedom")
    if probability < 0.5:
        return -student_t_quantile(1 - probability, degrees)
    if degrees > _SERIES_UP_TO:
        return _expansion(NormalDist().inv_cdf(probability), degrees)
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        if _central_mass(middle, degrees) < 2 * probability - 1:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan(low)


def _central_mass(theta: float, degrees: int) -> float:
    """`P(|T| <= sqrt(degrees) * tan(theta))`."""
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = degrees % 2
    total = term = cosine if odd else 1.0
    for k in range(2 + odd, degrees, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if degrees == 1:
        return 2 / math.pi * theta
    return 2 / math.pi * (theta + sine * total) if odd else sine * total


def _expansion(z: float, degrees: int) -> float:
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, start=1))
