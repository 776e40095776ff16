"""The sketch keeps its promises: error bound, exact counts, any order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxsim.metrics.exact_pool import ExactPool
from jaxsim.metrics.intervals import quantile_estimate
from jaxsim.metrics.quantile_sketch import ABSOLUTE_ERROR_S, RELATIVE_ERROR, BinnedPool, QuantileSketch

seconds = st.one_of(
    st.just(0.0),
    st.floats(min_value=1e-12, max_value=1e9, allow_nan=False),
    st.floats(min_value=0.01, max_value=0.02, allow_nan=False),
)


def _sketch(values: np.ndarray, groups: int = 3) -> QuantileSketch:
    sketch = QuantileSketch(groups)
    sketch.add(values, np.arange(len(values))[:, None] % groups)
    return sketch


@given(st.lists(seconds, min_size=1, max_size=60), st.floats(min_value=0, max_value=1))
def test_quantiles_are_within_the_stated_error(values: list[float], share: float) -> None:
    found = _sketch(np.array([values])).pool().quantile(share)
    assert found == pytest.approx(np.quantile(values, share), rel=RELATIVE_ERROR, abs=ABSOLUTE_ERROR_S)


@given(st.lists(seconds, min_size=1, max_size=60), st.floats(min_value=0, max_value=1))
def test_exact_pool_is_numpys_quantile(values: list[float], share: float) -> None:
    assert ExactPool([np.array([values])]).quantile(share) == pytest.approx(np.quantile(values, share), rel=1e-12)


@given(st.lists(seconds, min_size=2, max_size=40), st.permutations(range(4)))
def test_counts_do_not_depend_on_order_or_parts(values: list[float], order: list[int]) -> None:
    column = np.array(values)[:, None]
    whole = _sketch(column)
    joined = QuantileSketch(3)
    for part in order:
        one = QuantileSketch(3)
        one.add(column[part::4], np.arange(len(values))[part::4, None] % 3)
        joined.merge(one)
    np.testing.assert_array_equal(whole._counts, joined._counts)


def test_nan_is_left_out_and_rounding_below_zero_is_zero() -> None:
    pool = _sketch(np.array([[np.nan, -1e-17, -0.0, 0.0, 5e-324, 2.0]])).pool()
    assert pool.total == 5
    assert pool.quantile(0.5) == 0.0
    assert pool.quantile(1.0) == pytest.approx(2.0, rel=RELATIVE_ERROR)


def test_nothing_counted_has_no_quantile() -> None:
    assert np.isnan(QuantileSketch(2).pool().quantile(0.5))
    assert np.isnan(ExactPool([]).quantile(0.5))


def test_values_up_to_a_value_by_cluster() -> None:
    pool = BinnedPool(np.array([[4, 0, 2], [0, 8, 0]]), np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    for value, expected in ((0.5, [2, 0]), (1.25, [4, 2]), (9.0, [6, 8]), (-1.0, [0, 0])):
        below, counts = pool.up_to(value)
        np.testing.assert_array_equal(below, expected)
        np.testing.assert_array_equal(counts, [6, 8])


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_interval_is_that_of_the_values(share: float) -> None:
    values = np.random.default_rng(1).lognormal(0, 1, (30, 500)) * np.random.default_rng(2).gamma(50, 1 / 50, (30, 1))
    exact = quantile_estimate(ExactPool([values]), share, 0.95)
    sketched = quantile_estimate(_sketch(values, 30).pool(), share, 0.95)
    assert sketched.value == pytest.approx(exact.value, rel=RELATIVE_ERROR)
    assert sketched.interval == pytest.approx(exact.interval, rel=0.01)
