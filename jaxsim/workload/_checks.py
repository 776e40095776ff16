"""Checks of component fields that hold several numbers."""

import math
from typing import Any


def check_numbers(owner: Any, field: str, *, zero: bool) -> None:
    """The field is a non-empty list of finite numbers greater than 0 (or 0 too if `zero`); it is stored as a tuple.

    Like the checks of `jaxsim._component`, this passes values that are not plain numbers.
    """
    values = tuple(getattr(owner, field))
    object.__setattr__(owner, field, values)
    if not values:
        raise ValueError(f"{field} must have at least one number")
    for place, value in enumerate(values):
        if isinstance(value, (int, float)) and not (0 < value < math.inf or (zero and value == 0)):
            must = "0 or greater" if zero else "greater than 0"
            raise ValueError(f"{field}[{place}] must be a finite number, {must}, not {value!r}")


def plain(*values: Any) -> bool:
    """Whether all values are plain numbers, so that they can be compared before tracing."""
    return all(isinstance(value, (int, float)) for value in values)
