"""The per-request records of AIPerf."""

import numpy as np

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.fields import NO_FAILURE, TEXT, TOKENS, Field, count_of, or_none
from jaxsim.workload.trace.rows import Rows, measured_rows
from jaxsim.workload.trace.table import Columns


def _read_milliseconds(value: list[str]) -> list[int]:
    return [count_of("ms").read(gap) for gap in value]


class AiPerf(TraceFormat):
    """`profile_export.jsonl`: one `{"metadata": ..., "metrics": ...}` a line; start in ns, latencies in ms.

    See https://github.com/ai-dynamo/aiperf. Requests of the warm-up phase are left out with a notice.
    """

    name = "aiperf"
    required = {
        "metadata.request_start_ns": count_of("ns"),
        "metrics.input_sequence_length.value": TOKENS,
        "metrics.output_sequence_length.value": TOKENS,
    }
    optional = {
        "metadata.was_cancelled": NO_FAILURE,
        "error.message": NO_FAILURE,
        "metadata.benchmark_phase": TEXT,
        "metadata.conversation_id": TEXT,
        "metrics.time_to_first_token.value": or_none(count_of("ms")),
        "metrics.request_latency.value": or_none(count_of("ms")),
        "metrics.inter_chunk_latency.value": Field(_read_milliseconds, "a list of ms", []),
    }

    def rows(self, columns: Columns) -> Rows:
        phases = columns.get("metadata.benchmark_phase") or [""] * len(columns)
        kept = [index for index, phase in enumerate(phases) if phase != "warmup"]
        if not kept:
            raise columns.error(0, "metadata.benchmark_phase", "profiling, in at least one row")
        start, prompt, output = (columns[name] for name in self.required)
        ttft, latency, gaps = (columns.get(f"metrics.{name}.value") for name in _LATENCIES)
        warmup = len(columns) - len(kept)
        session = columns.table.columns.get("metadata.conversation_id")
        return measured_rows(
            [prompt[index] for index in kept],
            [output[index] for index in kept],
            start_ns=[start[index] for index in kept],
            ttft_ns=ttft and [ttft[index] for index in kept],
            e2e_ns=latency and [latency[index] for index in kept],
            gaps_ns=gaps and [gaps[index] for index in kept],
            row=np.array(kept, np.int32),
            session=session and tuple(session),
            notices=(f"{columns.table.path}: {warmup:,} requests of the warm-up were left out",) if warmup else (),
        )


_LATENCIES = ("time_to_first_token", "request_latency", "inter_chunk_latency")
