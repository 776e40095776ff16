"""Every trace format on a small file as its tool writes it, with the defects such files have."""

import gzip
import json

import numpy as np
import pytest

from jaxsim.workload import Trace, TraceError
from jaxsim.workload.arrivals import Poisson
from jaxsim.workload.joint import Pairs
from jaxsim.workload.trace import FORMATS

MOONCAKE = (
    '{"timestamp": 0, "input_length": 1030, "output_length": 500, "hash_ids": [0, 1, 2]}\n'
    '{"timestamp": 0, "input_length": 600, "output_length": 7, "hash_ids": [0, 9]}\n'
    '{"timestamp": 3000, "input_length": 5, "output_length": 1, "hash_ids": []}\n'
)
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n45.5,GPT-4,1087,230,1317,API log\n1106,ChatGPT,0,0,0,Conversation log\n"
)
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens,pd_ratio\n0.25,374,44,8.5\n1.5,396,109,3.6\n"
SPLITWISE = (
    "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
    "0,2,0,0.125,1,374,44\n1,2,0,4.5,1,396,109\n"
)
VLLM = {
    "date": "20260101-000000",
    "request_rate": "inf",
    "burstiness": 1.0,
    "mean_ttft_ms": 40.0,
    "input_lens": [100, 200, 300],
    "output_lens": [3, 1, 2],
    "start_times": [81234.5, 81234.25, 81235.5],
    "ttfts": [0.05, 0.25, 0.125],
    "itls": [[0.01, 0.03], [], [0.5]],
    "generated_texts": ["a", "b", "c"],
    "errors": ["", "", ""],
}
GUIDELLM_REQUEST = {
    "request_id": "a",
    "output": "hello, world",
    "info": {"timings": {"request_start": 1763066701.5, "first_token_iteration": 1763066701.75}},
    "request_start_time": 1763066701.5,
    "prompt_tokens": 100,
    "output_tokens": 5,
}
GUIDELLM = {
    "metadata": {"version": 1},
    "benchmarks": [
        {
            "requests": {
                "successful": [
                    GUIDELLM_REQUEST
                    | {
                        "info": {
                            "timings": {"first_token_iteration": 1763066701.75, "last_token_iteration": 1763066702.5}
                        }
                    },
                    GUIDELLM_REQUEST | {"request_start_time": 1763066700.5},
                ],
                "errored": [],
                "incomplete": [GUIDELLM_REQUEST],
            }
        }
    ],
}
OLD_GUIDELLM = {
    "benchmarks": [
        {
            "requests": {
                "successful": [
                    {"start_time": 10.5, "end_time": 12.0, "first_token_time": 10.75, "last_token_time": 11.5}
                    | {"prompt_tokens": 8, "output_tokens": 3, "prompt": "p", "output": "o"}
                ]
            }
        }
    ]
}
OLD_INFERENCE_PERF = [
    {
        "start_time": 305.5,
        "end_time": 307.0,
        "request": "{}",
        "response": "x",
        "info": {"input_tokens": 64, "output_tokens": 3, "output_token_times": [306.0, 306.25, 307.0]},
        "error": None,
    }
]
INFERENCE_PERF = [
    {
        "scheduled_time": start_s,
        "start_time": start_s,
        "end_time": times_s[-1],
        "info": {
            "request_metrics": {"text": {"input_tokens": 32}},
            "response_metrics": {"output_tokens": len(times_s), "output_token_times": times_s},
            "input_tokens": 32,
        },
        "error": None,
    }
    for start_s, times_s in ((305.5, [306.0, 306.25, 307.0]), (304.5, [305.0]))
]


def aiperf(start_ns, prompt, output, phase="profiling", **more):
    metrics = {"input_sequence_length": {"value": prompt, "unit": "tokens"}}
    metrics["output_sequence_length"] = {"value": output, "unit": "tokens"}
    metrics["time_to_first_token"] = {"value": 500.0, "unit": "ms"}
    metrics["request_latency"] = {"value": 1250.0, "unit": "ms"}
    metrics["inter_chunk_latency"] = {"value": [250.0, 500.0], "unit": "ms"}
    metadata = {"request_start_ns": start_ns, "conversation_id": f"c{prompt}", "benchmark_phase": phase}
    return json.dumps({"metadata": metadata | {"was_cancelled": False}, "metrics": metrics, "error": None} | more)


AIPERF = "\n".join(
    [
        aiperf(1763066700000000000, 9, 9, "warmup"),
        aiperf(1763066701865462000, 1000, 3),
        aiperf(1763066701365462000, 2000, 3),
    ]
)


def chunk(text, usage=None):
    return {"response": "data: " + json.dumps({"choices": [text] if text else [], "usage": usage}) + "\n\n"}


GENAI_PERF = {
    "service_kind": "openai",
    "experiments": [
        {
            "experiment": {"mode": "concurrency", "value": 1},
            "requests": [
                {
                    "timestamp": 1000000000,
                    "response_timestamps": [1500000000, 1750000000, 1750000001, 1750000002],
                    "response_outputs": [
                        chunk("a"),
                        chunk("b"),
                        chunk("", {"prompt_tokens": 30, "completion_tokens": 2}),
                        {"response": "data: [DONE]\n\n"},
                    ],
                }
            ],
        }
    ],
}


def span(start_ns, **attributes):
    listed = [{"key": key, "value": value} for key, value in attributes.items()]
    return {"name": "chat", "startTimeUnixNano": start_ns, "endTimeUnixNano": str(int(start_ns) + 10**9)} | {
        "attributes": listed
    }


def spans(*of):
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(of)}]}]})


OTEL = "\n".join(
    [
        spans(
            span("1700000000500000000", **{"gen_ai.usage.input_tokens": {"intValue": "1240"}})
            | {
                "attributes": [
                    {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "1240"}},
                    {"key": "gen_ai.usage.output_tokens", "value": {"intValue": 356}},
                    {"key": "gen_ai.latency.time_to_first_token", "value": {"doubleValue": 0.25}},
                    {"key": "gen_ai.request.stop_sequences", "value": {"arrayValue": {"values": []}}},
                ]
            },
            span("1700000000000000000", http={"stringValue": "GET"}),
        ),
        spans(
            span(
                "1700000000000000000",
                **{"gen_ai.usage.input_tokens": {"intValue": 8}, "gen_ai.usage.output_tokens": {"intValue": 2}},
            )
        ),
    ]
)
SHAREGPT = json.dumps(
    [
        {"id": "1", "conversations": [{"from": "human", "value": "x" * 9}, {"from": "gpt", "value": "y" * 400}]},
        {"id": "2", "conversations": [{"from": "human", "value": "alone"}]},
        {"id": "3", "conversations": [{"from": "human", "value": "x" * 4}, {"from": "gpt", "value": "y"}] * 3},
    ]
)


@pytest.fixture
def trace(tmp_path):
    def write(content, **options):
        content = content if isinstance(content, (str, bytes)) else json.dumps(content)
        path = tmp_path / "trace.dat"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Trace(path=path, **options)

    return write


def table(rows):
    """Arrival, prompt and output of each request, in order of arrival."""
    return list(zip(rows.arrival_s.tolist(), rows.prompt_tokens.tolist(), rows.output_tokens.tolist(), strict=True))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("mooncake", MOONCAKE, [(0.0, 1030, 500), (0.0, 600, 7), (3.0, 5, 1)]),
        ("burstgpt", BURSTGPT[: BURSTGPT.rindex("1106")], [(5.0, 472, 18), (45.5, 1087, 230)]),
        ("vidur", VIDUR, [(0.25, 374, 44), (1.5, 396, 109)]),
        ("splitwise", SPLITWISE, [(0.125, 374, 44), (4.5, 396, 109)]),
        ("vllm_bench", VLLM, [(0.0, 200, 1), (0.25, 100, 3), (1.25, 300, 2)]),
        ("guidellm", GUIDELLM, [(0.0, 100, 5), (1.0, 100, 5)]),
        ("guidellm", OLD_GUIDELLM, [(0.0, 8, 3)]),
        ("inference_perf", INFERENCE_PERF, [(0.0, 32, 1), (1.0, 32, 3)]),
        ("inference_perf", OLD_INFERENCE_PERF, [(0.0, 64, 3)]),
        ("aiperf", AIPERF, [(0.0, 2000, 3), (0.5, 1000, 3)]),
        ("genai_perf", GENAI_PERF, [(0.0, 30, 2)]),
        ("otel", OTEL, [(0.0, 8, 2), (0.5, 1240, 356)]),
    ],
    ids=lambda value: value if isinstance(value, str) and value in FORMATS else "",
)
def test_format_is_recognised_and_read(trace, name, content, expected):
    rows = trace(content).read()
    assert table(rows) == expected
    assert table(trace(content, format=name).read()) == expected
    assert rows.prompt_tokens.dtype == rows.output_tokens.dtype == rows.row.dtype == np.int32


@pytest.mark.parametrize("content", [MOONCAKE, VIDUR, SPLITWISE, AIPERF, OTEL, SHAREGPT], ids=str.split)
def test_line_ends_byte_order_mark_blank_lines_gzip_and_no_last_newline(trace, content):
    options = {"arrivals": Poisson(rate=1.0)} if content is SHAREGPT else {}
    plain = trace(content, **options).read()
    for changed in (
        "\ufeff" + content.replace("\n", "\r\n"),
        content.rstrip("\n"),
        content.replace("\n", "\n\n") + "\n \n",
        gzip.compress(content.encode()),
    ):
        rows = trace(changed, **options).read()
        np.testing.assert_array_equal(rows.prompt_tokens, plain.prompt_tokens)
        assert rows.notices == plain.notices


def measured(rows):
    return {
        "ttft": (rows.measured.first_token_s - rows.arrival_s).round(9).tolist(),
        "e2e": (rows.measured.finish_s - rows.arrival_s).round(9).tolist(),
        "gaps": rows.measured.gaps_s and [list(gaps) for gaps in rows.measured.gaps_s],
    }


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            VLLM,
            {"ttft": [0.25, 0.05, 0.125], "e2e": [0.25, 0.09, 0.625], "gaps": [[], [0.01, 0.03], [0.5]]},
        ),
        (OLD_GUIDELLM, {"ttft": [0.25], "e2e": [1.0], "gaps": None}),
        (INFERENCE_PERF, {"ttft": [0.5, 0.5], "e2e": [0.5, 1.5], "gaps": [[], [0.25, 0.75]]}),
        (OLD_INFERENCE_PERF, {"ttft": [0.5], "e2e": [1.5], "gaps": [[0.25, 0.75]]}),
        (AIPERF, {"ttft": [0.5, 0.5], "e2e": [1.25, 1.25], "gaps": [[0.25, 0.5], [0.25, 0.5]]}),
        (GENAI_PERF, {"ttft": [0.5], "e2e": [0.75], "gaps": [[0.25]]}),
    ],
    ids=["vllm_bench", "guidellm", "inference_perf", "older", "aiperf", "genai_perf"],
)
def test_measured_latencies(trace, content, expected):
    assert measured(trace(content).read()) == expected


def test_measured_latencies_that_are_not_known(trace):
    rows = trace(OTEL).read()
    assert np.isnan(rows.measured.first_token_s[0]) and rows.measured.first_token_s[1] == 0.75
    assert rows.measured.finish_s.tolist() == [1.0, 1.5]
    assert np.isnan(trace(GUIDELLM).read().measured.finish_s[0])


def test_what_each_format_says_beside(trace):
    assert trace(MOONCAKE).read().prefix_blocks == (("0", "1", "2"), ("0", "9"), ())
    assert "shared prefixes are not simulated" in trace(MOONCAKE).draw([0]).notices[-1]
    burst = trace(BURSTGPT, on_invalid="skip").read()
    assert burst.class_names == ("ChatGPT", "GPT-4") and burst.class_index.tolist() == [0, 1]
    warmed = trace(AIPERF).read()
    assert "1 requests of the warm-up were left out" in warmed.notices[0]
    assert warmed.row.tolist() == [2, 1] and warmed.session == ("c9", "c1000", "c2000")
    assert "1 requests that did not succeed were left out" in trace(GUIDELLM).read().notices[0]


def test_lists_of_lengths_need_arrivals(trace):
    arrivals = Poisson(rate=2.0)
    for content, lengths in {
        "prompt_len,output_len\n3,4\n5,6\n": ([3, 5], [4, 6]),
        "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3,4,7,0.75\n": ([3], [4]),
        "[[3, 4], [5, 6]]": ([3, 5], [4, 6]),
        '{"input_len": 3, "output_len": 4}\n{"input_len": 5, "output_len": 6}': ([3, 5], [4, 6]),
        '[{"prompt_len": 3, "output_len": 4}]': ([3], [4]),
        SHAREGPT: ([3, 1], [100, 1]),
        json.dumps({key: value for key, value in VLLM.items() if key != "start_times"}): ([100, 200, 300], [3, 1, 2]),
    }.items():
        with pytest.raises(TraceError, match="does not say when requests arrive; give arrivals, such as {kind: poi"):
            trace(content).read()
        drawn = trace(content, arrivals=arrivals).draw([4, 5])
        assert (drawn.prompt_tokens[1].tolist(), drawn.output_tokens[0].tolist()) == lengths
        assert drawn.rate_per_s == 2.0 and not np.array_equal(drawn.arrival_s[0], drawn.arrival_s[1])
    assert "estimated from the texts at 4 characters a token" in trace(SHAREGPT, arrivals=arrivals).read().notices[0]


def test_arrivals_in_place_of_recorded_ones(trace):
    replaced = trace(VLLM, arrivals=Poisson(rate=2.0))
    assert replaced.draw([0]).prompt_tokens.tolist() == [[200, 100, 300]]  # in the recorded order of arrival
    assert replaced.differs_by_seed and not trace(VLLM).differs_by_seed
    resampled = trace(VLLM, arrivals=Poisson(rate=2.0), resample="block_bootstrap").draw([0, 1])
    np.testing.assert_array_equal(resampled.arrival_s, replaced.draw([0, 1]).arrival_s)


LOG = (
    '{"time": "10/Oct/2025:13:55:36 -0700", "usage": {"in": 5, "out": 2}, "who": "a", "latency_ms": 1500, "p": 3}\n'
    '{"time": "2025-10-10T20:55:35.5Z", "usage": {"in": 6, "out": 3}, "who": "b", "latency_ms": 250, "p": 1}\n'
    '{"time": "2025-10-10 22:55:37+02:00", "usage": {"in": 7, "out": 4}, "who": "a", "latency_ms": null, "p": null}\n'
)
COLUMNS = {"arrival_s": "time", "prompt_tokens": "usage.in", "output_tokens": "usage.out"}


def test_access_log_with_zones(trace):
    rows = trace(LOG, columns={**COLUMNS, "class": "who", "priority": "p", "e2e_ms": "latency_ms"}).read()
    assert table(rows) == [(0.0, 6, 3), (0.5, 5, 2), (1.5, 7, 4)]
    assert rows.class_names == ("a", "b") and rows.priority.tolist() == [1, 3, 0]
    assert (rows.measured.finish_s - rows.arrival_s).tolist()[:2] == [0.25, 1.5] and np.isnan(rows.measured.finish_s[2])


def test_mapped_units(trace):
    content = "t_us,a,b,first\n1700000000000000,1,2,1700000001000000\n1700000000500000,3,4,\n"
    columns = {"arrival_us": "t_us", "prompt_tokens": "a", "output_tokens": "b", "first_token_us": "first"}
    rows = trace(content, columns=columns).read()
    assert table(rows) == [(0.0, 1, 2), (0.5, 3, 4)]
    assert rows.measured.first_token_s[0] == 1.0 and np.isnan(rows.measured.first_token_s[1])
    no_times = {"prompt_tokens": "a", "output_tokens": "b"}
    assert trace(content, columns=no_times, arrivals=Poisson(rate=1.0)).draw([0]).prompt_tokens.tolist() == [[1, 3]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"arrival_s": "time"}, "columns.prompt_tokens must be given: the column that holds it"),
        (
            {**COLUMNS, "arrival": "time"},
            r"columns.arrival must be one of prompt_tokens, output_tokens, id, .*arrival_{s",
        ),
        ({**COLUMNS, "arrival_h": "time"}, "columns.arrival_h must be one of"),
    ],
)
def test_bad_columns(columns, message):
    with pytest.raises(ValueError, match=message):
        Trace(path="log.jsonl", columns=columns)


def test_bad_columns_of_a_file(trace):
    with pytest.raises(
        TraceError, match=r"no column 'usage.inn' \(prompt_tokens\); did you mean usage.in\? the file has t"
    ):
        trace(LOG, columns={**COLUMNS, "prompt_tokens": "usage.inn"}).read()
    with pytest.raises(
        TraceError, match=r"row 2 \(line 2\): arrival_s is 'noon'; it must be a number of s, 0 or greater, or"
    ):
        trace(LOG.replace("2025-10-10T20:55:35.5Z", "noon"), columns=COLUMNS).read()


def test_parquet(trace, tmp_path):
    import pyarrow
    from pyarrow import parquet

    stamps = pyarrow.array([1_000_500_000, 1_000_000_000], pyarrow.int64()).cast(pyarrow.timestamp("ms", tz="UTC"))
    azure = pyarrow.table({"TIMESTAMP": stamps, "ContextTokens": [3, 4], "GeneratedTokens": [5, 6]})
    parquet.write_table(azure, tmp_path / "a.parquet")
    assert table(Trace(path=tmp_path / "a.parquet").read()) == [(0.0, 4, 6), (500.0, 3, 5)]

    mooncake = {
        "timestamp": [0.0, 3000.0],
        "input_length": [1, None],
        "output_length": [2, 3],
        "hash_ids": [[7, 8], []],
    }
    parquet.write_table(pyarrow.table(mooncake), tmp_path / "m.parquet")
    with pytest.raises(TraceError, match=r"m.parquet: row 2: input_length is ''; it must be a whole number from 1"):
        Trace(path=tmp_path / "m.parquet").read()
    assert Trace(path=tmp_path / "m.parquet", on_invalid="skip").read().prefix_blocks == (("7", "8"),)

    nested = pyarrow.table({"usage": [{"in": 1, "out": 2}], "at": [1.5]})
    parquet.write_table(nested, tmp_path / "n.parquet")
    columns = {"arrival_ms": "at", "prompt_tokens": "usage.in", "output_tokens": "usage.out"}
    assert table(Trace(path=tmp_path / "n.parquet", columns=columns).read()) == [(0.0, 1, 2)]
    parquet.write_table(azure.slice(0, 0), tmp_path / "e.parquet")
    with pytest.raises(TraceError, match="the trace is empty"):
        Trace(path=tmp_path / "e.parquet").read()


def test_skipping_names_how_many_and_the_first(trace):
    with pytest.raises(
        TraceError, match=r"row 3 \(line 4\): Request tokens is '0'; .*; on_invalid: skip leaves such rows"
    ):
        trace(BURSTGPT).read()
    rows = trace(BURSTGPT, on_invalid="skip").read()
    assert rows.row.tolist() == [0, 1]
    assert (
        "1 of 3 rows are not valid and were left out (on_invalid: skip); the first: row 3 (line 4): Req"
        in rows.notices[0]
    )
    with pytest.raises(TraceError, match="none of the 1 rows is valid; the first: .*Response tokens is '0'"):
        trace("Timestamp,Request tokens,Response tokens\n5,1,0\n", on_invalid="skip").read()


def test_the_requests_of_a_run_of_one_seed_are_a_trace(trace):
    header = "seed,request,arrival_s,prompt_tokens,output_tokens,instance,first_token_s,finish_s,preemptions,status\n"
    rows = trace(header + "3,0,0.5,10,2,0,1.0,1.5,0,completed\n").read()
    assert rows.measured.finish_s.tolist() == [1.5] and rows.notices == ()
    with pytest.raises(TraceError, match=r"row 2 \(line 3\): seed is '4'; it must be 3, as in the rows before"):
        trace(header + "3,0,0.5,10,2,0,1.0,1.5,0,completed\n4,0,0.5,10,2,0,1.0,1.5,0,completed\n").read()


def test_skipped_rows_keep_the_numbers_of_the_file(trace):
    content = "arrival_s,prompt_tokens,output_tokens,id\n2,1,1,a\n1,0,1,b\n0,7,1,c\n"
    drawn = trace(content, on_invalid="skip").draw([0])
    assert drawn.row.tolist() == [[2, 0]] and drawn.id[drawn.row[0, 0]] == "c"


def test_pairs_of_any_format(trace):
    path = trace(BURSTGPT).path
    with pytest.raises(TraceError, match="on_invalid: skip"):
        Pairs(path=path).tokens()
    Pairs(path=path, on_invalid="skip").tokens()


def test_gigantic_prompts_are_requests(trace):
    assert trace(MOONCAKE.replace("1030", "2147483647")).read().prompt_tokens[0] == 2**31 - 1
    with pytest.raises(
        TraceError, match=r"row 1 \(line 1\): input_length is '2147483648'; it must be a whole number from 1"
    ):
        trace(MOONCAKE.replace("1030", "2147483648")).read()


def test_spread_ticks(trace):
    """Requests of a tick are moved apart evenly within it; a tick that ends early stays within."""
    counts = {0: 5, 3000: 2, 6000: 4, 8990: 1, 12000: 3, 15000: 1, 30000: 2}
    content = "".join(
        f'{{"timestamp": {at}, "input_length": 9, "output_length": 9}}\n'
        for at, count in counts.items()
        for _ in range(count)
    )
    noticed = trace(content).read()
    assert "on ticks of 3 s, up to 5 at the same time; spread_ticks: true spreads them" in noticed.notices[0]
    rows = trace(content, spread_ticks=True).read()
    expected = [
        at / 1000 + min(3, 2.99 if at == 6000 else 3) * k / count for at, count in counts.items() for k in range(count)
    ]
    np.testing.assert_allclose(rows.arrival_s, expected, rtol=0, atol=1e-12)
    assert np.all(np.diff(rows.arrival_s) > 0) and "spread over ticks of 3 s" in rows.notices[0]
    assert "no effect" in trace(VIDUR, spread_ticks=True).read().notices[-1]
    assert trace(content, spread_ticks=True, rate_scale=2.0).read().arrival_s[1] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "line 1: not valid JSON: Expecting property name"),
        (MOONCAKE + "{oops}\n", "line 4: not valid JSON"),
        (MOONCAKE + "[1]\n", "line 4: must be a JSON object, not"),
        ("[]", "of no known trace format"),
        ('{"a": 1}', "JSON with 'a' is of no known trace format; valid: jaxsim_csv has"),
        ("[" * 10**5, "nested too deeply"),
        (
            '{"timestamp": 0, "input_length": 5}',
            "missing column output_length; valid: mooncake has timestamp,input_length",
        ),
        (MOONCAKE.replace("600", "-1"), r"row 2 \(line 2\): input_length is '-1'"),
        (MOONCAKE.replace("600", "NaN"), "input_length is 'NaN'"),
        (MOONCAKE.replace("600", "null"), "input_length is ''"),
        (MOONCAKE.replace("600", "[6]"), r"input_length is \['6'\]"),
        (MOONCAKE.replace("3000", "-1"), "timestamp is '-1'; it must be a finite number of ms, 0 or greater"),
        (MOONCAKE.replace("[0, 9]", '"0,9"'), "hash_ids is '0,9'; it must be a list of block ids"),
        (BURSTGPT.replace("45.5", "inf"), "Timestamp is 'inf'"),
        (SPLITWISE.replace(",44", ",0"), r"row 1 \(line 2\): token_size is '0'"),
        ({**VLLM, "ttfts": [0.1]}, "ttfts has 1 entries; it must have 3, as input_lens"),
        (
            {**VLLM, "errors": ["", "boom", ""]},
            r"row 2 \(entry 2 of each list\): errors is 'boom'; it must be empty: the re",
        ),
        ({**VLLM, "itls": [[], [], ["x"]]}, "itls is .'x'.; it must be a list of seconds"),
        (
            {"mean_ttft_ms": 1, "completed": 5},
            "no requests, only their statistics; run the benchmark with --save-detailed",
        ),
        (
            {"benchmarks": [{"requests": {"successful": [{"start_time": 1, "prompt_tokens": 0, "output_tokens": 1}]}}]},
            r"row 1 \(benchmarks\[0\].requests.successful\[0\]\): prompt_tokens is '0'",
        ),
        ({"benchmarks": [{"requests": {"successful": []}}]}, "of no known trace format|the trace is empty"),
        ([{**INFERENCE_PERF[0], "error": {"error_type": "Timeout", "error_msg": ""}}], "error.error_type is 'Timeout'"),
        (aiperf(1, 5, 5, "warmup"), "benchmark_phase is 'warmup'; it must be profiling"),
        (aiperf(1, 5, 5, error={"message": "boom"}), "error.message is 'boom'; it must be empty: the request failed"),
        (
            json.dumps(GENAI_PERF).replace("usage", "use"),
            "prompt_tokens is ''; it must be .*from the `usage` that the ser",
        ),
        (spans(span("1", http={"stringValue": "GET"})), "none of the 1 spans has gen_ai.usage.input_tokens"),
        (gzip.compress(b"a", mtime=0)[:-3], "Compressed file ended|not a whole gzip file"),
        (b"\x1f\x8bnonsense", "gzip"),
    ],
)
def test_bad_file(trace, content, message):
    with pytest.raises(TraceError, match=message) as raised:
        trace(content).read()
    assert "trace.dat: " in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_invalid": "drop"}, "on_invalid must be one of error, skip, not 'drop'"),
        ({"columns": COLUMNS, "format": "azure"}, "format must be auto where columns says"),
        (
            {"arrivals": Poisson(rate=1.0), "rate_scale": 2.0},
            "arrivals must not be given beside spread_ticks or rate_scale",
        ),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        Trace(path="trace.csv", **options)


def test_a_trace_can_be_hashed_and_compared():
    assert hash(Trace(path="t", columns=COLUMNS)) == hash(Trace(path="t", columns=dict(COLUMNS)))
    assert Trace(path="t", columns=COLUMNS) == Trace(path="t", columns=dict(COLUMNS)) != Trace(path="t")
