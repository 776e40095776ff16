"""What a trace format is, and reading of its numbers with errors that name file, row, line and column."""

import abc
import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MAX_TOKENS = 2**31 - 1


class TraceError(ValueError):
    """A trace that cannot be used; the message names the file, the row and column at fault, and what is valid."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The requests of a trace file, in the order of the file.

    Attributes:
        arrival_s: float64 `[M]`, seconds, 0 or greater.
        prompt_tokens: int32 `[M]`, 1 or greater.
        output_tokens: int32 `[M]`, 1 or greater.
        priority: int32 `[M]`.
        class_index: int32 `[M]`, place in `class_names`.
        class_names: in order of first appearance.
        id: text ids, if the file has them.
        session: text session names, if the file has them.
        notices: sentences for the user.
    """

    arrival_s: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    priority: np.ndarray
    class_index: np.ndarray
    class_names: tuple[str, ...] = ()
    id: tuple[str, ...] | None = None
    session: tuple[str, ...] | None = None
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A CSV file as text: one tuple of fields per column.

    Attributes:
        path: the file, for messages.
        columns: fields by column name.
        lines: line in the file where each row ends, from 1.
    """

    path: str
    columns: dict[str, tuple[str, ...]]
    lines: Sequence[int]

    def error(self, row: int, column: str, must: str) -> TraceError:
        """The error about a field; `row` counts from 0, the message counts data rows from 1."""
        place = f"row {row + 1} (line {self.lines[row]})"
        return TraceError(f"{self.path}: {place}: {column} is {self.columns[column][row]!r}; it must be {must}")

    def numbers(self, column: str, read: Callable[[str], Any], must: str) -> list[Any]:
        """Every field of a column through `read`, which raises ValueError for what is not `must`."""
        values = []
        for row, text in enumerate(self.columns[column]):
            try:
                values.append(read(text))
            except ValueError:
                raise self.error(row, column, must) from None
        return values

    def tokens(self, column: str) -> np.ndarray:
        """A column of token counts, int32 `[M]`."""
        return np.array(self.numbers(column, _read_tokens, f"a whole number from 1 to {MAX_TOKENS}"), np.int32)


class TraceFormat(abc.ABC):
    """One trace format: one file with one class of this kind, and one line in this folder's `__init__`.

    Attributes:
        name: what `format:` in a scenario says.
        required: columns that must be there.
        optional: columns that may be there.
    """

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...]

    @abc.abstractmethod
    def rows(self, table: Table) -> Rows:
        """The requests. Raises TraceError for a field that is not valid."""


def read(path: str, formats: Sequence[TraceFormat]) -> Rows:
    """Read a trace in the first of `formats` whose required columns are all in the header.

    Raises:
        TraceError: the file cannot be read, has no header, no rows, or a field that is not valid.
    """
    header, records, lines = _records(path)
    fitting = [form for form in formats if set(form.required) <= set(header)]
    if not fitting:
        raise TraceError(_no_format(path, header, formats))
    form = fitting[0]
    if not records:
        raise TraceError(f"{path}: the trace is empty: it has a header (line 1) but no rows; it must have at least one")
    for row, record in enumerate(records):
        if len(record) != len(header):
            raise TraceError(
                f"{path}: row {row + 1} (line {lines[row]}) has {len(record)} fields; it must have {len(header)}, "
                f"as the header: {','.join(header)}"
            )
    table = Table(path, dict(zip(header, zip(*records, strict=True), strict=True)), lines)
    rows = form.rows(table)
    unknown = [column for column in header if column not in form.required + form.optional]
    if not unknown:
        return rows
    notice = f"{path}: columns that a {form.name} trace does not have were ignored: {', '.join(unknown)}"
    return Rows(**{**vars(rows), "notices": (*rows.notices, notice)})


def _records(path: str) -> tuple[list[str], list[list[str]], list[int]]:
    """Header, records and their lines. Takes a byte order mark, CRLF, blank lines and a missing last newline."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}; path must name a readable trace file") from None
    except UnicodeDecodeError:
        raise TraceError(f"{path}: not UTF-8 text; a trace is a CSV file with a header") from None
    reader = csv.reader(io.StringIO(text, newline=""))
    header: list[str] = []
    records, lines = [], []
    try:
        for record in reader:
            if len(record) < 2 and not "".join(record).strip():
                continue  # a blank line
            if header:
                records.append(record)
                lines.append(reader.line_num)
            else:
                header = [column.strip() for column in record]
    except csv.Error as error:
        raise TraceError(f"{path}: line {reader.line_num}: {error}; a trace is a CSV file with a header") from None
    if not header:
        raise TraceError(f"{path}: the trace is empty; it must have a header and at least one row")
    twice = next((column for column in header if header.count(column) > 1), None)
    if twice is not None:
        raise TraceError(f"{path}: line 1: column {twice!r} appears twice; each column must appear once")
    return header, records, lines


def _no_format(path: str, header: list[str], formats: Sequence[TraceFormat]) -> str:
    """What is wrong with a header: the column missing from the nearest format, or that it resembles none."""
    nearest = max(formats, key=lambda form: len(set(form.required) & set(header)))
    missing = [column for column in nearest.required if column not in header]
    valid = "; ".join(
        f"{form.name} has {','.join(form.required)}"
        + (f" and optionally {','.join(form.optional)}" if form.optional else "")
        for form in formats
    )
    if len(missing) == len(nearest.required):
        return f"{path}: line 1: the header {','.join(header)!r} is of no known trace format; valid: {valid}"
    plural = "s" if len(missing) > 1 else ""
    return f"{path}: line 1: missing column{plural} {', '.join(missing)}; valid: {valid}"


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


def _read_tokens(text: str) -> int:
    value = read_integer(text)
    if value < 1:
        raise ValueError(text)
    return value
