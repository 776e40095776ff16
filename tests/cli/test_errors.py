"""What goes wrong on the command line ends with one message, the right exit code and nothing written."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jaxsim.simulate
from jaxsim.cli.main import main
from jaxsim.result import Result
from tests.cli.scenarios import SMALL, TRACE
from tests.snapshots import check_snapshot

Run = Callable[..., Result]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "simulate",
        "rum s.yaml",
        "run",
        "run --model llama-3.1-8b --rate 6",
        "run --rate 6",
        "run s.yaml --rate 6",
        "run --model llama-3.1-8b --hardware h100-sxm --rate 0",
        "run --model llama-3.1-8b --hardware h100-sxm --workload caht",
        "run --model llama-3.1-8b --hardware h100-sxm --dtype bf17",
        "run --model llama-3.1-8b --hardware h100-sxm --output-tokens few",
        "run --model llama-3.1-8b --hardware h100-sxm --set workload.arrivals.rat=3",
        "run --model deepseek-v3 --hardware a10 --rate 6",
        "run s.yaml --seed 3",
        "run s.yaml --seeds 0",
        "run s.yaml --seeds many",
        "run s.yaml --devices some",
        "run s.yaml --requests cvs --out results",
        "run s.yaml --requests csv",
        "run s.yaml --precision ttft_s.p99",
        "run s.yaml --precision ttft_s.p99=200%",
        "run s.yaml --precision ttft.p=2%",
        "run s.yaml --precision ttft_s.p99=2% --seeds 3",
        "run s.yaml --percentile 99",
        "run s.yaml --percentile p99.9 --precision ttft_s.p99=2%",
        "run s.yaml --horizon steady",
        "run s.yaml --out s.yaml",
        "run s.yaml --out s.yaml/results",
        "run s.yaml --report .",
        "run s.yaml --report missing/report.html",
        "run s.yaml --plots s.yaml",
        "run s.yaml --plots plots --plot-format gif",
        "run s.yaml --timeline trace.json --coordinator 127.0.0.1:9000 --num-processes 1 --process-id 0",
        "run s.yaml --metrics m.prom --out results --resume --requests none",
        "ratio s.yaml",
        "ratio s.yaml --accelerators none",
        "ratio s.yaml --accelerators 8",
        "ratio s.yaml --accelerators 8 --layouts 1,two",
        "ratio s.yaml --accelerators 8 --set slo.ttft_s=1",
        "ratio s.yaml --accelerators 1 --set slo.ttft_s=1 --set cluster.kv_transfer.latency_s=1e-3",
        "ratio s.yaml --accelerators 8 --set slo.ttft_s=1 --set cluster.kv_transfer.latency_s=1e-3 --layouts 1,2",
        "ratio s.yaml --accelerators 8 --set slo.ttft_s=1 --set cluster.kv_transfer.bandwidth_bytes_per_s=1e9",
        "report results",
        "report results --timeline missing/trace.json",
        "run missing.yaml --out results",
        "run s.yaml --out results --set workload.arrivals.rate=-1",
        "run s.yaml --out results --set scheduler.max_num_seq=3",
        "run s.yaml --out results --set monte_carlo.warmup_requests=50",
        "run s.yaml --out results --set scheduler.max_model_len=20",
        "run s.yaml --out results --set kv_cache.num_blocks=2",
        "run t.yaml --out results --set workload.path=missing.csv",
        "run t.yaml --out results --set workload.path=empty.csv",
        "run t.yaml --out results --set workload.path=words.csv",
        "run t.yaml --out results --set workload.path=nan.csv",
        "run t.yaml --out results --set workload.path=zero.csv",
        "run t.yaml --out results --set workload.path=long.csv",
    ],
)
def test_bad_input(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(SMALL)
    Path("t.yaml").write_text(TRACE)
    head = "arrival_s,prompt_tokens,output_tokens\n0.0,5,5\n"
    for name, rows in {"empty": "", "words": "1.0,5,many\n", "nan": "nan,5,5\n", "zero": "1,5,0\n"}.items():
        Path(f"{name}.csv").write_text(head + rows if rows else rows)
    Path("long.csv").write_text(head + "1.0,40000,5\n")

    assert main(line.split()) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.startswith("jaxsim: error: ") and output.err.count("\n") == 1
    assert not Path("results").exists()
    check_snapshot(Path(__file__).with_suffix(".txt"), f"jaxsim {line}", output.err.strip())


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "s.yaml").write_text(SMALL)
    return str(tmp_path / "s.yaml")


def changed(**summary: Any) -> Run:
    """The real front door, with some of what it reports changed."""
    real = jaxsim.simulate.run

    def run(*args: Any, **options: Any) -> Result:
        result = real(*args, **options)
        manifest = {**result.manifest, "interrupted": summary.pop("interrupted", False)}
        return dataclasses.replace(result, summary={**result.summary, **summary}, manifest=manifest)

    return run


def raising(error: BaseException) -> Run:
    def run(*args: Any, **options: Any) -> Result:
        raise error

    return run


def test_an_incomplete_simulation_is_written_and_is_exit_code_3(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jaxsim.simulate, "run", changed(seeds_incomplete=1))
    assert main(["run", file, "--out", str(tmp_path / "results")]) == 3
    assert (tmp_path / "results" / "summary.json").exists()


def test_ctrl_c_keeps_what_had_finished(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jaxsim.simulate, "run", changed(interrupted=True, seeds=1))
    out = str(tmp_path / "results")
    assert main(["run", file, "--out", out]) == 130
    assert (tmp_path / "results" / "summary.json").exists()
    assert capsys.readouterr().err == (
        f"jaxsim: interrupted; 1 of 2 seeds had finished, they are in {out}; --resume goes on\n"
    )


def test_ctrl_c_before_anything_had_finished(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jaxsim.simulate, "run", raising(KeyboardInterrupt()))
    assert main(["run", file, "--out", str(tmp_path / "results")]) == 130
    assert capsys.readouterr().err == "jaxsim: interrupted; nothing was kept\n"
    assert not (tmp_path / "results").exists()


def test_what_the_machine_refuses_names_the_file(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jaxsim.simulate, "run", raising(OSError(28, "No space left on device", "results/requests.csv")))
    assert main(["run", file]) == 2
    assert capsys.readouterr().err == "jaxsim: error: results/requests.csv: no space left on device\n"


def test_other_exceptions_are_bugs_and_show_themselves(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxsim.simulate, "run", raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main(["run", file])


def test_a_traceback_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAXSIM_TRACEBACK", "1")
    with pytest.raises(ValueError, match=r"missing\.yaml"):
        main(["run", "missing.yaml"])


def test_parquet_without_its_libraries(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("jaxsim.cli.options.find_spec", lambda name: None)
    assert main(["run", file, "--out", str(tmp_path / "results"), "--requests", "parquet"]) == 2
    message = "--requests parquet needs pandas and pyarrow: pip install 'jaxsim-serving[tables]'"
    assert capsys.readouterr().err == f"jaxsim: error: {message}\n"


def test_a_reader_that_stops_reading_is_no_error() -> None:
    command = f"{sys.executable} -m jaxsim schema | head -n 1"
    answer = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "{\n", "")
