"""Any instance, uniformly."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._component import component
from jaxsim.cluster.routing.base import RouterView, StaticRouter, member, size


@component
class Random(StaticRouter):
    """Sends each request to an instance drawn uniformly with the request's own random number."""

    kind: Literal["random"] = "random"

    def assign(self, accepted: np.ndarray, uniform: np.ndarray, instances: int) -> np.ndarray:
        """See `StaticRouter.assign`: instance `floor(uniform * instances)`."""
        return (uniform * instances).astype(np.int32)

    def pick(self, view: RouterView, measure: jax.Array) -> jax.Array:
        """See `AbstractRouter.pick`."""
        return member(view, jnp.floor(view.uniform * size(view)).astype(jnp.int32))
