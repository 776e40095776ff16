"""Small CSV files of numbers, with errors that name file, row, line and column."""

import csv
import io
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np


class CsvError(ValueError):
    """A file that cannot be used; the message names it, the row and column at fault, and what is valid."""


@dataclass(frozen=True)
class Csv:
    """A CSV file as text. Lines that begin with `#` and blank lines are comments.

    Attributes:
        path: the file, for messages.
        columns: fields by column name.
        lines: line in the file of each row, from 1.
    """

    path: str
    columns: dict[str, list[str]]
    lines: list[int]

    def __len__(self) -> int:
        return len(self.lines)

    def fail(self, row: int, problem: str) -> NoReturn:
        """Raise the error about a row; `row` counts from 0, the message counts rows from 1."""
        raise CsvError(f"{self.path}: row {row + 1} (line {self.lines[row]}): {problem}")

    def numbers(self, column: str, holds: Callable[[float], bool], must: str) -> np.ndarray:
        """A column as float64 `[M]`, whose numbers are finite and satisfy `holds`, which says what they `must` be."""
        values = np.empty(len(self))
        for row, text in enumerate(self.columns[column]):
            try:
                values[row] = float(text)
            except ValueError:
                values[row] = math.nan
            if not (math.isfinite(values[row]) and holds(values[row])):
                self.fail(row, f"{column} is {text!r}; it must be {must}")
        return values

    def counts(self, column: str) -> np.ndarray:
        """A column of numbers that are 0 or greater."""
        return self.numbers(column, lambda value: value >= 0, "a number, 0 or greater")

    def seconds(self, column: str, unit_s: float = 1.0) -> np.ndarray:
        """A column of times that are greater than 0, in units of `unit_s` seconds, as seconds."""
        return self.numbers(column, lambda value: value > 0, "a number greater than 0") * unit_s

    def check_unique(self, columns: Iterable[Iterable[object]]) -> None:
        """Raise CsvError unless no row has the same values in all of these columns (as read) as an earlier one."""
        seen: dict[tuple[object, ...], int] = {}
        for row, point in enumerate(zip(*columns, strict=True)):
            if point in seen:
                self.fail(row, f"is the same point as row {seen[point] + 1}; each must appear once")
            seen[point] = row

    def require(self, required: Iterable[str]) -> None:
        """Raise CsvError unless the file has these columns."""
        missing = [column for column in required if column not in self.columns]
        if missing:
            plural = "s" if len(missing) > 1 else ""
            have = ",".join(self.columns)
            raise CsvError(f"{self.path}: missing column{plural} {', '.join(missing)}; the header is {have}")


def read_csv(path: str | Path) -> Csv:
    """Read a file with a header and at least one row. Takes a byte order mark and CRLF.

    Raises:
        CsvError: it cannot be read, is empty, or a row has another number of fields than the header.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CsvError(f"{path}: {(error.strerror or str(error)).lower()}; it must be a readable CSV file") from None
    except UnicodeDecodeError:
        raise CsvError(f"{path}: is not text in UTF-8; it must be a CSV file") from None
    header: list[str] = []
    records, lines = [], []
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for record in reader:
            if not "".join(record).strip() or record[0].startswith("#"):
                continue
            if not header:
                header = [name.strip() for name in record]
            elif len(record) == len(header):
                records.append(record)
                lines.append(reader.line_num)
            else:
                place = f"row {len(records) + 1} (line {reader.line_num})"
                raise CsvError(
                    f"{path}: {place} has {len(record)} fields; it must have {len(header)}, as the header: "
                    f"{','.join(header)}"
                )
    except csv.Error as error:
        raise CsvError(f"{path}: line {reader.line_num}: {error}; it must be a CSV file") from None
    if not records:
        raise CsvError(f"{path}: is empty; it must have a header and at least one row")
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise CsvError(f"{path}: line 1: column {twice!r} appears twice; each column must appear once")
    return Csv(str(path), dict(zip(header, map(list, zip(*records, strict=True)), strict=True)), lines)
