"""The format of the Mooncake traces."""

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.fields import TEXT, TOKENS, Field, count_of
from jaxsim.workload.trace.rows import Rows, rows_of, seconds_since
from jaxsim.workload.trace.table import Columns

BLOCK_TOKENS = 512


def _read_blocks(value: list[str]) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(value)
    return tuple(map(str, value))


class Mooncake(TraceFormat):
    """JSON Lines of `timestamp` (ms), `input_length`, `output_length` and `hash_ids`.

    Each hash id names a block of 512 tokens of the prompt together with all text before it: requests that begin with
    the same ids share a prefix. The published traces (https://github.com/kvcache-ai/Mooncake, FAST25-release) have time
    stamps on ticks of 3 s; `spread_ticks` spreads them. Also what Dynamo and AIPerf write and replay.
    """

    name = "mooncake"
    required = {"timestamp": count_of("ms"), "input_length": TOKENS, "output_length": TOKENS}
    optional = {"hash_ids": Field(_read_blocks, "a list of block ids", ()), "session_id": TEXT}

    def rows(self, columns: Columns) -> Rows:
        more = {}
        if "hash_ids" in columns:
            more = {"prefix_blocks": tuple(columns["hash_ids"]), "prefix_block_tokens": BLOCK_TOKENS}
        return rows_of(
            seconds_since(0, columns["timestamp"]),
            columns["input_length"],
            columns["output_length"],
            session=tuple(columns.table.columns["session_id"]) if "session_id" in columns else None,
            **more,
        )
