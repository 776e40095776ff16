"""The format of the Azure LLM inference traces."""

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.fields import TIME, TOKENS
from jaxsim.workload.trace.rows import Rows, rows_of, seconds_since
from jaxsim.workload.trace.table import Columns


class Azure(TraceFormat):
    """`TIMESTAMP,ContextTokens,GeneratedTokens`: times of day; seconds are counted from the earliest row.

    The published files (https://github.com/Azure/AzurePublicDataset, 2023 and 2024) have CRLF line ends, fractions of a
    second of 7 digits, no newline at the end, and in 2024 a zone after the time; the multimodal trace of 2025 also
    counts images. Copies of them spell the columns in other ways.
    """

    name = "azure"
    required = {"TIMESTAMP": TIME, "ContextTokens": TOKENS, "GeneratedTokens": TOKENS}
    spellings = {
        "TIMESTAMP": ("Timestamp", "timestamp"),
        "ContextTokens": ("Context_Tokens", "context_tokens", "contexttokens"),
        "GeneratedTokens": ("Generated_Tokens", "generated_tokens", "generatedtokens"),
    }

    def rows(self, columns: Columns) -> Rows:
        time_ns = columns["TIMESTAMP"]
        return rows_of(seconds_since(min(time_ns), time_ns), columns["ContextTokens"], columns["GeneratedTokens"])
