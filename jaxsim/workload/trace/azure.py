"""The format of the Azure LLM inference traces."""

import re
from datetime import UTC, datetime, timedelta

import numpy as np

from jaxsim.workload.trace.base import Rows, Table, TraceFormat

_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")
_MUST = "a time such as 2023-11-16 18:15:46.6805900 (up to 9 digits of a second, optionally a zone such as +00:00)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Azure(TraceFormat):
    """`TIMESTAMP,ContextTokens,GeneratedTokens`: times of day; seconds are counted from the earliest row.

    The published files (https://github.com/Azure/AzurePublicDataset, 2023 and 2024) have CRLF line ends, fractions of a
    second of 7 digits, no newline at the end, and in 2024 a zone after the time.
    """

    name = "azure"
    required = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
    optional = ()

    def rows(self, table: Table) -> Rows:
        time_ns = table.numbers("TIMESTAMP", _read_nanoseconds, _MUST)
        earliest = min(time_ns)
        count = len(time_ns)
        return Rows(
            arrival_s=np.array([(time - earliest) / 10**9 for time in time_ns]),  # whole numbers: rounded once
            prompt_tokens=table.tokens("ContextTokens"),
            output_tokens=table.tokens("GeneratedTokens"),
            priority=np.zeros(count, np.int32),
            class_index=np.zeros(count, np.int32),
        )


def _read_nanoseconds(text: str) -> int:
    """Nanoseconds since 1970, in UTC if no zone is named; a whole number, as float64 seconds resolve only 0.24 us."""
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    second, fraction, zone = match.groups()
    time = datetime.fromisoformat(second + (zone or "Z"))
    return (time - _EPOCH) // timedelta(seconds=1) * 10**9 + int((fraction or "0").ljust(9, "0"))
