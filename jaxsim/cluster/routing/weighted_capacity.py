"""Any instance, in proportion to given weights."""

from typing import Literal

import jax
import jax.numpy as jnp

from jaxsim._arrays import first_there, select
from jaxsim._component import component
from jaxsim.cluster.routing.base import AbstractRouter, RouterView


@component
class WeightedCapacity(AbstractRouter):
    """Sends each request to an instance drawn with the request's own random number, in proportion to its weight.

    Attributes:
        weights: of the instances of each group of the cluster that requests are sent to, in its order; each instance
            of a group has the group's.
    """

    kind: Literal["weighted_capacity"] = "weighted_capacity"
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.weights or not all(0 <= weight < float("inf") for weight in self.weights) or sum(self.weights) == 0:
            raise ValueError("weights must be numbers, 0 or greater, of which some is greater than 0")

    def pick(self, view: RouterView, measure: jax.Array) -> jax.Array:
        """See `AbstractRouter.pick`; a group's weight is that of its instances."""
        weight = jnp.zeros(view.eligible.shape)
        for number, of_group in enumerate(self.weights):
            weight = select(view.group == number, of_group, weight)
        total = jnp.cumsum(select(view.eligible, weight, 0.0))
        found = view.eligible & (total > view.uniform * total[-1])
        numbers = jnp.arange(view.eligible.shape[0], dtype=jnp.int32)
        last = jnp.max(select(view.eligible, numbers, -1))
        return select(jnp.any(found), first_there(found), last)
