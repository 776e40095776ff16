"""Poisson arrivals whose rate changes over time, by a change of clock.

If L(t) is the integral of the rate up to t and s_1 < s_2 < ... a Poisson process of rate 1, then L^-1(s_i) is a
Poisson process of the changing rate (Cinlar 1975, Introduction to Stochastic Processes, ch. 4.7). So the unit stream
stays common to all rates, and a piecewise constant rate makes L piecewise linear.
"""

import numpy as np

from jaxsim.workload.random import PAST, TILE, Purpose, uniforms


def through_rates(unit_s: np.ndarray, starts_s: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """The arrival times when `rates[j]` (requests/s) holds from `starts_s[j]` on; the last one, above 0, forever."""
    return _inverse(unit_s, starts_s, rates, _integral(starts_s, rates))


def through_states(
    unit_s: np.ndarray, seeds: np.ndarray, rates: np.ndarray, mean_sojourn_s: np.ndarray, past: bool = False
) -> np.ndarray:
    """The arrival times `[R, N]` under a Markov-modulated rate: states in cyclic order, each for an exponential time.

    Args:
        unit_s: Poisson process of rate 1, `[R, N]`.
        seeds: `[R]`.
        rates: requests/s in each state.
        mean_sojourn_s: mean seconds in each state. The first state is drawn from the stationary distribution.
        past: seconds before the start instead, from the same state at the start: backwards the process is one of the
            same kind, with its states in reverse order (Kelly 1979, Reversibility and Stochastic Networks, 1.7).
    """
    arrival_s = np.empty_like(unit_s)
    long_run_share = np.cumsum(mean_sojourn_s) / np.sum(mean_sojourn_s)
    first = np.searchsorted(long_run_share, uniforms(Purpose.INITIAL_STATE, seeds, 1)[:, 0])
    for lane, state in enumerate(first):
        sojourns = TILE
        while True:
            at = (state + (-1 if past else 1) * np.arange(sojourns)) % len(rates)
            drawn = uniforms(Purpose.STATE, seeds[lane : lane + 1], sojourns, PAST if past else 0)[0]
            stays_s = -np.log1p(-drawn) * mean_sojourn_s[at]
            starts_s = np.concatenate([[0.0], np.cumsum(stays_s)[:-1]])
            integral = _integral(starts_s, rates[at])
            if integral[-1] > unit_s[lane, -1]:
                break
            sojourns *= 4
        arrival_s[lane] = _inverse(unit_s[lane], starts_s, rates[at], integral)
    return arrival_s


def _integral(starts_s: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """L at the starts of the pieces."""
    return np.concatenate([[0.0], np.cumsum(np.diff(starts_s) * rates[:-1])])


def _inverse(unit_s: np.ndarray, starts_s: np.ndarray, rates: np.ndarray, integral: np.ndarray) -> np.ndarray:
    piece = np.searchsorted(integral, unit_s, side="right") - 1  # the last of equal ends, hence one with a rate
    ends_s = np.append(starts_s[1:], np.inf)
    return np.minimum(starts_s[piece] + (unit_s - integral[piece]) / rates[piece], ends_s[piece])
