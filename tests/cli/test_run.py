"""`jaxsim run` on small scenarios."""

import csv
import json
from pathlib import Path

import pandas
import pytest

from jaxsim.cli.main import main
from jaxsim.config.io import load_scenario, parse_scenario
from tests.cli.scenarios import SMALL, TRACE

REQUESTS = (
    "seed,request,arrival_s,prompt_tokens,output_tokens,instance,decode_instance,"
    "first_scheduled_s,first_token_s,finish_s,preemptions,cached_tokens,status"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


def test_writes_summary_requests_and_manifest_and_says_so(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "results"
    assert main(["run", str(file), "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "requests.csv", "summary.json"]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["seeds"] == 2 and summary["num_completed"] == 100
    manifest = json.loads((out / "manifest.json").read_text())
    assert parse_scenario(manifest["scenario"]) == load_scenario(file)
    text = (out / "requests.csv").read_text()
    assert text.partition("\n")[0] == REQUESTS and len(list(csv.reader(text.splitlines()))) == 101
    printed = capsys.readouterr()
    assert "TTFT" in printed.out and f"wrote {out}/" in printed.out and "requests.csv" in printed.out
    assert printed.err == ""


def test_without_out_it_only_prints(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(file)]) == 0
    assert "TTFT" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [file]


def test_percentiles_that_are_asked_for(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["run", str(file), "--percentile", "p99.9", "--percentile", "p10"]
    assert main([*line, "--json"]) == 0
    ttft = json.loads(capsys.readouterr().out)["ttft_s"]
    assert ttft["p10"] <= ttft["p50"] <= ttft["p99"] <= ttft["p99.9"] and len(ttft["p99.9_ci"]) == 2
    assert main(line) == 0
    names = [row.split()[1] for row in capsys.readouterr().out.splitlines() if row.startswith("E2E")]
    assert names == ["mean", "P10", "P50", "P90", "P95", "P99", "P99.9"]


def test_parquet_holds_what_csv_holds(file: Path, tmp_path: Path) -> None:
    for requests in ("csv", "parquet"):
        assert main(["run", str(file), "--out", str(tmp_path / requests), "--requests", requests]) == 0
    from_csv = pandas.read_csv(tmp_path / "csv" / "requests.csv")
    from_parquet = pandas.read_parquet(tmp_path / "parquet" / "requests.parquet")
    assert list(from_parquet.columns) == list(from_csv.columns)
    assert from_parquet["finish_s"].tolist() == from_csv["finish_s"].tolist()
    assert from_parquet["status"].tolist() == from_csv["status"].tolist()


def test_no_table_of_requests_on_request(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results"
    assert main(["run", str(file), "--out", str(out), "--requests", "none"]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "summary.json"]
    assert "requests.csv" not in capsys.readouterr().out


def test_json_prints_the_summary(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(file), "--json", "--out", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "summary.json").read_text())


def test_seeds_and_set_change_the_scenario(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(file), "--json", "--seeds", "3", "--set", "workload.num_requests=20"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["seeds"] == 3 and summary["num_requests"] == 60


def test_same_scenario_same_bytes(file: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert main(["run", str(file), "--out", str(tmp_path / name), "--devices", "1"]) == 0
    for name in ("summary.json", "requests.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_notices_go_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "replay.yaml"
    file.write_text(TRACE)
    (tmp_path / "trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n1.0,5,5\n0.0,5,5\n")
    assert main(["run", str(file), "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["num_completed"] == 2
    assert printed.err.startswith("jaxsim: note: ") and "sorted" in printed.err
