"""The gamma quantile against SciPy's inverse of the incomplete gamma function."""

import numpy as np
import pytest
from scipy import special

from jaxsim.workload._gamma import unit_mean_gamma
from tests.workload.examples import evaluate

CENTRE = np.linspace(0.001, 0.999, 999)
TAIL = 2.0 ** -np.arange(1, 53)


@pytest.mark.parametrize("cv", [0.001, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0])
def test_matches_scipy(cv):
    uniform = np.concatenate([TAIL, CENTRE, 1 - TAIL])
    quantile = evaluate(unit_mean_gamma(cv), uniform)
    shape = 1 / cv**2
    with np.errstate(under="ignore"):
        lower, upper = special.gammaincinv(shape, uniform), special.gammainccinv(shape, 1 - uniform)
    np.testing.assert_allclose(quantile, np.where(uniform < 0.5, lower, upper) / shape, rtol=1e-8, atol=1e-290)
