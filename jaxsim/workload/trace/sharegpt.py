"""Conversations in the format of ShareGPT."""

import math
from typing import Any

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.fields import TOKENS
from jaxsim.workload.trace.files import Content
from jaxsim.workload.trace.rows import Rows, rows_of
from jaxsim.workload.trace.table import Columns, Table

CHARACTERS_PER_TOKEN = 4


class ShareGpt(TraceFormat):
    """`[{"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}, ...]}, ...]`.

    As vLLM's benchmark does, the first message of a conversation is the prompt and the second the output. The file has
    texts, and jaxsim no tokenizer: lengths are estimated at 4 characters a token, and a notice says so. There are no
    arrivals: a scenario says when requests arrive (`arrivals`).
    """

    name = "sharegpt"
    required = {"prompt_tokens": TOKENS, "output_tokens": TOKENS}

    def table(self, content: Content) -> Table | None:
        name = next((n for n in ("conversations", "conversation") if content.table and n in content.table.columns), "")
        if content.table is None or not name:
            return None
        turns, places = content.table.columns[name], content.table.places
        kept = [row for row, of in enumerate(turns) if isinstance(of, list) and len(of) >= 2]
        columns = {column: [_tokens(turns[row][turn]) for row in kept] for turn, column in enumerate(self.required)}
        return Table(content.path, columns, [places[row] for row in kept])

    def rows(self, columns: Columns) -> Rows:
        how = f"at {CHARACTERS_PER_TOKEN} characters a token"
        notice = f"{columns.table.path}: lengths are estimated from the texts {how}"
        return rows_of(None, columns["prompt_tokens"], columns["output_tokens"], notices=(notice,))


def _tokens(turn: Any) -> str:
    text = (turn.get("value") or turn.get("content") or "") if isinstance(turn, dict) else ""
    return str(math.ceil(len(text) / CHARACTERS_PER_TOKEN))
