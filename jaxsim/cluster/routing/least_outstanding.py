"""The instance with the fewest requests waiting or running."""

from typing import Literal

import jax

from jaxsim._component import component
from jaxsim.cluster.routing.base import RouterView, StateRouter, least


@component
class LeastOutstanding(StateRouter):
    """Sends each request to the instance with the fewest requests waiting or running; of equals to the first."""

    kind: Literal["least_outstanding"] = "least_outstanding"

    def pick(self, view: RouterView) -> jax.Array:
        """See `StateRouter.pick`."""
        return least(view, view.queued + view.running)
