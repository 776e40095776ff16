"""The instance with the fewest requests waiting."""

from typing import Literal

import jax

from jaxsim._component import component
from jaxsim.cluster.routing.base import RouterView, StateRouter, least


@component
class LeastWaiting(StateRouter):
    """Sends each request to the instance with the fewest requests waiting; of equals to the first."""

    kind: Literal["least_waiting"] = "least_waiting"

    def pick(self, view: RouterView) -> jax.Array:
        """See `StateRouter.pick`."""
        return least(view, view.queued)
