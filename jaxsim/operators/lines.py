"""Numbers that grow by the same amount from iteration to iteration, and piecewise what is built from them.

Along a stretch of iterations only contexts grow. Everything an operator's time is made of is a sum, a multiple, a
maximum or a minimum of such numbers, and so a straight line up to the iteration in which a maximum changes hands. A
`Line` says which straight line, and for how many iterations. The same formulas run on plain numbers, on NumPy arrays of
many batches, and traced by JAX.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim._arrays import rounded

Number = Any
"""A float, a NumPy array or a JAX array."""


@dataclass(frozen=True)
class Line:
    """A quantity that is `first + j * growth` in iteration j, for `j < iterations`.

    A growth that is the Python number 0.0 is known to be zero when the program is built, and costs nothing.
    """

    first: Number
    growth: Number = 0.0
    iterations: Number = math.inf

    def __add__(self, other: "Line") -> "Line":
        """The sum."""
        grows = other.growth if _is_zero(self.growth) else self.growth
        if not (_is_zero(self.growth) or _is_zero(other.growth)):
            grows = self.growth + other.growth
        return Line(self.first + other.first, grows, _sooner(self.iterations, other.iterations))

    def __mul__(self, factor: Number) -> "Line":
        """The multiple by a factor, zero or greater, that does not grow."""
        grows = 0.0 if _is_zero(self.growth) else self.growth * factor
        return Line(product(self.first, factor), grows, self.iterations)


def product(a: Number, b: Number) -> Number:
    """`a * b` of numbers that are not negative, rounded before anything is added to it."""
    return rounded(a * b) if isinstance(a, jax.Array) or isinstance(b, jax.Array) else a * b


def larger(a: Line, b: Line) -> Line:
    """The maximum, which is the larger one's line until the other overtakes it."""
    return _winner(a, b, 1.0)


def smaller(a: Line, b: Line) -> Line:
    """The minimum, which is the smaller one's line until it overtakes the other."""
    return _winner(a, b, -1.0)


def _winner(a: Line, b: Line, sign: float) -> Line:
    xp = module_of(a.first, b.first)
    best = xp.maximum if sign > 0 else xp.minimum
    soonest = _sooner(a.iterations, b.iterations)
    if _is_zero(a.growth) and _is_zero(b.growth):
        return Line(best(a.first, b.first), 0.0, soonest)
    lead, gain = sign * (a.first - b.first), sign * (a.growth - b.growth)
    a_wins = (lead > 0) | ((lead == 0) & (gain >= 0))
    closing = xp.where(a_wins, -gain, gain)  # how much nearer the loser comes per iteration
    holds = xp.where(closing > 0, xp.floor(abs(lead) / xp.where(closing > 0, closing, 1.0)) + 1.0, xp.inf)
    return Line(best(a.first, b.first), xp.where(a_wins, a.growth, b.growth), _sooner(soonest, holds))


def _sooner(a: Number, b: Number) -> Number:
    if isinstance(a, float) and a == math.inf:
        return b
    return a if isinstance(b, float) and b == math.inf else module_of(a, b).minimum(a, b)


def _is_zero(growth: Number) -> bool:
    return isinstance(growth, float) and growth == 0.0


def module_of(*numbers: Number) -> Any:
    """`jax.numpy` if one of the numbers is a JAX array, else `numpy`."""
    return jnp if any(isinstance(number, jax.Array) for number in numbers) else np
