"""One component per kind, for tests that hold for all of them, and what such tests share."""

import jax
import numpy as np
from jax.tree_util import Partial

from jaxsim.workload import Synthetic
from jaxsim.workload import arrivals as a
from jaxsim.workload import lengths as n

ARRIVALS = (
    a.Poisson(rate=4.0),
    a.Gamma(rate=4.0, cv=2.0),
    a.Weibull(rate=4.0, cv=2.0),
    a.Constant(rate=4.0),
    a.Burst(size=8, interval_s=2.0),
    a.OnOff(rate_on=8.0, rate_off=1.0, mean_on_s=3.0, mean_off_s=4.0),
    a.Markov(rates=(8.0, 0.0, 2.0), switch_rates=(0.5, 0.25, 1.0)),
    a.Piecewise(times_s=(0.0, 10.0, 30.0), rates=(4.0, 0.0, 8.0)),
    a.ClosedLoop(concurrency=4, think_time_s=2.0),
)

LENGTHS = (
    n.Fixed(value=100),
    n.Uniform(min=10, max=20),
    n.Normal(mean=500.0, std=100.0),
    n.Lognormal(median=403.4, sigma=0.8, min=8, max=4096),
    n.Gamma(mean=500.0, cv=0.7),
    n.Geometric(mean=128.0),
    n.Pareto(median=200.0, alpha=1.5, max=8192),
    n.Empirical(values=(5, 7, 7, 900)),
)


def kind(component: object) -> str:
    """Name of a component in the test report."""
    return component.kind  # type: ignore[attr-defined]


@jax.jit
def _apply(sampler: Partial, uniform: jax.Array) -> jax.Array:
    return sampler(uniform)


def evaluate(sampler: Partial, uniform: np.ndarray) -> np.ndarray:
    """A sampler at given uniforms."""
    with jax.enable_x64(True):
        return np.asarray(_apply(sampler, uniform))


def synthetic(num_requests: int, arrivals: a.Arrivals = ARRIVALS[0]) -> Synthetic:
    """A workload with lognormal lengths."""
    output = n.Lognormal(median=148.4, sigma=0.8, min=2, max=2048)
    return Synthetic(num_requests=num_requests, arrivals=arrivals, prompt_tokens=LENGTHS[3], output_tokens=output)
