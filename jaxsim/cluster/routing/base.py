"""What every router gives the fleet."""

import abc

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._arrays import select
from jaxsim.engine.fleet.arriving import RouterView as RouterView


class AbstractRouter(abc.ABC):
    """Chooses the instance of every request."""


class StaticRouter(AbstractRouter):
    """Chooses before the run: from the requests alone, not from the state of the fleet.

    Each instance then has its own stream of requests, and the fleet may be simulated as independent lanes.
    """

    @abc.abstractmethod
    def assign(self, accepted: np.ndarray, uniform: np.ndarray, instances: int) -> np.ndarray:
        """The instance of every request.

        Args:
            accepted: bool `[R, N]`, requests that are routed at all, in order of arrival along N.
            uniform: float64 `[R, N]` in [0, 1), each request's own random number.
            instances: how many instances the group has.

        Returns:
            int32 `[R, N]` in `[0, instances)`; what it holds for requests that are not accepted does not matter.
        """


class StateRouter(AbstractRouter):
    """Chooses when a request arrives, from the state of the fleet."""

    @abc.abstractmethod
    def pick(self, view: RouterView) -> jax.Array:
        """The instance of a request, int32; one that is `eligible`."""


def least(view: RouterView, measure: jax.Array) -> jax.Array:
    """The eligible instance with the smallest measure; of equals the one with the lowest index."""
    largest = jnp.inf if jnp.issubdtype(measure.dtype, jnp.floating) else jnp.iinfo(measure.dtype).max
    return jnp.argmin(select(view.eligible, measure, largest))
