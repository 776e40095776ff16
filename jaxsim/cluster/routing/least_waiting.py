"""The instance with the fewest requests waiting."""

from typing import Literal

import jax

from jaxsim._component import check_not_negative, component
from jaxsim.cluster.routing.base import AbstractRouter, RouterView, least


@component
class LeastWaiting(AbstractRouter):
    """Sends each request to the instance with the fewest requests waiting; of equals to the first.

    Attributes:
        staleness_s: age that what the router knows of the instances may reach, in seconds, before it looks again; its
            own picks since are counted.
    """

    kind: Literal["least_waiting"] = "least_waiting"
    staleness_s: float = 0.0

    def __post_init__(self) -> None:
        check_not_negative(self, "staleness_s")

    def measure(self, view: RouterView) -> jax.Array:
        """See `AbstractRouter.measure`."""
        return view.queued

    def pick(self, view: RouterView, measure: jax.Array) -> jax.Array:
        """See `AbstractRouter.pick`."""
        return least(view, measure)
