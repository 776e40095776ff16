"""The instance with the fewest requests waiting or running."""

from typing import Literal

import jax

from jaxsim._component import check_not_negative, component
from jaxsim.cluster.routing.base import AbstractRouter, RouterView, least


@component
class LeastOutstanding(AbstractRouter):
    """Sends each request to the instance with the fewest requests waiting or running; of equals to the first.

    Attributes:
        staleness_s: age that what the router knows of the instances may reach, in seconds, before it looks again; its
            own picks since are counted.
    """

    kind: Literal["least_outstanding"] = "least_outstanding"
    staleness_s: float = 0.0

    def __post_init__(self) -> None:
        check_not_negative(self, "staleness_s")

    def measure(self, view: RouterView) -> jax.Array:
        """See `AbstractRouter.measure`."""
        return view.queued + view.running

    def pick(self, view: RouterView, measure: jax.Array) -> jax.Array:
        """See `AbstractRouter.pick`."""
        return least(view, measure)
