"""The less loaded of two instances."""

from typing import Literal

import jax
import jax.numpy as jnp

from jaxsim._arrays import select
from jaxsim._component import check_not_negative, component
from jaxsim.cluster.routing.base import AbstractRouter, RouterView, member, size


@component
class PowerOfTwo(AbstractRouter):
    """Draws two instances with the request's random number and takes the one with fewer requests waiting or running.

    Attributes:
        staleness_s: age that what the router knows of the instances may reach, in seconds, before it looks again; its
            own picks since are counted.
    """

    kind: Literal["power_of_two"] = "power_of_two"
    staleness_s: float = 0.0

    def __post_init__(self) -> None:
        check_not_negative(self, "staleness_s")

    def measure(self, view: RouterView) -> jax.Array:
        """See `AbstractRouter.measure`."""
        return view.queued + view.running

    def pick(self, view: RouterView, measure: jax.Array) -> jax.Array:
        """See `AbstractRouter.pick`."""
        count = size(view)
        first = jnp.floor(view.uniform * count)
        second = jnp.floor((view.uniform * count - first) * (count - 1))
        second = jnp.minimum(select(second >= first, second + 1, second), count - 1)
        low, high = jnp.minimum(first, second).astype(jnp.int32), jnp.maximum(first, second).astype(jnp.int32)
        a, b = member(view, low), member(view, high)
        return select(measure[b] < measure[a], b, a)
