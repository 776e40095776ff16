"""Rows of a file as columns of text, whatever kind of file it was."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxsim.workload.trace.errors import TraceError
from jaxsim.workload.trace.fields import REQUIRED, Field

_LONGEST = 60


@dataclass(frozen=True)
class Table:
    """Columns as the file has them: text, or (in JSON and Parquet) lists of texts; "" where there is nothing.

    Attributes:
        path: the file, for messages.
        columns: values by column name. Keys in sections of JSON are joined by dots: `info.input_tokens`.
        places: where each row is: the line in the file where it ends, from 1, or words such as `requests[3]`, or "".
    """

    path: str
    columns: Mapping[str, Sequence[Any]]
    places: Sequence[int | str]

    def error(self, row: int, column: str, must: str) -> TraceError:
        """The error about a value; `row` counts from 0, the message counts data rows from 1."""
        shown = repr(self.columns[column][row])
        shown = shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 4]}...{shown[-1]}"
        return TraceError(f"{self.path}: {self.where(row)}: {column} is {shown}; it must be {must}")

    def where(self, row: int) -> str:
        """`row 3 (line 4)`."""
        place = self.places[row]
        if place == "":
            return f"row {row + 1}"
        return f"row {row + 1} ({f'line {place}' if isinstance(place, int) else place})"


def table_of(path: str, records: Iterable[Mapping[str, Any]], places: Sequence[int | str]) -> Table:
    """A table of JSON objects, whose numbers were left as text."""
    flat: list[dict[str, Any]] = []
    for record in records:
        flat.append({})
        _flatten(record, "", flat[-1])
    names = dict.fromkeys(name for record in flat for name in record)
    return Table(path, {name: [record.get(name, "") for record in flat] for name in names}, places)


def _flatten(section: Mapping[str, Any], prefix: str, into: dict[str, Any]) -> None:
    for key, value in section.items():
        if isinstance(value, Mapping):
            _flatten(value, f"{prefix}{key}.", into)
        else:
            into[f"{prefix}{key}"] = as_text(value)


def as_text(value: Any) -> Any:
    """A value of JSON as a table holds it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value


@dataclass(frozen=True)
class Columns:
    """The rows of a table that are valid, read.

    Attributes:
        table: what was read.
        values: values by column name, for the columns that the format knows.
        rows: the row of the table, from 0, that each value is of.
        skipped: why rows were left out, in the words of the error that would have been raised.
    """

    table: Table
    values: Mapping[str, list[Any]]
    rows: Sequence[int]
    skipped: tuple[str, ...] = ()

    def __getitem__(self, column: str) -> list[Any]:
        return self.values[column]

    def get(self, column: str) -> list[Any] | None:
        """The values of a column; None if the table does not have it."""
        return self.values.get(column)

    def __contains__(self, column: str) -> bool:
        return column in self.values

    def __len__(self) -> int:
        return len(self.rows)

    def error(self, index: int, column: str, must: str) -> TraceError:
        """The error about the value at `index`."""
        return self.table.error(self.rows[index], column, must)


def read_columns(table: Table, fields: Mapping[str, Field], skip_invalid: bool) -> Columns:
    """Read the columns of `fields` that the table has.

    Raises:
        TraceError: a value is not valid and `skip_invalid` is false, or no row is valid.
    """
    count = len(table.places)
    invalid: dict[int, TraceError] = {}
    values: dict[str, list[Any]] = {}
    for column, field in fields.items():
        if column not in table.columns:
            continue
        texts = table.columns[column]
        try:
            if field.read_all is not None:
                values[column] = field.read_all(texts).tolist()
                continue
        except (ValueError, OverflowError):
            pass  # one value at a time will tell which
        values[column] = []
        for row, text in enumerate(texts):
            try:
                empty = field.default is not REQUIRED and (text == "" or text is None)
                values[column].append(field.default if empty else field.read(text))
            except (ValueError, TypeError):
                error = table.error(row, column, field.must)
                if not skip_invalid:
                    raise TraceError(f"{error}; on_invalid: skip leaves such rows out") from None
                values[column].append(None)
                invalid.setdefault(row, error)
    if len(invalid) == count:
        first = str(invalid[0]).removeprefix(f"{table.path}: ")
        raise TraceError(f"{table.path}: none of the {count:,} rows is valid; the first: {first}")
    rows: Sequence[int] = range(count)
    if invalid:
        rows = [row for row in rows if row not in invalid]
        values = {column: [of[row] for row in rows] for column, of in values.items()}
    return Columns(table, values, rows, tuple(str(error) for _, error in sorted(invalid.items())))
