"""jaxsim's own trace format."""

import numpy as np

from jaxsim.workload.trace.base import MAX_TOKENS, Rows, Table, TraceFormat, read_integer, read_seconds


class JaxsimCsv(TraceFormat):
    """`arrival_s,prompt_tokens,output_tokens`, and optionally id, class, priority, session, prefix_ids, output_ids.

    `arrival_s` counts seconds from the start of the run and need not begin at 0. `id`, `class` and `session` are text
    (ids differ from each other), `priority` is a whole number; token ids are whole numbers separated by spaces, checked
    but not otherwise used as long as no model of prefixes needs them.
    """

    name = "jaxsim_csv"
    required = ("arrival_s", "prompt_tokens", "output_tokens")
    optional = ("id", "class", "priority", "session", "prefix_ids", "output_ids")

    def rows(self, table: Table) -> Rows:
        count = len(table.lines)
        priority = np.zeros(count, np.int32)
        if "priority" in table.columns:
            must = f"a whole number from -{MAX_TOKENS} to {MAX_TOKENS}"
            priority = np.array(table.numbers("priority", read_integer, must), np.int32)
        names = table.columns.get("class", ())
        index = {name: place for place, name in enumerate(dict.fromkeys(names))}
        for column in ("prefix_ids", "output_ids"):
            if column in table.columns:
                table.numbers(column, _read_token_ids, "whole numbers separated by spaces")
        return Rows(
            arrival_s=np.array(table.numbers("arrival_s", read_seconds, "a finite number of seconds, 0 or greater")),
            prompt_tokens=table.tokens("prompt_tokens"),
            output_tokens=table.tokens("output_tokens"),
            priority=priority,
            class_index=np.array([index[name] for name in names] or [0] * count, np.int32),
            class_names=tuple(index),
            id=_ids(table),
            session=table.columns.get("session"),
        )


def _read_token_ids(text: str) -> None:
    for token_id in text.split():
        int(token_id)


def _ids(table: Table) -> tuple[str, ...] | None:
    ids = table.columns.get("id")
    if ids is not None and len(set(ids)) < len(ids):
        first: dict[str, int] = {}
        for row, text in enumerate(ids):
            if first.setdefault(text, row) != row:
                raise table.error(row, "id", f"unlike that of row {first[text] + 1}: ids must differ")
    return ids
