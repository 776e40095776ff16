"""The instance that served the session before."""

from typing import Literal

import jax
import jax.numpy as jnp

from jaxsim._arrays import select
from jaxsim._component import check_not_negative, component
from jaxsim.cluster.routing.base import AbstractRouter, RouterView, least


@component
class SessionAffinity(AbstractRouter):
    """Sends requests of one session to one instance; a new session goes to the one with the fewest requests waiting or
    running. A request without a session is a session of its own.

    Attributes:
        staleness_s: age that what the router knows of the instances may reach, in seconds, before it looks again; its
            own picks since are counted.
    """

    by_session = True

    kind: Literal["session_affinity"] = "session_affinity"
    staleness_s: float = 0.0

    def __post_init__(self) -> None:
        check_not_negative(self, "staleness_s")

    def measure(self, view: RouterView) -> jax.Array:
        """See `AbstractRouter.measure`."""
        return view.queued + view.running

    def pick(self, view: RouterView, measure: jax.Array) -> jax.Array:
        """See `AbstractRouter.pick`."""
        home = jnp.maximum(view.home, 0)
        return select((view.home >= 0) & view.eligible[home], home, least(view, measure))
