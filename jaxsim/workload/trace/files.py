"""What a trace file holds: a table (CSV, JSON Lines, Parquet), or a JSON document."""

import csv
import gzip
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxsim.workload.trace.errors import TraceError
from jaxsim.workload.trace.table import Table, as_text, table_of

_KINDS = "a trace is a CSV file with a header, JSON, JSON Lines or Parquet"


@dataclass(frozen=True)
class Content:
    """A file, read but not yet understood.

    Attributes:
        path: the file.
        table: its rows, if it is a table (a list of JSON objects is one).
        document: what it says, if it is JSON; numbers are left as text.
    """

    path: str
    table: Table | None
    document: Any = None


def read_content(path: str) -> Content:
    """Read a file; what kind of file it is, is seen from its first bytes. It may be compressed by gzip.

    Raises:
        TraceError: the file cannot be read, or is not what its first bytes promise.
    """
    try:
        data = Path(path).read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except gzip.BadGzipFile as error:
        raise TraceError(f"{path}: not a whole gzip file: {error}") from None
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"{path}: {reason}; path must name a readable trace file") from None
    if data[:4] == b"PAR1":
        return Content(path, _parquet(path, data))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TraceError(f"{path}: not UTF-8 text; {_KINDS}") from None
    return _json(path, text) if text.lstrip()[:1] in ("{", "[") else Content(path, _csv(path, text))


def _csv(path: str, text: str) -> Table:
    """Takes CRLF, blank lines and a missing last newline."""
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
        raise TraceError(f"{path}: line {reader.line_num}: {error}; {_KINDS}") from None
    if not header:
        raise TraceError(f"{path}: the trace is empty; it must have a header and at least one row")
    twice = next((column for column in header if column and header.count(column) > 1), None)
    if twice is not None:
        raise TraceError(f"{path}: line 1: column {twice!r} appears twice; each column must appear once")
    _check_widths(path, header, records, lines)
    columns = zip(*records, strict=True) if records else ((),) * len(header)
    return Table(path, dict(zip(header, columns, strict=True)), lines)


def _check_widths(path: str, header: list[str], records: list[list[str]], lines: list[int]) -> None:
    for row, record in enumerate(records):
        if len(record) != len(header):
            raise TraceError(
                f"{path}: row {row + 1} (line {lines[row]}) has {len(record)} fields; it must have {len(header)}, "
                f"as the header: {','.join(header)}"
            )


def _json(path: str, text: str) -> Content:
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if len(lines) > 1 and _is_json(lines[0][1]):
        records = [_parsed(path, line, number) for number, line in lines]
        return Content(path, _table(path, records, [number for number, _ in lines]))
    document = _parsed(path, text)
    if isinstance(document, dict):
        return Content(path, _table(path, [document], [lines[0][0]]), document)
    is_table = bool(document) and all(isinstance(record, dict) for record in document)
    places = [f"[{index}]" for index in range(len(document))]
    return Content(path, _table(path, document, places) if is_table else None, document)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _parsed(path: str, text: str, line: int | None = None) -> Any:
    try:
        return json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except json.JSONDecodeError as error:
        raise TraceError(f"{path}: line {line or error.lineno}: not valid JSON: {error.msg}; {_KINDS}") from None
    except RecursionError:
        raise TraceError(f"{path}: nested too deeply; {_KINDS}") from None


def _table(path: str, records: list[Any], places: Sequence[int | str]) -> Table:
    for record, place in zip(records, places, strict=True):
        if not isinstance(record, dict):
            where = f"line {place}" if isinstance(place, int) else place
            raise TraceError(f"{path}: {where}: must be a JSON object, not {str(record)[:40]!r}")
    return table_of(path, records, places)


def _parquet(path: str, data: bytes) -> Table:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise TraceError(f"{path}: Parquet needs pyarrow: pip install 'jaxsim-serving[tables]'") from None
    try:
        read = parquet.read_table(io.BytesIO(data))
    except pyarrow.ArrowException as error:
        raise TraceError(f"{path}: not a readable Parquet file: {str(error).splitlines()[0]}") from None
    while any(pyarrow.types.is_struct(field.type) for field in read.schema):
        read = read.flatten()  # sections become columns, joined by dots
    columns = {}
    for name, column in zip(read.column_names, read.columns, strict=True):
        nested = pyarrow.types.is_nested(column.type)
        items = column.to_pylist() if nested else column.cast(pyarrow.string()).to_pylist()
        columns[name] = [_texts(item) if nested else as_text(item) for item in items]
    return Table(path, columns, [""] * read.num_rows)


def _texts(value: Any) -> Any:
    """Numbers in a nested value as text."""
    if isinstance(value, (list, tuple)):
        return [_texts(item) for item in value]
    return as_text(value) if value is None or isinstance(value, bool) else str(value)
