"""The format of Vidur's request traces."""

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.fields import TOKENS, count_of
from jaxsim.workload.trace.rows import Rows, rows_of, seconds_since
from jaxsim.workload.trace.table import Columns


class Vidur(TraceFormat):
    """`arrived_at,num_prefill_tokens,num_decode_tokens`: seconds (https://github.com/microsoft/vidur)."""

    name = "vidur"
    required = {"arrived_at": count_of("s"), "num_prefill_tokens": TOKENS, "num_decode_tokens": TOKENS}
    ignored = ("", "request_id", "num_total_tokens", "pd_ratio")

    def rows(self, columns: Columns) -> Rows:
        arrival_s = seconds_since(0, columns["arrived_at"])
        return rows_of(arrival_s, columns["num_prefill_tokens"], columns["num_decode_tokens"])
