"""Lists of prompt and output lengths, which do not say when requests arrive."""

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.fields import TOKENS
from jaxsim.workload.trace.files import Content
from jaxsim.workload.trace.rows import Rows, rows_of
from jaxsim.workload.trace.table import Columns, Table


class LengthList(TraceFormat):
    """`prompt_tokens,output_tokens` without arrivals, under any of the usual names, or JSON pairs `[[512, 64], ...]`.

    What tokenised data sets (ShareGPT, LMSYS, arXiv summaries) are published as. A scenario says when they arrive
    (`arrivals`).
    """

    name = "lengths"
    required = {"prompt_tokens": TOKENS, "output_tokens": TOKENS}
    spellings = {
        "prompt_tokens": (
            *("prompt_len", "prompt_length", "input_len", "input_length", "input_tokens", "num_prefill_tokens"),
            *("ContextTokens", "isl", "prompt_size"),
        ),
        "output_tokens": (
            *("output_len", "output_length", "completion_tokens", "num_decode_tokens", "expected_output_len"),
            *("GeneratedTokens", "osl", "token_size", "response_len"),
        ),
    }
    ignored = ("", "num_total_tokens", "pd_ratio", "id")

    def table(self, content: Content) -> Table | None:
        pairs = content.document
        if isinstance(pairs, list) and pairs and all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            prompts, outputs = zip(*pairs, strict=True)
            places = [f"[{index}]" for index in range(len(pairs))]
            return Table(content.path, {"prompt_tokens": prompts, "output_tokens": outputs}, places)
        return super().table(content)

    def rows(self, columns: Columns) -> Rows:
        return rows_of(None, columns["prompt_tokens"], columns["output_tokens"])
