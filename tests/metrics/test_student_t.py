"""Quantiles of Student's t against SciPy."""

import pytest
from scipy import stats

from jaxsim.metrics.student_t import student_t_quantile


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 9, 19, 30, 127, 511, 999, 1000, 1001, 2000, 10**6])
@pytest.mark.parametrize("probability", [0.01, 0.25, 0.5, 0.6, 0.9, 0.95, 0.975, 0.995, 0.9995])
def test_agrees_with_scipy(probability: float, degrees: int) -> None:
    expected = stats.t.ppf(probability, degrees)
    assert student_t_quantile(probability, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("probability", "degrees"), [(0.0, 5), (1.0, 5), (0.9, 0)])
def test_refuses_what_has_no_quantile(probability: float, degrees: int) -> None:
    with pytest.raises(ValueError, match="no t quantile"):
        student_t_quantile(probability, degrees)
