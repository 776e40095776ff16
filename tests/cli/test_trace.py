"""`jaxsim trace`: what it prints and writes."""

import json
from pathlib import Path

import pytest

from jaxsim.cli.main import main
from jaxsim.workload import Trace

CHAT = str(Path(__file__).parents[2] / "examples" / "data" / "chat_500.csv")
LOG = (
    '{"t": "2025-01-01T00:00:01+01:00", "u": {"i": 5, "o": 2}}\n{"t": "2025-01-01T00:00:00Z", "u": {"i": 7, "o": 3}}\n'
)


def test_describe(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["trace", "describe", CHAT, "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.startswith("500 requests in 2 min 15 s: 3.69 requests/s, gaps with")
    assert main(["trace", "describe", CHAT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 500
    assert json.loads((tmp_path / "out" / "trace.json").read_text())["requests"] == 500


def test_fit_prints_a_workload(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["trace", "fit", CHAT, "--limit", "200"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"# Fitted to {CHAT} by jaxsim trace fit.\n") and "workload:\n  kind: synthetic\n" in out
    assert main(["trace", "fit", CHAT, "--limit", "200", "--out", str(tmp_path)]) == 0
    assert "workload.yaml" in capsys.readouterr().out
    assert (tmp_path / "workload.yaml").read_text() == out


def test_convert(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(LOG)
    command = ["trace", "convert", str(log), "--columns", "arrival_s=t,prompt_tokens=u.i,output_tokens=u.o"]
    assert main(command) == 0
    answer = capsys.readouterr()
    assert answer.out == "arrival_s,prompt_tokens,output_tokens\n0.0,5,2\n3599.0,7,3\n" and answer.err == ""
    assert main([*command, "--out", str(tmp_path / "trace.csv")]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'trace.csv'}: 2 requests\n"
    assert (tmp_path / "trace.csv").read_text() == answer.out


def test_convert_keeps_everything(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    header = "arrival_s,prompt_tokens,output_tokens,id,class,priority,session,queued_s,first_token_s,finish_s\n"
    text = header + '0.1,5,2,a,chat,1,s1,0.2,0.30000000000000004,1.5\n2.0,7,3,"b,c",rag,-1,s2,,,\n'
    (tmp_path / "t.csv").write_text(text)
    assert main(["trace", "convert", str(tmp_path / "t.csv"), "--to", "jaxsim_csv"]) == 0
    assert capsys.readouterr().out == text


def test_a_converted_trace_is_the_same_workload(tmp_path: Path) -> None:
    source = tmp_path / "azure.csv"
    rows = [("18:15:46.6805900", 374, 44), ("18:15:45.1", 396, 109), ("18:15:46.6805901", 7, 8)]
    source.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n" + "".join(f"2023-11-16 {t},{p},{o}\r\n" for t, p, o in rows)
    )
    assert main(["trace", "convert", str(source), "--out", str(tmp_path / "t.csv")]) == 0
    before, after = Trace(path=source).draw([0]), Trace(path=tmp_path / "t.csv").draw([0])
    for name in ("arrival_s", "prompt_tokens", "output_tokens"):
        assert getattr(before, name).tolist() == getattr(after, name).tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe"], "the following arguments are required: FILE (see jaxsim trace describe --help)"),
        (["explain", "x"], "ACTION cannot be 'explain'; valid: describe, fit, convert (see jaxsim trace --help)"),
        (["describe", "missing.csv"], "missing.csv: No such file or directory; path must name a readable trace file"),
        (["describe", CHAT, "--format", "azur"], "format must be one of auto, jaxsim_csv, azure,"),
        (["describe", CHAT, "--columns", "a"], "--columns: must be NAME=COLUMN,NAME=COLUMN..., not 'a'"),
        (["describe", CHAT, "--columns", "a=b"], "columns.a must be one of prompt_tokens, output_tokens, id,"),
        (["convert", CHAT, "--out", f"{CHAT}/x"], "chat_500.csv is a file; --out needs a folder"),
        (["convert", CHAT, "--to", "azure"], "--to cannot be 'azure'; valid: jaxsim_csv"),
    ],
)
def test_bad_input(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", *arguments]) == 2
    answer = capsys.readouterr()
    assert answer.out == "" and message in answer.err and answer.err.count("\n") == 1


@pytest.mark.parametrize("action", ["describe", "fit", "convert"])
def test_every_action_shows_an_example(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["trace", action, "--help"])
    assert f"\n  jaxsim trace {action} " in capsys.readouterr().out
