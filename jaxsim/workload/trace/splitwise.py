"""The format of splitwise-sim's request traces."""

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.fields import TOKENS, count_of
from jaxsim.workload.trace.rows import Rows, rows_of, seconds_since
from jaxsim.workload.trace.table import Columns


class Splitwise(TraceFormat):
    """`arrival_timestamp,prompt_size,token_size` (s, tokens) beside request and application numbers.

    As written by https://github.com/Mutinifni/splitwise-sim: `request_id,request_type,application_id,
    arrival_timestamp,batch_size,prompt_size,token_size`.
    """

    name = "splitwise"
    required = {"arrival_timestamp": count_of("s"), "prompt_size": TOKENS, "token_size": TOKENS}
    ignored = ("request_id", "request_type", "application_id", "batch_size")

    def rows(self, columns: Columns) -> Rows:
        return rows_of(seconds_since(0, columns["arrival_timestamp"]), columns["prompt_size"], columns["token_size"])
