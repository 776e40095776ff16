"""Every analysis as a command: says its answer, writes what it says, and is JSON on request."""

import csv
import json
from pathlib import Path

import pytest

from jaxsim.cli.main import main
from tests.cli.scenarios import SMALL

COMMANDS = {
    "capacity": "capacity {file} --set slo.ttft_s.p90=0.03 --precision 10%",
    "ratio": "ratio {file} --accelerators 2 --set slo.e2e_s.p90=0.5 --set cluster.kv_transfer.latency_s=1e-3 "
    "--set scheduler.max_num_seqs=64 --horizon terminating --precision 50%",
    "sweep": "sweep {file} --vary scheduler.max_num_seqs=4,8 --vary workload.arrivals.rate=10,20",
    "sensitivity": "sensitivity {file} --statistic e2e_s.mean --vary latency.base_s --vary clock",
    "optimise": "optimise {file} --objective ttft_s.mean --vary scheduler.max_num_seqs=2:16 --trials 4",
    "explain": "explain {file}",
    "queueing": "queueing {file} --simulate",
    "compare": "compare {file} --with latency.base_s=6e-3 --statistic ttft_s.mean --statistic e2e_s.p90",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


@pytest.mark.parametrize("question", COMMANDS)
def test_an_analysis_says_and_writes_its_answer(
    question: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = COMMANDS[question].format(file=file).split()
    out = tmp_path / "out"
    assert main([*words, "--out", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == [f"{question}.{end}" for end in ("csv", "json", "png")]
    told = capsys.readouterr()
    content = json.loads((out / f"{question}.json").read_text())
    assert content["question"] == question and content["answer"]
    assert " ".join(content["answer"][0].split()) in " ".join(told.out.split())
    assert told.err == "" and f"wrote {out}/" in told.out
    rows = list(csv.DictReader((out / f"{question}.csv").read_text().splitlines()))
    assert len(rows) == len(content["table"]) > 0 and list(rows[0]) == list(content["table"][0])
    assert (out / f"{question}.png").read_bytes().startswith(b"\x89PNG")

    again = tmp_path / "again"
    assert main([*words, "--out", str(again), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == content
    for path in out.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes()


def test_out_is_checked_before_the_work(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queueing", str(file), "--out", str(file)]) == 2
    assert capsys.readouterr().err == f"jaxsim: error: --out {file}: {file} is a file; --out needs a folder\n"


def test_run_to_a_precision(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["run", str(file), "--precision", "e2e_s.mean=1%", "--horizon", "terminating", "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert "mean E2E is" in told.out and "jaxsim: note: mean E2E to ±0.01: about" in told.err
    names = ["manifest.json", "monte_carlo.csv", "monte_carlo.json", "monte_carlo.png", "requests.csv", "summary.json"]
    assert sorted(path.name for path in out.iterdir()) == names
    low, high = json.loads((out / "summary.json").read_text())["e2e_s"]["mean_ci"]
    assert (high - low) / (high + low) < 0.01


def test_run_says_what_a_slower_clock_does(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["sensitivity", str(file), "--vary", "clock", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["table"][0]
    assert main(["run", str(file), "--sensitivity-to-clock", "--out", str(out)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"A 1 % slower clock moves P99 TTFT by {row['elasticity']:+.2f} %" in told
    names = ["manifest.json", "requests.csv", *(f"sensitivity.{end}" for end in ("csv", "json", "png")), "summary.json"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert main(["run", str(file), "--sensitivity-to-clock", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sensitivity_to_clock"] == row
    assert main(["run", str(file), "--sensitivity-to-clock", "--resume", "--out", str(out)]) == 2
    assert "cannot be used with --sensitivity-to-clock" in capsys.readouterr().err
