"""Numbers as people read them: few digits, fitting units."""

import math
from collections.abc import Sequence

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def time_unit(seconds: float | None) -> tuple[float, str]:
    """The unit in which a time is 1 or greater, as (seconds, name)."""
    size = abs(seconds or 1.0)
    return next((unit for unit in _UNITS if size >= unit[0]), _UNITS[-1])


def figure(value: float | None, digits: int = 4) -> str:
    """A number with that many digits, or all its whole ones; `-` for None."""
    if value is None:
        return "-"
    whole = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{min(max(digits - 1 - whole, 0), 9)}f}" if value else "0"


def span(interval: Sequence[float | None] | None, scale: float = 1.0) -> str:
    """`low–high` with the decimals that show its width as 4 to 40 units of the last; empty for None."""
    if interval is None or None in interval:
        return ""
    low, high = (end / scale for end in interval if end is not None)
    if not high > low:
        return f"{figure(low)}–{figure(high)}"
    decimals = min(max(-math.floor(math.log10((high - low) / 4)), 0), 9)
    return f"{low:,.{decimals}f}–{high:,.{decimals}f}"


def percent(share: float | None, interval: Sequence[float | None] | None = None) -> str:
    """`98.6 % (98.1–99.0)`."""
    if share is None:
        return "-"
    return f"{figure(share * 100)} %" + bracketed(span(interval, 0.01))


def bracketed(text: str) -> str:
    """The text in brackets after a space, if there is any."""
    return f" ({text})" if text else ""
