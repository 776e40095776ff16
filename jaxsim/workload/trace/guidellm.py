"""The report of GuideLLM."""

import dataclasses
from typing import Any

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.fields import TEXT, TOKENS, count_of, or_none
from jaxsim.workload.trace.files import Content
from jaxsim.workload.trace.rows import Rows, measured_rows, since
from jaxsim.workload.trace.table import Columns, Table, table_of


class GuideLlm(TraceFormat):
    """`benchmarks[].requests.successful[]` of the JSON report (https://github.com/vllm-project/guidellm).

    Each request has `prompt_tokens`, `output_tokens`, when it was sent and when its first and last tokens came (s). A
    report of several benchmarks (a sweep) is one trace, on one clock. Requests that failed or were cut off by the end
    of the benchmark are left out with a notice.
    """

    name = "guidellm"
    required = {"request_start_time": count_of("s"), "prompt_tokens": TOKENS, "output_tokens": TOKENS}
    optional = {
        "first_token_time": or_none(count_of("s")),
        "last_token_time": or_none(count_of("s")),
        "left_out": TEXT,
    }
    spellings = {
        "request_start_time": ("start_time", "info.timings.request_start"),
        "first_token_time": ("info.timings.first_token_iteration", "info.timings.first_iteration"),
        "last_token_time": ("info.timings.last_token_iteration", "info.timings.last_iteration", "end_time"),
    }

    def table(self, content: Content) -> Table | None:
        document = content.document
        benchmarks = document.get("benchmarks") if isinstance(document, dict) else None
        if not isinstance(benchmarks, list) or not all(_requests(benchmark) for benchmark in benchmarks):
            return None
        found, places, left_out = [], [], 0
        for number, benchmark in enumerate(benchmarks):
            for kind, requests in _requests(benchmark).items():
                if kind == "successful":
                    found += requests
                    places += [f"benchmarks[{number}].requests.successful[{place}]" for place in range(len(requests))]
                elif kind != "total" and isinstance(requests, list):
                    left_out += len(requests)
        table = self.respelled(table_of(content.path, found, places))
        if table is None or not left_out:
            return table
        return dataclasses.replace(table, columns={**table.columns, "left_out": [str(left_out)] * len(places)})

    def rows(self, columns: Columns) -> Rows:
        start = columns["request_start_time"]
        notices: tuple[str, ...] = ()
        if "left_out" in columns:
            left_out = columns["left_out"][0]
            notices = (f"{columns.table.path}: {left_out} requests that did not succeed were left out",)
        return measured_rows(
            columns["prompt_tokens"],
            columns["output_tokens"],
            start_ns=start,
            ttft_ns=since(start, columns.get("first_token_time")),
            e2e_ns=since(start, columns.get("last_token_time")),
            notices=notices,
        )


def _requests(benchmark: Any) -> dict[str, Any]:
    requests = benchmark.get("requests") if isinstance(benchmark, dict) else None
    return requests if isinstance(requests, dict) and isinstance(requests.get("successful"), list) else {}
