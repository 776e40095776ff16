"""The instance with the smallest share of its KV pool in use."""

from typing import Literal

import jax

from jaxsim._arrays import select
from jaxsim._component import check_not_negative, component
from jaxsim.cluster.routing.base import AbstractRouter, RouterView, least
from jaxsim.engine.fleet.state import UNLIMITED_BLOCKS


@component
class LeastKv(AbstractRouter):
    """Sends each request to the instance with the smallest share of KV blocks in use; of equals to the first.

    A pool without a limit counts as empty.

    Attributes:
        staleness_s: age that what the router knows of the instances may reach, in seconds, before it looks again; its
            own picks since are counted.
    """

    needs = frozenset({"blocks"})

    kind: Literal["least_kv"] = "least_kv"
    staleness_s: float = 0.0

    def __post_init__(self) -> None:
        check_not_negative(self, "staleness_s")

    def measure(self, view: RouterView) -> jax.Array:
        """See `AbstractRouter.measure`."""
        return view.used_blocks

    def pick(self, view: RouterView, measure: jax.Array) -> jax.Array:
        """See `AbstractRouter.pick`."""
        share = select(view.num_blocks < UNLIMITED_BLOCKS, measure / view.num_blocks, 0.0)
        return least(view, share)

    def added(self, view: RouterView) -> jax.Array:
        """See `AbstractRouter.added`."""
        return view.blocks
