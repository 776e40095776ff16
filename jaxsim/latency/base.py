"""L2: what every latency model gives the engine: the time of one iteration and how it grows."""

import abc
from typing import ClassVar, NamedTuple

import jax

from jaxsim.latency.terms import Terms


class Piece(NamedTuple):
    """An affine piece of an iteration-time function along a stretch of like iterations.

    Iteration `j` of the stretch (0, 1, ...) takes `first_s + j * growth_s` seconds, for `j < iterations`.
    """

    first_s: jax.Array
    growth_s: jax.Array
    iterations: jax.Array | float


class AbstractLatency(abc.ABC):
    """Seconds of one engine iteration as a function of its batch."""

    kind: str
    """Its name in a scenario."""
    terms: ClassVar[tuple[str, ...]]
    """Names of the batch terms the model reads (see `jaxsim.latency.terms`)."""

    @abc.abstractmethod
    def price(self, terms: Terms, growth: Terms) -> Piece:
        """Price a stretch whose first iteration has `terms` and whose terms gain `growth` per iteration.

        Args:
            terms: the declared terms of the first iteration, float64 scalars.
            growth: what each gains from one iteration to the next.

        Returns:
            The affine piece. `first_s` must not depend on `growth`: one iteration priced alone and the first of a
            stretch take the same time to the last bit.
        """
