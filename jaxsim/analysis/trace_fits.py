"""Distributions and arrival processes fitted to recorded requests, each with how well it fits."""

import math
from dataclasses import dataclass

import numpy as np

from jaxsim.analysis.trace_stats import counts_per_window, dispersion, ks_distance, telling
from jaxsim.workload import Synthetic
from jaxsim.workload.arrivals import Arrivals, Constant, Gamma, OnOff, Piecewise, Poisson, Weibull
from jaxsim.workload.lengths import Fixed, Geometric, Lengths, Lognormal
from jaxsim.workload.lengths import Gamma as GammaLengths
from jaxsim.workload.random import quantiles

GOOD_KS = 0.05
"""Kolmogorov-Smirnov distance up to which a fitted distribution stands for the data: no quantile is off by more than 5
percentage points. (Tests of significance reject every smooth distribution on long traces.)"""

_POINTS = 8192
_SEEDS = 4
_MOST_REQUESTS = 20_000
_SIMPLER = 1.1
"""A simpler arrival process is taken if its distance is within this factor of the best ..."""
_CLOSE = 0.02
"""... or this close to it."""


@dataclass(frozen=True)
class LengthFit:
    """A distribution of lengths and its Kolmogorov-Smirnov distance from the data."""

    lengths: Lengths
    ks: float


def fit_lengths(tokens: np.ndarray) -> list[LengthFit]:
    """Lognormal, gamma and geometric distributions with the moments of the data, clipped to its range; best first.

    Lengths are taken to be rounded down, so half a token is added before moments are taken.
    """
    low, high = int(tokens.min()), int(tokens.max())
    if low == high:
        return [LengthFit(Fixed(value=low), 0.0)]
    real = tokens + 0.5
    log = np.log(real)
    cv = float(real.std() / real.mean())
    candidates: list[Lengths] = [
        Lognormal(median=_digits(math.exp(log.mean())), sigma=_digits(log.std()), min=low, max=high),
        GammaLengths(mean=_digits(real.mean()), cv=_digits(cv), min=low, max=high),
        Geometric(mean=_digits(max(float(tokens.mean()), 1.0)), min=low, max=high),
    ]
    fits = [LengthFit(lengths, ks_distance(tokens, quantiles(lengths.tokens(), _POINTS))) for lengths in candidates]
    return sorted(fits, key=lambda fit: fit.ks)


@dataclass(frozen=True)
class GapFit:
    """A renewal process and the Kolmogorov-Smirnov distance of its gaps from the data's."""

    arrivals: Arrivals
    ks: float


def fit_gaps(arrival_s: np.ndarray) -> list[GapFit]:
    """Processes with independent gaps of the data's mean and coefficient of variation; the simplest first."""
    gap_s = np.diff(arrival_s)
    rate, cv = _digits(1 / gap_s.mean()), _digits(float(gap_s.std() / gap_s.mean()))
    candidates: list[Arrivals] = [Poisson(rate=rate)]
    if cv < 0.02:
        candidates.insert(0, Constant(rate=rate))
    else:
        candidates += [Gamma(rate=rate, cv=cv), Weibull(rate=rate, cv=cv)]
    unit = gap_s / gap_s.mean()
    return [GapFit(arrivals, ks_distance(unit, quantiles(arrivals.unit_gap(), _POINTS))) for arrivals in candidates]


@dataclass(frozen=True)
class ArrivalFit:
    """An arrival process and how far its draws are from the data.

    Attributes:
        arrivals: the process.
        gap_ks: Kolmogorov-Smirnov distance between gaps.
        dispersion_error: mean over windows of |ln(index of dispersion drawn / recorded)|.
    """

    arrivals: Arrivals
    gap_ks: float
    dispersion_error: float

    @property
    def distance(self) -> float:
        """What the choice goes by."""
        return self.gap_ks + self.dispersion_error


def fit_arrivals(arrival_s: np.ndarray) -> list[ArrivalFit]:
    """Arrival processes fitted to the data, the one to take first.

    Candidates are renewal processes (`fit_gaps`), an on/off process matched to how the index of dispersion grows with
    the window, and a timetable of rates. Each is judged by its own draws: by the gaps and by the index of dispersion
    over windows. The simplest that is nearly as close as the closest wins.

    Args:
        arrival_s: float64 `[N]`, not decreasing, over a span greater than 0.
    """
    span_s = float(arrival_s[-1] - arrival_s[0])
    decades = [base * 10.0**power for power in range(-3, 6) for base in (1, 2, 5)]
    windows_s = telling(decades, len(arrival_s), span_s)
    recorded = {window: dispersion(arrival_s, window) for window in windows_s}
    candidates = [fit.arrivals for fit in fit_gaps(arrival_s)]
    on_off = _on_off(arrival_s, recorded)
    candidates += [on_off] if on_off else []
    candidates += [_timetable(arrival_s)] if len(windows_s) > 1 else []
    fits = [_judged(arrivals, arrival_s, recorded) for arrivals in candidates]
    closest = min(fit.distance for fit in fits)
    chosen = next(fit for fit in fits if fit.distance <= closest * _SIMPLER + _CLOSE)
    return [chosen, *sorted((fit for fit in fits if fit is not chosen), key=lambda fit: fit.distance)]


def _judged(arrivals: Arrivals, arrival_s: np.ndarray, recorded: dict[float, float]) -> ArrivalFit:
    one = Fixed(value=1)
    count = min(len(arrival_s), _MOST_REQUESTS)
    workload = Synthetic(num_requests=count, arrivals=arrivals, prompt_tokens=one, output_tokens=one)
    drawn_s = workload.draw(np.arange(_SEEDS)).arrival_s
    errors = []
    for window_s, index in recorded.items():
        mean = np.nanmean([dispersion(lane, window_s) for lane in drawn_s])
        if index > 0 and mean > 0:
            errors.append(abs(math.log(mean / index)))
    gap_ks = ks_distance(np.diff(arrival_s), np.diff(drawn_s, axis=1).ravel())
    return ArrivalFit(arrivals, gap_ks, float(np.mean(errors)) if errors else 0.0)


def _on_off(arrival_s: np.ndarray, recorded: dict[float, float]) -> OnOff | None:
    """The on/off process whose index of dispersion grows with the window as the data's does; None: it does not grow.

    For a two-state Markov-modulated Poisson process of mean rate r, rate variance v and relaxation rate s,
    I(t) = 1 + 2 v/(r s) (1 - (1 - exp(-s t))/(s t)) (Fischer & Meier-Hellstern 1993, Performance Evaluation 18:149).
    s and v are fitted by least squares of ln I; the share of time spent "on" comes from the skewness of the counts.
    """
    if len(recorded) < 3:
        return None
    windows_s = np.array(list(recorded))
    excess = np.maximum(np.array(list(recorded.values())) - 1, 0.0)
    if excess.max() < 0.1:
        return None
    rate = (len(arrival_s) - 1) / float(arrival_s[-1] - arrival_s[0])
    best = (math.inf, 0.0, 0.0)
    for relaxation in np.geomspace(0.1 / windows_s[-1], 10 / windows_s[0], 200):
        x = relaxation * windows_s
        shape = 1 + np.expm1(-x) / x
        for scale in np.geomspace(0.3, 3, 41) * (excess @ shape) / (shape @ shape):
            error = float(np.sum((np.log1p(scale * shape) - np.log1p(excess)) ** 2))
            best = min(best, (error, float(relaxation), float(scale)))
    _, relaxation, scale = best
    variance = scale * rate * relaxation / 2
    counts = counts_per_window(arrival_s, float(windows_s[np.argmin(np.abs(windows_s - 1 / relaxation))]))
    deviation = counts - counts.mean()
    skewness = float(np.mean(deviation**3) / np.mean(deviation**2) ** 1.5)
    on_share = (1 - skewness / math.sqrt(4 + skewness**2)) / 2
    most = rate**2 / (rate**2 + variance)  # beyond it the rate "off" would be negative
    on_share = min(max(on_share, 0.001), most)
    return OnOff(
        rate_on=_digits(rate + math.sqrt(variance * (1 - on_share) / on_share)),
        rate_off=_digits(max(rate - math.sqrt(variance * on_share / (1 - on_share)), 0.0)),
        mean_on_s=_digits(1 / (relaxation * (1 - on_share))),
        mean_off_s=_digits(1 / (relaxation * on_share)),
    )


def _timetable(arrival_s: np.ndarray) -> Piecewise:
    """The arrivals per piece of the span; about sqrt(N)/2 pieces, so that each has many arrivals."""
    pieces = int(min(max(math.sqrt(len(arrival_s)) / 2, 2), 200))
    edges_s = np.linspace(arrival_s[0], arrival_s[-1], pieces + 1)
    counts, _ = np.histogram(arrival_s, edges_s)
    rates = counts / np.diff(edges_s)
    return Piecewise(
        times_s=tuple(_digits(edge - arrival_s[0]) for edge in edges_s[:-1]), rates=tuple(map(_digits, rates))
    )


def _digits(value: float) -> float:
    """Five digits: more than the data can tell, and readable in a file."""
    return float(f"{value:.5g}")
