"""Arrival processes: the contract of all, each gap distribution, each change of clock.

Statistical bounds are 5 standard errors: a wrong alarm in 2 million had the seeds been drawn anew.
"""

import dataclasses
import math

import jax
import numpy as np
import pytest
from scipy import stats

from jaxsim.workload import arrivals as a
from tests.workload.examples import ARRIVALS, evaluate, kind, synthetic

SEEDS = np.arange(3)
UNIFORM = np.concatenate([2.0 ** -np.arange(1, 53), np.linspace(0.01, 0.99, 99), 1 - 2.0 ** -np.arange(2, 53)])


def arrival_s(arrivals, count, seeds=SEEDS):
    return synthetic(count, arrivals).draw(seeds).arrival_s


def test_every_kind_is_tried():
    assert [kind(arrivals) for arrivals in ARRIVALS] == list(a.ARRIVALS)


@pytest.mark.parametrize("arrivals", ARRIVALS, ids=kind)
def test_contract(arrivals):
    long = arrival_s(arrivals, 1500)
    assert long.dtype == np.float64 and np.isfinite(long).all()
    assert (long[:, 0] >= 0).all() and (np.diff(long, axis=1) >= 0).all()
    for count in (1, 3, 1025):
        np.testing.assert_array_equal(arrival_s(arrivals, count), long[:, :count])
    with jax.numpy_dtype_promotion("strict"):
        np.testing.assert_array_equal(arrival_s(arrivals, 20, SEEDS[1:2])[0], long[1, :20])


@pytest.mark.parametrize("arrivals", [a for a in ARRIVALS if hasattr(a, "rate")], ids=kind)
def test_one_seed_gives_the_same_pattern_at_every_rate(arrivals):
    slow, fast = arrival_s(arrivals, 50), arrival_s(dataclasses.replace(arrivals, rate=16.0), 50)
    np.testing.assert_array_equal(slow, 4 * fast)  # exact, as the rates are powers of 2
    odd = arrival_s(dataclasses.replace(arrivals, rate=0.7), 50)
    np.testing.assert_allclose(odd, slow * (4 / 0.7), rtol=1e-15)


@pytest.mark.parametrize(
    ("arrivals", "law"),
    [
        (a.Poisson(rate=1.0), stats.expon()),
        (a.Gamma(rate=1.0, cv=0.5), stats.gamma(4, scale=0.25)),
        (a.Gamma(rate=1.0, cv=2.0), stats.gamma(0.25, scale=4)),
        (a.Weibull(rate=1.0, cv=1.0), stats.expon()),
        (a.Weibull(rate=1.0, cv=math.sqrt(5)), stats.weibull_min(0.5, scale=0.5)),
    ],
)
def test_gaps_follow_the_law(arrivals, law):
    np.testing.assert_allclose(evaluate(arrivals.unit_gap(), UNIFORM), law.ppf(UNIFORM), rtol=1e-8)


@pytest.mark.parametrize("cv", [0.01, 0.3, 1.0, 4.0, 50.0])
def test_weibull_has_the_cv_asked_for(cv):
    inverse_shape, mean = a.Weibull(rate=1.0, cv=cv).unit_gap().args
    second = math.lgamma(1 + 2 * inverse_shape) - 2 * math.log(mean)
    assert math.isclose(math.expm1(second), cv**2, rel_tol=1e-9)


def test_constant_and_burst():
    np.testing.assert_array_equal(arrival_s(a.Constant(rate=4.0), 3)[0], [0, 0.25, 0.5])
    np.testing.assert_array_equal(arrival_s(a.Burst(size=2, interval_s=0.3), 5)[1], [0, 0, 0.3, 0.3, 0.6])


@pytest.mark.parametrize(
    ("arrivals", "rate"),
    [
        (a.Weibull(rate=4.0, cv=2.0), 4.0),
        (a.Burst(size=8, interval_s=2.0), 4.0),
        (a.OnOff(rate_on=8.0, rate_off=1.0, mean_on_s=3.0, mean_off_s=4.0), 4.0),
        (a.Markov(rates=(6.0, 0.0), switch_rates=(0.5, 1.0)), 4.0),
    ],
)
def test_nominal_rate(arrivals, rate):
    assert math.isclose(arrivals.rate_per_s, rate)
    assert math.isnan(a.Piecewise(times_s=(0.0,), rates=(1.0,)).rate_per_s)


def test_piecewise_counts():
    """Requests before each step are Poisson with mean the integral of the rate: 400 lanes, 5 standard errors."""
    arrivals = a.Piecewise(times_s=(0.0, 5.0, 20.0), rates=(4.0, 0.0, 10.0))
    times = arrival_s(arrivals, 100, np.arange(400))
    assert not ((times > 5) & (times < 20)).any()
    for until, mean in ((2.0, 8.0), (20.0, 20.0), (22.0, 40.0)):
        counts = (times <= until).sum(axis=1)
        assert abs(counts.mean() - mean) < 5 * math.sqrt(mean / 400)
        assert abs(counts.var() / mean - 1) < 5 * math.sqrt(2 / 400) + 1 / mean


def test_on_off_counts():
    """Mean and variance of the requests in [0, t) of the stationary two-state process, with on share p and r the sum of
    the switching rates: variance = mean + 2 p (1 - p) (rate_on - rate_off)^2 (t / r - (1 - exp(-r t)) / r^2)
    (Fischer & Meier-Hellstern 1993, Performance Evaluation 18:149)."""
    arrivals = a.OnOff(rate_on=8.0, rate_off=1.0, mean_on_s=3.0, mean_off_s=4.0)
    seeds, until = 1500, 5.0
    counts = (arrival_s(arrivals, 120, np.arange(seeds)) < until).sum(axis=1)
    relaxation = 1 / 3 + 1 / 4
    correlated = until / relaxation - (1 - math.exp(-relaxation * until)) / relaxation**2
    variance = 4 * until + 2 * (3 / 7) * (4 / 7) * 7**2 * correlated
    assert abs(counts.mean() - 4 * until) < 5 * math.sqrt(variance / seeds)
    spread = math.sqrt(np.mean((counts - counts.mean()) ** 4) - counts.var() ** 2)
    assert abs(counts.var() - variance) < 5 * spread / math.sqrt(seeds)


def test_markov_of_two_states_is_on_off():
    two = a.Markov(rates=(8.0, 1.0), switch_rates=(1 / 4, 1 / 2))
    np.testing.assert_array_equal(
        arrival_s(two, 200), arrival_s(a.OnOff(rate_on=8.0, rate_off=1.0, mean_on_s=4.0, mean_off_s=2.0), 200)
    )


@pytest.mark.parametrize(
    ("cls", "fields", "message"),
    [
        (a.Poisson, {"rate": -1.0}, r"rate must be a finite number greater than 0, not -1\.0"),
        (a.Poisson, {"rate": 0}, "rate must be a finite number greater than 0, not 0"),
        (a.Poisson, {"rate": math.nan}, "rate must be .* not nan"),
        (a.Constant, {"rate": math.inf}, "rate must be .* not inf"),
        (a.Gamma, {"rate": 1.0, "cv": 0.0}, "cv must be"),
        (a.Weibull, {"rate": 1.0, "cv": 60.0}, r"cv must be a number from 0\.01 to 50, not 60"),
        (a.Burst, {"size": 0, "interval_s": 1.0}, "size must be a whole number, 1 or greater, not 0"),
        (a.Burst, {"size": 1.5, "interval_s": 1.0}, "size must be a whole number"),
        (a.Burst, {"size": 1, "interval_s": 0.0}, "interval_s must be"),
        (a.OnOff, {"rate_on": 1.0, "rate_off": -1.0, "mean_on_s": 1.0, "mean_off_s": 1.0}, "rate_off must be"),
        (a.Markov, {"rates": [1.0], "switch_rates": [1.0]}, "two or more states, not 1 and 1"),
        (a.Markov, {"rates": [0.0, 0.0], "switch_rates": [1.0, 1.0]}, "rates must not all be 0"),
        (a.Markov, {"rates": [1.0, -2.0], "switch_rates": [1.0, 1.0]}, r"rates\[1\] must be a finite number, 0 or"),
        (a.Markov, {"rates": [1.0, 2.0], "switch_rates": [0.0, 1.0]}, r"switch_rates\[0\] must be a finite number, gr"),
        (a.Piecewise, {"times_s": [0.0, 1.0], "rates": [1.0]}, "equally long, not 2 and 1"),
        (a.Piecewise, {"times_s": [1.0], "rates": [1.0]}, "times_s must begin with 0 and increase"),
        (a.Piecewise, {"times_s": [0.0, 2.0, 2.0], "rates": [1.0, 1.0, 1.0]}, "times_s must begin with 0 and increase"),
        (a.Piecewise, {"times_s": [0.0, 2.0], "rates": [1.0, 0.0]}, "rates must end with a number greater than 0"),
        (a.Piecewise, {"times_s": [], "rates": []}, "times_s must have at least one number"),
    ],
)
def test_bad_parameters(cls, fields, message):
    with pytest.raises(ValueError, match=message):
        cls(**fields)
