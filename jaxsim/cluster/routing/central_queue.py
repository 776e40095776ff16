"""No instance yet: all requests wait in one queue."""

from typing import Literal

import jax
import jax.numpy as jnp

from jaxsim._component import component
from jaxsim.cluster.routing.base import AbstractRouter, RouterView


@component
class CentralQueue(AbstractRouter):
    """All requests wait in one queue, from which an instance takes when it composes a batch; idle ones by number.

    Preempted requests wait at their instance, and go first there.
    """

    kind: Literal["central_queue"] = "central_queue"

    def pick(self, view: RouterView, measure: jax.Array) -> jax.Array:
        """Nobody is asked: the fleet keeps the queue."""
        return jnp.int32(0)
