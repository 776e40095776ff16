"""jaxsim's own trace format."""

import csv
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

import numpy as np

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.fields import INTEGER, SECONDS, SECONDS_OR_NONE, TEXT, TOKENS, Field
from jaxsim.workload.trace.rows import Measured, Rows, classes_of, rows_of
from jaxsim.workload.trace.table import Columns


def _read_token_ids(text: str) -> tuple[str, ...]:
    ids = text.split()
    for token_id in ids:
        int(token_id)
    return tuple(ids)


_TOKEN_IDS = Field(_read_token_ids, "whole numbers separated by spaces", ())


class JaxsimCsv(TraceFormat):
    """`arrival_s,prompt_tokens,output_tokens`, and optionally id, class, priority, session, prefix_ids, output_ids.

    `arrival_s` counts seconds from the start of the run and need not begin at 0. `id`, `class` and `session` are text
    (ids differ from each other), `priority` is a whole number; token ids are whole numbers separated by spaces, checked
    but not otherwise used as long as no model of prefixes needs them. Measured requests also say when the engine took
    them in (`queued_s`) and when tokens arrived (`first_token_s`, `finish_s`), which `jaxsim validate` compares. So the
    `requests.csv` of a `jaxsim run` with one seed is a trace, too.
    """

    name = "jaxsim_csv"
    required = {"arrival_s": SECONDS, "prompt_tokens": TOKENS, "output_tokens": TOKENS}
    optional = {
        "id": TEXT,
        "class": TEXT,
        "priority": INTEGER,
        "session": TEXT,
        "prefix_ids": _TOKEN_IDS,
        "output_ids": _TOKEN_IDS,
        "queued_s": SECONDS_OR_NONE,
        "first_token_s": SECONDS_OR_NONE,
        "finish_s": SECONDS_OR_NONE,
        "seed": INTEGER,
    }
    ignored = (
        *("request", "first_scheduled_s", "instance", "decode_instance", "preemptions", "cached_tokens", "status"),
        "class_index",
    )

    def rows(self, columns: Columns) -> Rows:
        _check_ids(columns)
        _check_one_seed(columns)
        table = columns.table.columns
        more: dict[str, Any] = {}
        if "priority" in columns:
            more["priority"] = np.array(columns["priority"], np.int32)
        if "finish_s" in columns:
            none = [np.nan] * len(columns)
            stamps = [columns[name] if name in columns else none for name in ("queued_s", "first_token_s", "finish_s")]
            queued, first, finish = (np.array(stamp, np.float64) for stamp in stamps)
            more["measured"] = Measured(queued, first, finish)
        return rows_of(
            np.array(columns["arrival_s"]),
            columns["prompt_tokens"],
            columns["output_tokens"],
            id=tuple(table["id"]) if "id" in columns else None,
            session=tuple(table["session"]) if "session" in columns else None,
            **(classes_of(columns["class"]) if "class" in columns else {}),
            **more,
        )


def _check_ids(columns: Columns) -> None:
    first: dict[str, int] = {}
    for index, text in enumerate(columns["id"] if "id" in columns else ()):
        if first.setdefault(text, index) != index:
            other = columns.table.where(columns.rows[first[text]]).partition(" (")[0]
            raise columns.error(index, "id", f"unlike that of {other}: ids must differ")


def _check_one_seed(columns: Columns) -> None:
    """The requests of a `jaxsim run` are a trace too, but only those of one seed."""
    seeds = columns.get("seed") or [0]
    other = next((index for index, seed in enumerate(seeds) if seed != seeds[0]), None)
    if other is not None:
        raise columns.error(other, "seed", f"{seeds[0]}, as in the rows before: a trace is one run")


def write(rows: Rows, file: TextIO) -> None:
    """Write requests in this format; times are the shortest text that reads back as the same float64.

    Args:
        rows: with arrivals.
        file: open for text, with `newline=""`.
    """
    if rows.arrival_s is None:
        raise ValueError("a trace in jaxsim's format needs arrivals")
    columns: dict[str, Iterable[Any]] = {
        "arrival_s": map(repr, rows.arrival_s.tolist()),
        "prompt_tokens": rows.prompt_tokens.tolist(),
        "output_tokens": rows.output_tokens.tolist(),
    }
    if rows.id is not None:
        columns["id"] = [rows.id[row] for row in rows.row]
    if rows.class_names:
        columns["class"] = [rows.class_names[index] for index in rows.class_index]
    if rows.priority.any():
        columns["priority"] = rows.priority.tolist()
    if rows.session is not None:
        columns["session"] = [rows.session[row] for row in rows.row]
    if rows.measured is not None:
        for name in ("queued_s", "first_token_s", "finish_s"):
            stamps = getattr(rows.measured, name)
            if not np.isnan(stamps).all():
                columns[name] = ["" if np.isnan(stamp) else repr(float(stamp)) for stamp in stamps]
    _write(columns, file)


def write_lengths(rows: Rows, file: TextIO) -> None:
    """Write only the lengths of requests, which `lengths: {kind: pairs}` resamples."""
    names = ("prompt_tokens", "output_tokens")
    _write({name: getattr(rows, name).tolist() for name in names}, file)


def _write(columns: Mapping[str, Iterable[Any]], file: TextIO) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
