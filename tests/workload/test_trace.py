"""Trace replay: both formats as they are published, order, options and every message."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from jaxsim.workload import Trace, TraceError
from jaxsim.workload.random import Purpose, uniforms

OWN = "arrival_s,prompt_tokens,output_tokens\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
CHAT = Path(__file__).parents[2] / "examples" / "data" / "chat_500.csv"


@pytest.fixture
def trace(tmp_path):
    def write(content, **options):
        path = tmp_path / "trace.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Trace(path=path, **options)

    return write


def test_own_format(trace):
    requests = trace(OWN + "0.5,3,4\n1.25,5,6\n1.25,7,1\n").draw([3, 8])
    assert requests.arrival_s.tolist() == [[0.5, 1.25, 1.25]] * 2
    assert requests.prompt_tokens.tolist() == [[3, 5, 7]] * 2
    assert requests.output_tokens.tolist() == [[4, 6, 1]] * 2
    assert requests.row.tolist() == [[0, 1, 2]] * 2
    assert requests.arrival_s.dtype == np.float64 and requests.prompt_tokens.dtype == requests.row.dtype == np.int32
    np.testing.assert_array_equal(requests.routing_uniform, uniforms(Purpose.ROUTING, [3, 8], 3))
    assert np.isnan(requests.rate_per_s) and requests.id is None and requests.notices == ()


def test_optional_columns_in_any_order(trace):
    header = "id,class,priority,session,prefix_ids,output_ids,output_tokens,prompt_tokens,arrival_s\n"
    requests = trace(header + 'x,chat,2,s1,1 2 3,4,4,3,0.5\n"y,z",rag,-1,s2,,,6,5,0.25\nw,chat,0,s1,9,9,1,1,2\n').draw(
        [0]
    )
    assert requests.row.tolist() == [[1, 0, 2]]
    assert requests.priority.tolist() == [[-1, 2, 0]]
    assert requests.class_index.tolist() == [[1, 0, 0]] and requests.class_names == ("chat", "rag")
    assert requests.id == ("x", "y,z", "w") and requests.session == ("s1", "s2", "s1")


def test_azure_as_published(trace):
    """CRLF, seven digits, no newline at the end; 10^-7 s survive."""
    requests = trace(
        AZURE + "2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:46.6805901,396,109\r\n"
        "2023-11-17 00:00:00.0000000,7,8"
    ).draw([0])
    assert requests.arrival_s.tolist() == [[0.0, 1e-7, 20653.31941]]
    assert requests.prompt_tokens.tolist() == [[374, 396, 7]]
    assert requests.output_tokens.tolist() == [[44, 109, 8]]


def test_azure_variants(trace):
    """Byte order mark, zones, no fraction, a T, rows out of order: seconds count from the earliest."""
    requests = trace(
        "\ufeff" + AZURE + "2024-05-10 00:00:01.009930+00:00,1,1\r\n2024-05-10T02:00:00+02:00,2,2\r\n"
        "2024-05-10 00:00:02Z,3,3\r\n"
    ).draw([0])
    assert requests.arrival_s.tolist() == [[0.0, 1.00993, 2.0]]
    assert requests.row.tolist() == [[1, 0, 2]]


def test_rows_are_sorted_stably_with_a_notice(trace):
    requests = trace(OWN + "2,1,1\n1,2,1\n2,3,1\n1,4,1\n0,5,1\n").draw([0])
    assert requests.row.tolist() == [[4, 1, 3, 0, 2]]
    assert requests.prompt_tokens.tolist() == [[5, 2, 4, 1, 3]]
    assert len(requests.notices) == 1
    assert "were sorted" in requests.notices[0] and "`request` is the row of the file" in requests.notices[0]


def test_rate_scale_and_limit(trace):
    requests = trace(OWN + "3,1,1\n1,2,1\n2,3,1\n", rate_scale=2.0, limit=2).draw([0])
    assert requests.arrival_s.tolist() == [[0.5, 1.0]] and requests.row.tolist() == [[1, 2]]
    assert trace(OWN + "3,1,1\n", limit=5).draw([0]).row.tolist() == [[0]]


def test_blank_lines_whole_floats_and_unknown_columns(trace):
    requests = trace("arrival_s, prompt_tokens ,output_tokens,note\n\n0,3.0,4,a\n \n1e0,5,6,b\n\n").draw([0])
    assert requests.prompt_tokens.tolist() == [[3, 5]] and requests.arrival_s.tolist() == [[0, 1]]
    assert "ignored: note" in requests.notices[0]


def test_a_file_that_changed_is_read_again(trace):
    first = trace(OWN + "0,1,1\n").draw([0])
    assert trace(OWN + "0,1,1\n1,2,2\n").draw([0]).row.shape != first.row.shape


def test_twenty_thousand_rows_of_fractions(trace):
    rows = "".join(
        f"2023-11-16 18:{i // 600 % 60:02}:{i // 10 % 60:02}.{i % 10}805900,374,44\r\n" for i in range(20_000)
    )
    replay = trace(AZURE + rows)
    arrival_s = replay.draw([0]).arrival_s[0]
    np.testing.assert_allclose(np.diff(arrival_s), 0.1, rtol=1e-6)


def test_the_bundled_trace(capsys):
    runpy.run_path(str(CHAT.with_name("make_chat_500.py")))
    assert capsys.readouterr().out == CHAT.read_text()
    requests = Trace(path=CHAT).draw([0])
    assert requests.row.shape == (1, 500) and requests.notices == ()
    counts = np.bincount((requests.arrival_s[0] // 5).astype(int))
    assert counts.var() / counts.mean() > 5  # Poisson: 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "trace.csv: the trace is empty; it must have a header and at least one row"),
        ("\n\n", "the trace is empty; it must have"),
        (OWN, r"the trace is empty: it has a header \(line 1\) but no rows"),
        ("a,b\n1,2\n", "the header 'a,b' is of no known trace format; valid: jaxsim_csv has arrival_s,prompt_tokens,"),
        ("0.0,5,6\n", "the header '0.0,5,6' is of no known trace format"),
        ("arrival_s,prompt_tokens\n0,1\n", "line 1: missing column output_tokens; valid: jaxsim_csv has arrival_s,pr"),
        ("TIMESTAMP,x\n0,1\n", "line 1: missing columns ContextTokens, GeneratedTokens; valid: .*azure has TIMESTAMP,"),
        ("arrival_s,arrival_s\n0,1\n", "line 1: column 'arrival_s' appears twice"),
        (OWN + "0,1\n", r"row 1 \(line 2\) has 2 fields; it must have 3, as the header"),
        (OWN + "\n0,1,1\n0,1,1,1\n", r"row 2 \(line 4\) has 4 fields"),
        (OWN + "x,1,1\n", r"row 1 \(line 2\): arrival_s is 'x'; it must be a finite number of seconds, 0 or greater"),
        (OWN + "0,1,1\nnan,1,1\n", r"row 2 \(line 3\): arrival_s is 'nan'; it must be a finite"),
        (OWN + "inf,1,1\n", "arrival_s is 'inf'"),
        (OWN + "-0.1,1,1\n", r"arrival_s is '-0\.1'; it must be a finite number of seconds, 0 or greater"),
        (OWN + ",1,1\n", "arrival_s is ''"),
        (OWN + "0,0,1\n", "prompt_tokens is '0'; it must be a whole number from 1 to 2147483647"),
        (OWN + "0,-3,1\n", "prompt_tokens is '-3'"),
        (OWN + "0,1,2.5\n", r"output_tokens is '2\.5'"),
        (OWN + "0,1,nan\n", "output_tokens is 'nan'"),
        (OWN + "0,1,2147483648\n", "output_tokens is '2147483648'"),
        (OWN + "0,1,many\n", "output_tokens is 'many'"),
        (
            AZURE + "2023-13-16 18:15:46,1,1",
            "TIMESTAMP is '2023-13-16 18:15:46'; it must be a time such as 2023-11-16 18",
        ),
        (AZURE + "yesterday,1,1", r"row 1 \(line 2\): TIMESTAMP is 'yesterday'"),
        (AZURE + "2023-11-16 18:15:46,0,1", "ContextTokens is '0'; it must be a whole number"),
        (
            "arrival_s,prompt_tokens,output_tokens,id\n0,1,1,a\n1,1,1,a\n",
            r"row 2 \(line 3\): id is 'a'; .* unlike that of",
        ),
        (
            "arrival_s,prompt_tokens,output_tokens,priority\n0,1,1,hi\n",
            "priority is 'hi'; it must be a whole number fr",
        ),
        (
            "arrival_s,prompt_tokens,output_tokens,prefix_ids\n0,1,1,1;2\n",
            "prefix_ids is '1;2'; it must be whole numbers",
        ),
        (b"PAR1\xff\xfe\x00", "not a readable Parquet file: "),
        (b"PK\xff\xfe\x00", "not UTF-8 text; a trace is a CSV file with a header, JSON, JSON Lines or Parquet"),
        (OWN + '"' + "1" * 200_000, "line 2: field larger than field limit"),
    ],
)
def test_bad_file(trace, content, message):
    with pytest.raises(TraceError, match=message) as raised:
        trace(content).read()
    assert "trace.csv: " in str(raised.value) and isinstance(raised.value, ValueError)


def test_the_format_asked_for_is_required(trace):
    assert trace(OWN + "0,1,1\n", format="jaxsim_csv").read().row.tolist() == [0]
    with pytest.raises(TraceError, match="of no known trace format; valid: azure has TIMESTAMP,"):
        trace(OWN + "0,1,1\n", format="azure").read()


def test_missing_file(tmp_path):
    with pytest.raises(TraceError, match="none.csv: No such file or directory; path must name a readable trace file"):
        Trace(path=tmp_path / "none.csv").draw([0])
    with pytest.raises(TraceError, match="Is a directory"):
        Trace(path=tmp_path).draw([0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "xml"}, "format must be one of auto, jaxsim_csv, azure, .*, not 'xml'"),
        ({"rate_scale": 0.0}, "rate_scale must be a finite number greater than 0"),
        ({"limit": 0}, "limit must be null or a whole number, 1 or greater, not 0"),
        ({"block_requests": 1.5}, "block_requests must be null or a whole number"),
        ({"resample": "bootstrap"}, "resample must be one of none, block_bootstrap"),
        ({"on_infeasible": "skip"}, "on_infeasible must be one of error, reject"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        Trace(path="trace.csv", **options)
