"""The instance with the fewest tokens left."""

from typing import Literal

import jax

from jaxsim._component import check_not_negative, component
from jaxsim.cluster.routing.base import AbstractRouter, RouterView, least


@component
class LeastTokens(AbstractRouter):
    """Sends each request to the instance with the fewest tokens left to prefill and emit; of equals to the first.

    It knows output lengths in advance, which no real router does: a bound on what one can reach.

    Attributes:
        staleness_s: age that what the router knows of the instances may reach, in seconds, before it looks again; its
            own picks since are counted.
        known_outputs: count output tokens too; without it only prompts, which a real router knows.
    """

    needs = frozenset({"left"})

    kind: Literal["least_tokens"] = "least_tokens"
    staleness_s: float = 0.0
    known_outputs: bool = True

    def __post_init__(self) -> None:
        check_not_negative(self, "staleness_s")

    def measure(self, view: RouterView) -> jax.Array:
        """See `AbstractRouter.measure`."""
        return view.prompt_left + (view.outputs_left if self.known_outputs else 0)

    def pick(self, view: RouterView, measure: jax.Array) -> jax.Array:
        """See `AbstractRouter.pick`."""
        return least(view, measure)

    def added(self, view: RouterView) -> jax.Array:
        """See `AbstractRouter.added`."""
        return view.prompt + (view.outputs if self.known_outputs else 0)
