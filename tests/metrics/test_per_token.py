"""Inter-token latency over tokens, not over requests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxsim.metrics.intervals import Estimate
from jaxsim.metrics.per_token import gap_design_effect, gap_error, gap_pool, mean_gap
from tests.metrics.tables import EDGES_S, accumulated, table


@given(st.lists(st.floats(min_value=1.001e-3, max_value=9.99), min_size=1, max_size=80), st.floats(0, 1))
def test_percentiles_are_within_a_bin(gaps_s: list[float], share: float) -> None:
    counts, _ = np.histogram(gaps_s, EDGES_S)
    found = gap_pool(counts[None], EDGES_S).quantile(share)
    assert found == pytest.approx(np.quantile(gaps_s, share), rel=gap_error(EDGES_S))


def test_error_bound_is_the_widest_bin_and_what_gaps_were_moved() -> None:
    assert gap_error(np.array([1.0, 1.5, 2.0])) == 0.5
    assert gap_error(np.array([1.0, 1.5, 2.0]), credited_error=0.1) == pytest.approx(0.65)


def test_a_long_request_weighs_as_much_as_its_tokens() -> None:
    """9 gaps of 0.1 s and 1 of 1 s: the mean over tokens is 0.19 s, over requests it would be 0.55 s."""
    requests = table(arrival_s=[0.0, 0.0], output_tokens=[10, 2], first_token_s=[1.0, 1.0], finish_s=[1.9, 2.0])
    itl = accumulated(requests, units="batches").summary()["itl_s"]
    assert itl["count"] == 10
    assert itl["mean"] == pytest.approx(0.19)
    assert itl["p50"] == pytest.approx(0.1, rel=itl["relative_error"])
    assert itl["p99"] == pytest.approx(0.1 + 0.9 * 0.91, rel=itl["relative_error"])


def test_design_effect_compares_the_batches_with_independent_gaps() -> None:
    counts = np.zeros((1, len(EDGES_S) - 1), np.int64)
    counts[0, [100, 200]] = 500
    pool = gap_pool(counts, EDGES_S)
    middle = (EDGES_S[[100, 200]] + EDGES_S[[101, 201]]) / 2
    mean = Estimate(middle.mean(), np.array([0.01, -0.01]))
    independent = (np.diff(middle) / 2) ** 2 / 1000
    assert gap_design_effect(mean, pool) == pytest.approx(float(2 * 0.0002 / independent[0]))
    assert gap_design_effect(mean_gap(np.ones(1), np.ones(1)), pool) is None
    assert gap_design_effect(mean, gap_pool(counts * 0, EDGES_S)) is None
