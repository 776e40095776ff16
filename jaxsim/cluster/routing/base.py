"""What every router gives the fleet."""

import abc
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._arrays import first_least, first_there, select
from jaxsim.engine.fleet.routing import RouterView as RouterView


class AbstractRouter(abc.ABC):
    """Chooses the instance of every request when it arrives."""

    kind: str
    """Its name in a scenario."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """What it looks at that costs a look at every running request: `left` (tokens left), `blocks` (in use)."""
    by_session: ClassVar[bool] = False
    """Whether it looks at sessions."""

    def measure(self, view: RouterView) -> jax.Array:
        """A number per instance, `[I]`, of which the router may see an older state (`staleness_s`)."""
        return jnp.zeros(view.eligible.shape)

    @abc.abstractmethod
    def pick(self, view: RouterView, measure: jax.Array) -> jax.Array:
        """The instance of a request, one that is `eligible`, int32."""

    def added(self, view: RouterView) -> jax.Array | float:
        """What a request adds to the measure of the instance it is sent to, until it is looked at again."""
        return 1.0


class StaticRouter(AbstractRouter):
    """Chooses from the requests alone, not from the state of the fleet.

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


def least(view: RouterView, measure: jax.Array) -> jax.Array:
    """The eligible instance with the smallest measure; of equals the one with the lowest index."""
    return first_least(select(view.eligible, measure, jnp.inf))


def member(view: RouterView, place: jax.Array) -> jax.Array:
    """The eligible instance at a place among the eligible ones."""
    order = jnp.cumsum(view.eligible.astype(jnp.int32)) - 1
    return first_there(view.eligible & (order == place))


def size(view: RouterView) -> jax.Array:
    """Number of eligible instances, int32."""
    return jnp.sum(view.eligible, dtype=jnp.int32)
