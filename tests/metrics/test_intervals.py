"""Intervals against their textbook forms, and their coverage where the truth is known.

Coverage tests count how often a 95 % interval holds the true value in 400 independent runs. For an interval that really
covers 95 % this share has a standard deviation of 1.1 %, so the bounds of 92 % and 98 % would fail it for one seed in
160 (the seeds are fixed). Tail percentiles of correlated requests cover a little less, as Woodruff's method is first
order, and batches of one queue are not quite independent: there the lower bound is 90 %.
"""

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from jaxsim.metrics.cluster_sums import batch_starts
from jaxsim.metrics.exact_pool import ExactPool
from jaxsim.metrics.intervals import Estimate, Interval, proportion_interval, quantile_estimate, rare_count_interval
from jaxsim.metrics.per_token import gap_design_effect, gap_pool

RUNS = 400


def test_mean_of_equal_clusters_has_the_t_interval_of_their_means() -> None:
    means = np.array([1.0, 2.0, 4.0, 7.0])
    interval = Estimate.ratio(means * 10, np.full(4, 10.0)).interval(0.9)
    expected = stats.t.interval(0.9, 3, loc=means.mean(), scale=stats.sem(means))
    assert interval == pytest.approx(expected, rel=1e-12)


def test_ratio_of_unequal_clusters_has_the_linearised_variance() -> None:
    total, count = np.array([3.0, 8.0, 1.0]), np.array([2.0, 4.0, 1.0])
    estimate = Estimate.ratio(total, count)
    residual = total - 12 / 7 * count
    assert estimate.value == pytest.approx(12 / 7)
    assert estimate.variance == pytest.approx(3 / 2 * np.sum(residual**2) / 49)


def test_product_is_linearised() -> None:
    one, other = Estimate(2.0, np.array([0.1, -0.1])), Estimate(5.0, np.array([0.3, -0.3]))
    product = one * other
    assert product.value == 10
    np.testing.assert_allclose(product.influence, [1.1, -1.1])
    np.testing.assert_allclose((one * 3).influence, [0.3, -0.3])


def test_no_interval_without_two_clusters_that_have_data() -> None:
    assert Estimate.ratio(np.array([1.0]), np.array([1.0])).interval(0.95) is None
    assert Estimate.ratio(np.array([1.0, 0.0]), np.array([1.0, 0.0])).interval(0.95) is None
    nothing = Estimate.ratio(np.zeros(3), np.zeros(3))
    assert math.isnan(nothing.value) and nothing.interval(0.95) is None
    assert quantile_estimate(ExactPool([np.array([[1.0, 2.0]])]), 0.5, 0.95).interval is None
    assert quantile_estimate(ExactPool([np.array([[1.0], [np.nan]])]), 0.5, 0.95).interval is None


def test_interval_stays_where_the_statistic_can_be() -> None:
    interval = Estimate.ratio(np.array([0.0, 1.0]), np.ones(2)).interval(0.95, high=1.0)
    assert interval == (0.0, 1.0)


def test_quantile_interval_by_hand() -> None:
    """Clusters 0 .. 49 and 50 .. 99: of the values up to the median, the first has all and the second none."""
    estimate = quantile_estimate(ExactPool([np.arange(100.0).reshape(2, 50)]), 0.5, 0.95)
    assert estimate.value == 49.5
    variance = 2 / 1 * ((50 - 25) ** 2 + (0 - 25) ** 2) / 100**2
    assert estimate.design_effect == pytest.approx(variance / (0.25 / 100))
    assert estimate.interval == (0.0, 99.0) and estimate.truncated


def test_quantile_of_independent_values_is_never_narrower_than_binomial() -> None:
    """Clusters that agree by chance: the interval is that of 1,000 independent values, 31 ranks to each side of 500."""
    values = np.arange(1000.0).reshape(100, 10).T
    estimate = quantile_estimate(ExactPool([np.ascontiguousarray(values)]), 0.5, 0.95)
    half = stats.t.ppf(0.975, 9) * math.sqrt(0.25 / 1000)
    assert estimate.design_effect == 1.0 and not estimate.truncated
    assert estimate.interval == pytest.approx((999 * (0.5 - half), 999 * (0.5 + half)))


def test_constant_values_have_their_value_as_interval() -> None:
    assert quantile_estimate(ExactPool([np.full((5, 20), 3.0)]), 0.9, 0.95).interval == (3.0, 3.0)


def test_proportion_interval_is_wilsons_at_the_effective_size() -> None:
    good, total = np.array([8.0, 6.0, 9.0, 5.0]), np.full(4, 10.0)
    share = Estimate.ratio(good, total)
    size = 0.7 * 0.3 / share.variance
    t = stats.t.ppf(0.975, 3)
    low, high = proportion_interval(share, 40, 0.95) or (0, 0)
    for end in (low, high):  # Wilson's ends solve |share - p| = t sqrt(p (1 - p) / n)
        assert abs(0.7 - end) == pytest.approx(t * math.sqrt(end * (1 - end) / size), rel=1e-9)


def test_proportion_of_only_good_requests_is_not_certain() -> None:
    share = Estimate.ratio(np.full(20, 50.0), np.full(20, 50.0))
    low, high = proportion_interval(share, 1000, 0.95) or (0, 0)
    correlated, _ = proportion_interval(share, 1000, 0.95, design_effect=10.0) or (0, 0)
    assert high == 1.0 and correlated < low < 1.0
    assert correlated == pytest.approx(1 / (1 + stats.t.ppf(0.975, 19) ** 2 / 100))


def test_no_event_has_garwoods_interval() -> None:
    assert rare_count_interval(0.95) == pytest.approx((0.0, stats.chi2.ppf(0.975, 2) / 2))


def _coverage(true: float, interval_of: Callable[[np.random.Generator], Interval | None]) -> float:
    """How often the interval of a new run holds the truth."""
    rng = np.random.default_rng(7)
    intervals = [interval_of(rng) for _ in range(RUNS)]
    return sum(found is not None and found.low <= true <= found.high for found in intervals) / RUNS


def _batch_ratio(values: np.ndarray) -> Estimate:
    """The mean of one run from its batches."""
    starts = batch_starts(values.size)
    return Estimate.ratio(np.add.reduceat(values, starts, dtype=np.float64), np.diff(starts, append=values.size))


def _lognormal_walks(rng: np.random.Generator, seeds: int, length: int, correlation: float) -> np.ndarray:
    """exp of stationary first-order autoregressions with standard normal marginals, one a row."""
    values = rng.standard_normal((seeds, length))
    for i in range(1, length):
        values[:, i] = correlation * values[:, i - 1] + math.sqrt(1 - correlation**2) * values[:, i]
    return np.exp(values)


def _waits(rng: np.random.Generator, requests: int, load: float) -> np.ndarray:
    """Waiting times of one stationary M/M/1 queue with service rate 1, by Lindley's recursion."""
    steps = rng.exponential(1, requests) - rng.exponential(1 / load, requests)
    walk = np.concatenate([[0.0], np.cumsum(steps)])[:-1]
    first = rng.exponential(1 / (1 - load)) * (rng.random() < load)
    return np.maximum(first + walk, walk - np.minimum.accumulate(walk))


@pytest.mark.parametrize(("share", "lowest"), [(None, 0.92), (0.5, 0.92), (0.99, 0.90)])
def test_coverage_over_seeds(share: float | None, lowest: float) -> None:
    """20 seeds of 200 requests whose correlation spans 10 requests."""

    def interval(rng: np.random.Generator) -> Interval | None:
        values = _lognormal_walks(rng, 20, 200, 0.9)
        if share is None:
            return Estimate.ratio(values.sum(axis=1), np.full(20, 200)).interval(0.95)
        return quantile_estimate(ExactPool([values]), share, 0.95).interval

    true = math.exp(0.5) if share is None else math.exp(NormalDist().inv_cdf(share))
    assert lowest <= _coverage(true, interval) <= 0.98


@pytest.mark.parametrize("share", [None, 0.75, 0.9, 0.99])
def test_coverage_over_batches_of_one_queue(share: float | None) -> None:
    """20,000 requests of one M/M/1 queue: P(wait > x) = load exp(-(1 - load) x), mean load / (1 - load)."""

    def interval(rng: np.random.Generator) -> Interval | None:
        waits = _waits(rng, 20_000, 0.5)
        if share is None:
            return _batch_ratio(waits).interval(0.95)
        return quantile_estimate(ExactPool([waits[None]], [batch_starts(waits.size)]), share, 0.95).interval

    true = 1.0 if share is None else 2 * math.log(0.5 / (1 - share))
    assert 0.90 <= _coverage(true, interval) <= 0.98


@pytest.mark.parametrize("share", [0.9, 0.99])
def test_coverage_of_attainment_in_one_queue(share: float) -> None:
    """The share of requests that wait at most as long as that share does, in the same queue."""

    def interval(rng: np.random.Generator) -> Interval | None:
        good = _waits(rng, 20_000, 0.5) <= 2 * math.log(0.5 / (1 - share))
        return proportion_interval(_batch_ratio(good), good.size, 0.95)

    assert 0.90 <= _coverage(share, interval) <= 0.98


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_coverage_of_gaps_known_by_bins_only(share: float) -> None:
    """2,000 correlated gaps of one run; the design effect of their mean makes percentiles a little too wide."""

    def interval(rng: np.random.Generator) -> Interval | None:
        gaps = _lognormal_walks(rng, 1, 2000, 0.8)[0]
        edges = np.geomspace(1e-3, 1e3, 701)
        pool = gap_pool(np.histogram(gaps, edges)[0][None], edges)
        effect = gap_design_effect(_batch_ratio(gaps), pool)
        return quantile_estimate(pool, share, 0.95, design_effect=effect, clusters=20).interval

    assert _coverage(math.exp(NormalDist().inv_cdf(share)), interval) >= 0.92
