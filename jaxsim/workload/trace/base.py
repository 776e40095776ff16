"""What a trace format is, and how a file finds its own."""

import abc
import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from jaxsim.workload.trace.errors import TraceError
from jaxsim.workload.trace.fields import Field
from jaxsim.workload.trace.files import Content, read_content
from jaxsim.workload.trace.rows import Rows
from jaxsim.workload.trace.table import Columns, Table, read_columns


class TraceFormat(abc.ABC):
    """One trace format: one file with one class of this kind, and one line in this folder's `__init__`.

    Attributes:
        name: what `format:` in a scenario says.
        required: columns that must be there.
        optional: columns that may be there.
        spellings: other names of columns, in older or newer versions of the format.
        ignored: columns that may be there and say nothing a simulation needs.
    """

    name: ClassVar[str]
    required: ClassVar[Mapping[str, Field]]
    optional: Mapping[str, Field] = types.MappingProxyType({})
    spellings: ClassVar[Mapping[str, Sequence[str]]] = {}
    ignored: ClassVar[Sequence[str]] = ()

    def table(self, content: Content) -> Table | None:
        """The requests as a table, under the names of `required` and `optional`; None: it is not of this format."""
        return content.table and self.respelled(content.table)

    def respelled(self, table: Table) -> Table | None:
        """The table with its columns under their usual names; None if one that is required is missing."""
        columns = dict(table.columns)
        for name, spellings in self.spellings.items():
            given = [spelling for spelling in spellings if spelling in columns]
            if name not in columns and given:
                columns[name] = columns.pop(given[0])
        return dataclasses.replace(table, columns=columns) if set(self.required) <= set(columns) else None

    @abc.abstractmethod
    def rows(self, columns: Columns) -> Rows:
        """The requests. Raises TraceError for a value that is not valid beside the others."""


def read(path: str, formats: Sequence[TraceFormat], on_invalid: str = "error") -> Rows:
    """Read a trace in the first of `formats` that it has.

    Args:
        path: the file.
        formats: the formats to try.
        on_invalid: what becomes of rows that are not valid: `error` raises, `skip` leaves them out with a notice.

    Raises:
        TraceError: the file cannot be read, is of none of the formats, has no rows, or one that is not valid.
    """
    content = read_content(path)
    found = next(((form, table) for form in formats if (table := form.table(content)) is not None), None)
    if found is None:
        raise TraceError(_no_format(content, formats))
    form, table = found
    if not table.places:
        at = "it has a header (line 1) but no rows" if table is content.table or content.document is None else "no rows"
        raise TraceError(f"{path}: the trace is empty: {at}; it must have at least one")
    known = {**form.optional, **form.required}  # those that say that a request failed come first
    columns = read_columns(table, known, skip_invalid=on_invalid == "skip")
    rows = form.rows(columns)
    unknown = [name for name in table.columns if name not in known and name not in form.ignored]
    notices = [*rows.notices]
    if columns.skipped:
        notices.append(
            f"{path}: {len(columns.skipped):,} of {len(table.places):,} rows are not valid and were left out "
            f"(on_invalid: skip); the first: {columns.skipped[0].removeprefix(f'{path}: ')}"
        )
    if unknown and content.document is None and not any("." in name for name in unknown):  # sections hold much else
        notices.append(f"{path}: columns that a {form.name} trace does not have were ignored: {', '.join(unknown)}")
    return dataclasses.replace(rows, row=np.array(columns.rows, np.int32)[rows.row], notices=tuple(notices))


def _no_format(content: Content, formats: Sequence[TraceFormat]) -> str:
    """What is wrong with a file: the column missing from the nearest format, or that it resembles none."""
    columns = [] if content.table is None else list(content.table.columns)
    nearest = max(formats, key=lambda form: len(set(form.required) & set(columns)))
    missing = [column for column in nearest.required if column not in columns]
    valid = "; ".join(
        f"{form.name} has {','.join(form.required)}"
        + (f" and optionally {','.join(form.optional)}" if form.optional else "")
        for form in formats
    )
    if len(missing) == len(nearest.required):
        seen = "the header" if content.document is None else "JSON with"
        shown = ",".join(columns) if len(columns) <= 12 else ",".join(columns[:12]) + ",..."
        return (
            f"{content.path}: line 1: {seen} {shown!r} is of no known trace format; valid: {valid}; of any other "
            "table, columns: {arrival_s: ..., prompt_tokens: ..., output_tokens: ...} says which column is what"
        )
    plural = "s" if len(missing) > 1 else ""
    if len(formats) > 1:
        valid = f"{nearest.name} has {','.join(nearest.required)}"
    return f"{content.path}: line 1: missing column{plural} {', '.join(missing)}; valid: {valid}"
