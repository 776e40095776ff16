"""Requests before the start: one run of the process with those after it."""

import numpy as np
import pytest

from jaxsim.workload import Synthetic
from jaxsim.workload import arrivals as a
from jaxsim.workload import lengths as n
from tests.workload.examples import ARRIVALS, kind

SEEDS = np.arange(200)
ENDLESS = [arrivals for arrivals in ARRIVALS if np.isfinite(arrivals.rate_per_s)]


def workload(arrivals: a.Arrivals, count: int = 300) -> Synthetic:
    lengths = {"prompt_tokens": n.Lognormal(median=100.0, sigma=1.0), "output_tokens": n.Geometric(mean=20.0)}
    return Synthetic(num_requests=count, arrivals=arrivals, **lengths)


@pytest.mark.parametrize("arrivals", ENDLESS, ids=kind)
def test_a_longer_past_ends_like_a_shorter_one(arrivals: a.Arrivals) -> None:
    long, short = (workload(arrivals).past(SEEDS[:5], count) for count in (1500, 40))
    for name in ("arrival_s", "prompt_tokens", "output_tokens", "routing_uniform", "row"):
        np.testing.assert_array_equal(getattr(long, name)[:, -40:], getattr(short, name), err_msg=name)
    assert np.all(np.diff(long.arrival_s) >= 0) and np.all(long.arrival_s <= 0)
    assert short.row[0].tolist() == list(range(-40, 0))


@pytest.mark.parametrize("arrivals", ENDLESS, ids=kind)
def test_it_is_of_the_same_process_and_other_requests(arrivals: a.Arrivals) -> None:
    """Counts of the 10 s before and after the start have the same mean and variance (5 standard errors)."""
    past, own = workload(arrivals).past(SEEDS, 300), workload(arrivals).draw(SEEDS)
    before, after = np.sum(past.arrival_s >= -10, axis=1), np.sum(own.arrival_s < 10, axis=1)
    spread = max(np.std(before), np.std(after), 1.0)
    assert abs(np.mean(before) - np.mean(after)) < 5 * spread * np.sqrt(2 / len(SEEDS))
    assert np.std(before) == pytest.approx(np.std(after), rel=0.4, abs=0.5)
    assert not np.any(np.all(past.prompt_tokens[:, ::-1] == own.prompt_tokens, axis=1))
    assert abs(np.log(past.prompt_tokens).mean() - np.log(own.prompt_tokens).mean()) < 0.05


def test_even_arrivals_go_on_evenly() -> None:
    for arrivals in (a.Constant(rate=4.0), a.Burst(size=8, interval_s=2.0)):
        past, own = workload(arrivals).past(SEEDS[:1], 64), workload(arrivals, 64).draw(SEEDS[:1])
        together = np.concatenate([past.arrival_s, own.arrival_s], axis=1)
        longer = workload(arrivals, 128).draw(SEEDS[:1])
        np.testing.assert_allclose(together - together[:, :1], longer.arrival_s, atol=1e-12)


def test_gaps_go_on_over_the_start() -> None:
    """The gap from the last request before to the first after it is one gap, not two."""
    arrivals = a.Gamma(rate=4.0, cv=0.1)
    past, own = workload(arrivals).past(SEEDS, 2), workload(arrivals).draw(SEEDS)
    assert np.mean(own.arrival_s[:, 0] - past.arrival_s[:, -1]) == pytest.approx(0.25, rel=0.05)


def test_a_busy_phase_lasts_over_the_start() -> None:
    arrivals = a.OnOff(rate_on=20.0, rate_off=0.1, mean_on_s=5.0, mean_off_s=5.0)
    past, own = workload(arrivals).past(SEEDS, 300), workload(arrivals).draw(SEEDS)
    before, after = np.sum(past.arrival_s > -1, axis=1), np.sum(own.arrival_s < 1, axis=1)
    assert np.corrcoef(before, after)[0, 1] > 0.6


def test_it_does_not_touch_what_comes_after() -> None:
    one = workload(a.Poisson(rate=4.0))
    own = one.draw(SEEDS[:3])
    one.past(SEEDS[:3], 50)
    for field in ("arrival_s", "prompt_tokens", "routing_uniform"):
        np.testing.assert_array_equal(getattr(one.draw(SEEDS[:3]), field), getattr(own, field))


def test_a_timetable_has_no_past() -> None:
    with pytest.raises(ValueError, match="process without a beginning"):
        workload(a.Piecewise(times_s=(0.0,), rates=(4.0,))).past(SEEDS[:1], 5)
