"""Tables of any kind, such as access logs: the scenario says which column is what."""

import dataclasses
import difflib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.errors import TraceError
from jaxsim.workload.trace.fields import INTEGER, TEXT, TOKENS, UNITS_NS, Field, count_of, or_none, time_in
from jaxsim.workload.trace.files import Content
from jaxsim.workload.trace.rows import Rows, classes_of, measured_rows, since
from jaxsim.workload.trace.table import Columns, Table

_TOKENS = ("prompt_tokens", "output_tokens")
_OTHERS = {"id": TEXT, "class": TEXT, "session": TEXT, "priority": INTEGER}
_STAMPS = ("arrival", "queued", "first_token", "finish")
_DURATIONS = ("ttft", "e2e")
_TIMED = re.compile(rf"({'|'.join((*_STAMPS, *_DURATIONS))})_({'|'.join(UNITS_NS)})")


def check_columns(columns: Mapping[str, str]) -> None:
    """A ValueError unless `columns` says where token counts are, and knows only names that a request has."""
    for name in columns:
        if name not in (*_TOKENS, *_OTHERS) and not _TIMED.fullmatch(name):
            units = "|".join(UNITS_NS)
            valid = [f"{stamp}_{{{units}}}" for stamp in (*_STAMPS, *_DURATIONS)]
            raise ValueError(f"columns.{name} must be one of {', '.join((*_TOKENS, *_OTHERS, *valid))}")
    for name in _TOKENS:
        if name not in columns:
            raise ValueError(f"columns.{name} must be given: the column that holds it")


class MappedColumns(TraceFormat):
    """Any CSV, JSON, JSON Lines or Parquet table, read as `columns` says, such as
    `{arrival_s: time, prompt_tokens: usage.prompt, output_tokens: usage.completion}`.

    Names on the left are `prompt_tokens`, `output_tokens`, `id`, `class`, `session`, `priority`; times end in their
    unit (`arrival_ms`) and may instead be times of day, with a zone or in UTC: `arrival`, `queued`, `first_token`,
    `finish`, and the durations `ttft` and `e2e`. Names on the right are the file's columns; sections of JSON are joined
    by dots.

    Args:
        columns: as checked by `check_columns`.
    """

    name = "columns"
    required = {}

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self.optional = {name: self._field(name) for name in columns}

    def _field(self, name: str) -> Field:
        timed = _TIMED.fullmatch(name)
        if not timed:
            return TOKENS if name in _TOKENS else _OTHERS[name]
        field = count_of(timed[2]) if timed[1] in _DURATIONS else time_in(timed[2])
        return field if timed[1] == "arrival" else or_none(field)

    def table(self, content: Content) -> Table:
        if content.table is None:
            raise TraceError(f"{content.path}: columns needs a table, not a single JSON document")
        for name, column in self._columns.items():
            if column not in content.table.columns:
                near = difflib.get_close_matches(column, content.table.columns, n=1)
                advice = f"did you mean {near[0]}? " if near else ""
                listed = ", ".join(list(content.table.columns)[:30])
                raise TraceError(f"{content.path}: no column {column!r} ({name}); {advice}the file has {listed}")
        columns = {name: content.table.columns[column] for name, column in self._columns.items()}
        return dataclasses.replace(content.table, columns=columns)

    def rows(self, columns: Columns) -> Rows:
        given = {name.rpartition("_")[0]: columns[name] for name in columns.values if _TIMED.fullmatch(name)}
        start = given.get("arrival")
        starts = start if start is not None else [0] * len(columns)
        more: dict[str, Any] = {
            "ttft_ns": given.get("ttft") or since(starts, given.get("first_token")),
            "e2e_ns": given.get("e2e") or since(starts, given.get("finish")),
            "queued_ns": since(starts, given.get("queued")),
        }
        for name in ("id", "session"):
            if name in columns:
                more[name] = tuple(map(str, columns.table.columns[name]))
        if "priority" in columns:
            more["priority"] = np.array(columns["priority"], np.int32)
        if "class" in columns:
            more |= classes_of(columns["class"])
        return measured_rows(columns["prompt_tokens"], columns["output_tokens"], start_ns=start, **more)
