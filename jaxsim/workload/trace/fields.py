"""What a column of a trace may hold, and how it is read."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import numpy as np

MAX_TOKENS = 2**31 - 1

UNITS_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Nanoseconds in the units that names of columns end in."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?\s?(Z|UTC|[+-]\d\d:?\d\d)?")
_CLF = re.compile(r"\[?(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d) ([+-]\d{4})\]?")


REQUIRED: Any = object()


class Field(NamedTuple):
    """The values of one column.

    Attributes:
        read: one value from what the file has: text, or a list of texts; raises ValueError for what is not `must`.
        must: what it must be, for messages.
        default: the value where the file has nothing; `REQUIRED`: there must be something.
        read_all: a whole column at once, or a ValueError if a value of it needs `read`; for speed.
    """

    read: Callable[[Any], Any]
    must: str
    default: Any = REQUIRED
    read_all: Callable[[Sequence[Any]], np.ndarray] | None = None


def read_seconds(text: str) -> float:
    """A finite number of seconds, 0 or greater; else ValueError."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(text)
    return value


def read_integer(text: str) -> int:
    """A whole number that fits int32; else ValueError. `7.0` is one."""
    try:
        value = int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():  # false for nan and infinity
            raise
        value = int(number)
    if abs(value) > MAX_TOKENS:
        raise ValueError(text)
    return value


def read_tokens(text: str) -> int:
    """A whole number from 1 to `MAX_TOKENS`; else ValueError."""
    value = read_integer(text)
    if value < 1:
        raise ValueError(text)
    return value


def read_time(text: str) -> int:
    """Nanoseconds since 1970 of a time of day, in UTC if no zone is named; else ValueError.

    It is a whole number, as float64 seconds resolve only 0.24 microseconds.
    """
    if common := _CLF.fullmatch(text.strip()):
        time = datetime.strptime(f"{common[1]} {common[2]}", "%d/%b/%Y:%H:%M:%S %z")
        return (time - _EPOCH) // timedelta(seconds=1) * 10**9
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    second, fraction, zone = match.groups()
    time = datetime.fromisoformat(second + (zone or "Z").replace("UTC", "Z"))
    return (time - _EPOCH) // timedelta(seconds=1) * 10**9 + int((fraction or "0").ljust(9, "0"))


def _read_count(text: str, unit_ns: int) -> int:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None
    if not (value.is_finite() and 0 <= value < 10**20):
        raise ValueError(text)
    return int((value * unit_ns).to_integral_value())


def or_none(field: Field) -> Field:
    """The same, but None where the file has nothing."""
    return field._replace(default=None)


def count_of(unit: str) -> Field:
    """A time or duration as a number of `unit`, read as whole nanoseconds."""
    return Field(lambda text: _read_count(text, UNITS_NS[unit]), f"a finite number of {unit}, 0 or greater")


def time_in(unit: str) -> Field:
    """A time of day, or a number of `unit` (since 1970 or any other start), read as whole nanoseconds."""

    def read(text: str) -> int:
        try:
            return _read_count(text, UNITS_NS[unit])
        except ValueError:
            return read_time(text)

    return Field(read, f"a number of {unit}, 0 or greater, or a time such as 2024-05-10T18:15:46.68+02:00")


def _read_failure(text: Any) -> None:
    if text not in ("", "null", "None", "0", "false", "False", []):
        raise ValueError(text)


def _all_tokens(texts: Sequence[Any]) -> np.ndarray:
    values = np.array(texts, np.str_).astype(np.int64)
    if not np.all((values >= 1) & (values <= MAX_TOKENS)):
        raise ValueError
    return values


def _all_seconds(texts: Sequence[Any]) -> np.ndarray:
    values = np.array(texts, np.str_).astype(np.float64)
    if not np.all((values >= 0) & (values < np.inf)):
        raise ValueError
    return values


TEXT = Field(str, "text", "")
TOKENS = Field(read_tokens, f"a whole number from 1 to {MAX_TOKENS}", read_all=_all_tokens)
INTEGER = Field(read_integer, f"a whole number from -{MAX_TOKENS} to {MAX_TOKENS}", 0)
SECONDS = Field(read_seconds, "a finite number of seconds, 0 or greater", read_all=_all_seconds)
SECONDS_OR_NONE = SECONDS._replace(default=math.nan)
TIME = Field(
    read_time,
    "a time such as 2023-11-16 18:15:46.6805900 (up to 9 digits of a second, optionally a zone such as +00:00)",
)
NO_FAILURE = Field(_read_failure, "empty: the request failed", False)
"""A column that says what went wrong with a request."""
