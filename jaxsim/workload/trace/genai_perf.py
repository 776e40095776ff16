"""The raw profile export of GenAI-Perf."""

import json
from typing import Any

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.fields import TOKENS, Field, count_of, read_tokens
from jaxsim.workload.trace.files import Content
from jaxsim.workload.trace.rows import Rows, measured_rows, since
from jaxsim.workload.trace.table import Columns, Table

_COUNTED = Field(read_tokens, f"{TOKENS.must}, from the `usage` that the server reports in its last response")


def _read_stamps(value: list[str]) -> list[int]:
    if not value:
        raise ValueError(value)
    return [count_of("ns").read(stamp) for stamp in value]


class GenAiPerf(TraceFormat):
    """`profile_export.json`: `experiments[].requests[]` with `timestamp` and `response_timestamps` (ns).

    The export has no token counts: they are read from the `usage` of the responses, which the server sends if the
    benchmark asks for it (`--extra-inputs '{"stream_options": {"include_usage": true}}'`). The response that only
    carries the usage is no token. See https://github.com/triton-inference-server/perf_analyzer; AIPerf follows it.
    """

    name = "genai_perf"
    required = {
        "timestamp": count_of("ns"),
        "prompt_tokens": _COUNTED,
        "completion_tokens": _COUNTED,
        "response_timestamps": Field(_read_stamps, "a list of at least one time in ns: the request failed"),
    }

    def table(self, content: Content) -> Table | None:
        experiments = content.document.get("experiments") if isinstance(content.document, dict) else None
        if not isinstance(experiments, list) or not all(isinstance(one, dict) for one in experiments):
            return None
        columns: dict[str, list[Any]] = {name: [] for name in self.required}
        places = []
        for number, experiment in enumerate(experiments):
            for place, request in enumerate(experiment.get("requests", [])):
                places.append(f"experiments[{number}].requests[{place}]")
                usage, stamps = _usage(request)
                columns["timestamp"].append(request.get("timestamp", ""))
                columns["prompt_tokens"].append(usage.get("prompt_tokens", ""))
                columns["completion_tokens"].append(usage.get("completion_tokens", ""))
                columns["response_timestamps"].append(stamps)
        return Table(content.path, columns, places)

    def rows(self, columns: Columns) -> Rows:
        start, stamps = columns["timestamp"], columns["response_timestamps"]
        return measured_rows(
            columns["prompt_tokens"],
            columns["completion_tokens"],
            start_ns=start,
            ttft_ns=since(start, [of[0] for of in stamps]),
            e2e_ns=since(start, [of[-1] for of in stamps]),
            gaps_ns=[[later - sooner for sooner, later in zip(of, of[1:], strict=False)] for of in stamps],
        )


def _usage(request: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The token counts that the last response with any reports, and the times of the responses that carry tokens."""
    usage: dict[str, Any] = {}
    stamps = []
    outputs = request.get("response_outputs") or []
    for stamp, output in zip(request.get("response_timestamps") or [], outputs, strict=False):
        text = output.get("response", "") if isinstance(output, dict) else ""
        bare = text.strip().removeprefix("data:").strip()
        try:
            said = json.loads(bare) if bare.startswith("{") else None
        except ValueError:
            said = None
        usage = (said or {}).get("usage") or usage
        if bare and bare != "[DONE]" and (said is None or said.get("choices") or "text_output" in said):
            stamps.append(stamp)
    return usage, stamps
