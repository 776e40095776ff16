"""Whole distributions with intervals, and where the time of requests goes."""

import numpy as np
import pytest

from jaxsim.metrics.breakdown import breakdown
from jaxsim.metrics.percentile_curve import percentile_curve
from tests.metrics.tables import accumulated, random_table, table


def test_curve_agrees_with_the_summary() -> None:
    requests = random_table(np.random.default_rng(2), seeds=8, requests=200)
    summary = accumulated(requests).summary()
    curve = percentile_curve(requests.e2e_s, batches=False)
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        of = summary["e2e_s"]
        assert np.interp(share, curve.share, curve.value) == pytest.approx(of[name], rel=0.02)
        assert np.interp(share, curve.share, curve.low) == pytest.approx(of[f"{name}_ci"][0], rel=0.05)
        assert np.interp(share, curve.share, curve.high) == pytest.approx(of[f"{name}_ci"][1], rel=0.05)


@pytest.mark.parametrize("batches", [True, False])
def test_curve_ascends_inside_its_band(batches: bool) -> None:
    values = random_table(np.random.default_rng(3), seeds=4, requests=100).ttft_s
    curve = percentile_curve(values, batches=batches)
    assert np.all(np.diff(curve.value) >= 0)
    known = ~np.isnan(curve.low)
    assert known[1:-1].all()
    assert np.all(curve.low[known] <= curve.value[known]) and np.all(curve.value[known] <= curve.high[known])


def test_curves_of_little() -> None:
    assert len(percentile_curve(np.full((2, 3), np.nan), batches=False).share) == 0
    one = percentile_curve(np.array([[1.0, np.nan]]), batches=True)
    assert np.all(one.value == 1) and np.isnan(one.low).all()


def test_phases_add_up_to_the_latency() -> None:
    requests = random_table(np.random.default_rng(4), seeds=3, requests=100)
    groups = breakdown(requests, "e2e_s", warmup=10)
    assert [(group.low, group.high, group.count) for group in groups] == [
        (0.0, 0.5, 135), (0.5, 0.9, 108), (0.9, 0.99, 24), (0.99, 1.0, 3),
    ]  # fmt: skip
    total = sum(group.count * (group.queue_s + group.prefill_s + group.decode_s) for group in groups)
    assert total == pytest.approx(requests.e2e_s[:, 10:].sum())
    slowest = np.sort(requests.e2e_s[:, 10:].ravel())[-3:].mean()
    assert groups[-1].queue_s + groups[-1].prefill_s + groups[-1].decode_s == pytest.approx(slowest)


def test_few_requests_make_few_groups() -> None:
    assert [group.count for group in breakdown(table(arrival_s=[0.0, 1.0, 2.0]))] == [2, 1]
    with pytest.raises(ValueError, match="metric must be one of ttft_s, e2e_s, not 'tpot_s'"):
        breakdown(table(arrival_s=[0.0]), "tpot_s")
