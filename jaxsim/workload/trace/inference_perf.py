"""The per-request report of inference-perf."""

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.fields import NO_FAILURE, TOKENS, Field, count_of, or_none
from jaxsim.workload.trace.rows import Rows, measured_rows, since
from jaxsim.workload.trace.table import Columns
from jaxsim.workload.trace.vllm_bench import GAPS


class InferencePerf(TraceFormat):
    """`per_request_lifecycle_metrics.json`: `start_time`, `end_time`, `info` with token counts and token times (s).

    See https://github.com/kubernetes-sigs/inference-perf. Failed requests say so in `error`.
    """

    name = "inference_perf"
    required = {"start_time": count_of("s"), "info.input_tokens": TOKENS, "info.output_tokens": TOKENS}
    optional = {
        "error.error_type": NO_FAILURE,
        "end_time": or_none(count_of("s")),
        "info.output_token_times": Field(GAPS.read, "a list of times in seconds", []),
    }
    spellings = {
        "info.input_tokens": ("info.request_metrics.text.input_tokens",),
        "info.output_tokens": ("info.response_metrics.output_tokens",),
        "info.output_token_times": ("info.response_metrics.output_token_times",),
    }

    def rows(self, columns: Columns) -> Rows:
        start = columns["start_time"]
        times = columns.get("info.output_token_times")
        gaps = [[later - sooner for sooner, later in zip(of, of[1:], strict=False)] for of in times] if times else None
        return measured_rows(
            columns["info.input_tokens"],
            columns["info.output_tokens"],
            start_ns=start,
            ttft_ns=since(start, [of[0] if of else None for of in times]) if times else None,
            e2e_ns=since(start, columns.get("end_time")),
            gaps_ns=gaps,
        )
