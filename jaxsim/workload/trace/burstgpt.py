"""The format of the BurstGPT traces."""

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.fields import TEXT, TOKENS, count_of
from jaxsim.workload.trace.rows import Rows, classes_of, rows_of, seconds_since
from jaxsim.workload.trace.table import Columns


class BurstGpt(TraceFormat):
    """`Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type`: seconds; the model is the class.

    Failed requests have 0 response tokens (https://github.com/HPMLL/BurstGPT), so the files that include them need
    `on_invalid: skip`. Newer releases add `Session ID` and `Elapsed time`.
    """

    name = "burstgpt"
    required = {"Timestamp": count_of("s"), "Request tokens": TOKENS, "Response tokens": TOKENS}
    optional = {"Model": TEXT, "Session ID": TEXT}
    spellings = {"Session ID": ("Session Id", "SessionID")}
    ignored = ("Total tokens", "Log Type", "Elapsed time")

    def rows(self, columns: Columns) -> Rows:
        return rows_of(
            seconds_since(0, columns["Timestamp"]),
            columns["Request tokens"],
            columns["Response tokens"],
            session=tuple(columns.table.columns["Session ID"]) if "Session ID" in columns else None,
            **(classes_of(columns["Model"]) if "Model" in columns else {}),
        )
