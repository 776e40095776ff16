"""The result file of `vllm bench serve` (formerly `benchmark_serving.py`)."""

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.errors import TraceError
from jaxsim.workload.trace.fields import NO_FAILURE, TOKENS, Field, count_of
from jaxsim.workload.trace.files import Content
from jaxsim.workload.trace.rows import Rows, measured_rows
from jaxsim.workload.trace.table import Columns, Table


def _read_gaps(value: list[str]) -> list[int]:
    if not isinstance(value, list):
        raise ValueError(value)
    return [count_of("s").read(gap) for gap in value]


GAPS = Field(_read_gaps, "a list of seconds, 0 or greater", [])


class VllmBench(TraceFormat):
    """JSON with one list per quantity: `input_lens`, `output_lens`, `start_times`, `ttfts`, `itls` (s), `errors`.

    Written by `vllm bench serve --save-result --save-detailed`; without `--save-detailed` the file has no requests.
    Files of versions that did not write `start_times` do not say when requests arrived. SGLang's `bench_serving`
    writes the same lists with `--output-details`.
    """

    name = "vllm_bench"
    required = {"input_lens": TOKENS, "output_lens": TOKENS}
    optional = {
        "errors": NO_FAILURE,
        "start_times": count_of("s"),
        "ttfts": count_of("s"),
        "itls": GAPS,
    }

    def table(self, content: Content) -> Table | None:
        document = content.document
        if not isinstance(document, dict):
            return None
        lists = {name: of for name in (*self.required, *self.optional) if isinstance(of := document.get(name), list)}
        if not set(self.required) <= set(lists):
            if "mean_ttft_ms" in document:
                advice = "the file has no requests, only their statistics; run the benchmark with --save-detailed"
                raise TraceError(f"{content.path}: {advice}")
            return None
        count = len(lists["input_lens"])
        for name, of in lists.items():
            if len(of) != count:
                raise TraceError(f"{content.path}: {name} has {len(of)} entries; it must have {count}, as input_lens")
        return Table(content.path, lists, [f"entry {place} of each list" for place in range(1, count + 1)])

    def rows(self, columns: Columns) -> Rows:
        start, ttft, gaps = (columns.get(name) for name in ("start_times", "ttfts", "itls"))
        finish = None
        if ttft and gaps:
            finish = [first + sum(between) for first, between in zip(ttft, gaps, strict=True)]
        return measured_rows(
            columns["input_lens"], columns["output_lens"], start_ns=start, ttft_ns=ttft, e2e_ns=finish, gaps_ns=gaps
        )
