"""OpenTelemetry spans of LLM requests."""

from collections.abc import Iterator
from typing import Any

from jaxsim.workload.trace.base import TraceFormat
from jaxsim.workload.trace.errors import TraceError
from jaxsim.workload.trace.fields import TEXT, TOKENS, count_of, or_none
from jaxsim.workload.trace.files import Content
from jaxsim.workload.trace.rows import Rows, measured_rows, since
from jaxsim.workload.trace.table import Columns, Table, table_of

_PROMPT = "gen_ai.usage.input_tokens"
_OUTPUT = "gen_ai.usage.output_tokens"
_OLDER = {
    _PROMPT: ("gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens", "llm.token_count.prompt"),
    _OUTPUT: ("gen_ai.usage.completion_tokens", "llm.usage.completion_tokens", "llm.token_count.completion"),
}


class OpenTelemetry(TraceFormat):
    """OTLP/JSON (`resourceSpans`), one document or one a line as the collector's file exporter writes.

    Requests are the spans with `gen_ai.usage.input_tokens` (semantic conventions for generative AI, or one of the
    older names); other spans are left out. A span starts when its request was sent. vLLM's own spans also say when the
    first token came (`gen_ai.latency.time_to_first_token`, s).
    """

    name = "otel"
    required = {"startTimeUnixNano": count_of("ns"), _PROMPT: TOKENS, _OUTPUT: TOKENS}
    optional = {
        "endTimeUnixNano": or_none(count_of("ns")),
        "gen_ai.latency.time_to_first_token": or_none(count_of("s")),
        "gen_ai.conversation.id": TEXT,
    }
    spellings = {"startTimeUnixNano": ("start_time_unix_nano",), "endTimeUnixNano": ("end_time_unix_nano",), **_OLDER}

    def table(self, content: Content) -> Table | None:
        lines = content.table.columns if content.table else {}
        groups = next((lines[name] for name in ("resourceSpans", "resource_spans") if name in lines), None)
        if content.table is None or groups is None:
            return None
        records, places, others = [], [], 0
        for line, group in zip(content.table.places, groups, strict=True):
            for number, span in enumerate(_spans(group), start=1):
                record = {**span, **dict(_attributes(span))}
                if any(name in record for name in (_PROMPT, *_OLDER[_PROMPT])):
                    records.append({key: value for key, value in record.items() if not isinstance(value, (dict, list))})
                    places.append(f"span {number} of line {line}")
                else:
                    others += 1
        if not records:
            raise TraceError(f"{content.path}: none of the {others:,} spans has {_PROMPT}, as those of requests do")
        return self.respelled(table_of(content.path, records, places))

    def rows(self, columns: Columns) -> Rows:
        start = columns["startTimeUnixNano"]
        session = columns.table.columns.get("gen_ai.conversation.id")
        return measured_rows(
            columns[_PROMPT],
            columns[_OUTPUT],
            start_ns=start,
            ttft_ns=columns.get("gen_ai.latency.time_to_first_token"),
            e2e_ns=since(start, columns.get("endTimeUnixNano")),
            session=session and tuple(session),
        )


def _spans(groups: Any) -> Iterator[dict[str, Any]]:
    for group in groups or []:
        for scope in group.get("scopeSpans") or group.get("scope_spans") or []:
            yield from scope.get("spans") or []


def _attributes(span: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """`{"key": "a", "value": {"intValue": "3"}}` as `a: "3"`."""
    for attribute in span.get("attributes") or []:
        for value in (attribute.get("value") or {}).values():
            yield attribute.get("key", ""), value
