"""The next instance in turn."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._arrays import first_there, select
from jaxsim._component import component
from jaxsim.cluster.routing.base import RouterView, StaticRouter


@component
class RoundRobin(StaticRouter):
    """Sends each request to the next instance in turn, starting at the first."""

    kind: Literal["round_robin"] = "round_robin"

    def assign(self, accepted: np.ndarray, uniform: np.ndarray, instances: int) -> np.ndarray:
        """See `StaticRouter.assign`; requests that are not accepted take no turn."""
        turn = np.cumsum(accepted, axis=1, dtype=np.int32) - 1
        return np.maximum(turn, 0) % np.int32(instances)

    def pick(self, view: RouterView, measure: jax.Array) -> jax.Array:
        """See `AbstractRouter.pick`: the first behind the last, and around."""
        numbers = jnp.arange(view.eligible.shape[0], dtype=jnp.int32)
        behind = view.eligible & (numbers > view.last)
        return select(jnp.any(behind), first_there(behind), first_there(view.eligible))
