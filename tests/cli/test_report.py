"""`jaxsim run --report` and the like, and `jaxsim report` of results on disk."""

import json
from pathlib import Path

import pytest

from jaxsim.cli.main import main
from tests.cli.scenarios import SMALL
from tests.report.test_timeline import check_format

OUTPUTS = "--report r.html --plots plots --plot-format svg --timeline t.json --metrics m.prom"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(SMALL)
    return tmp_path


def check_outputs() -> None:
    page = Path("r.html").read_text(encoding="utf-8")
    assert "Where the tail comes from" in page and "small" in page
    assert len(list(Path("plots").glob("*.svg"))) == 9
    trace = json.loads(Path("t.json").read_text())
    check_format(trace)
    assert sum(event["ph"] == "X" and event["cat"] == "request" for event in trace["traceEvents"]) == 50
    assert 'vllm:request_success_total{model_name="small",engine="0"} 100' in Path("m.prom").read_text()


def test_beside_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(f"run s.yaml {OUTPUTS}".split()) == 0
    assert capsys.readouterr().out.count("wrote ") == 4
    check_outputs()


@pytest.mark.parametrize("how", ["", "--requests parquet", "--resume"])
def test_of_results_on_disk(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(f"run s.yaml --out results {how} --report same.html".split()) == 0
    assert main(f"report results {OUTPUTS}".split()) == 0
    check_outputs()
    assert Path("same.html").read_text() == Path("r.html").read_text()


def test_the_report_alone_is_put_beside_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("run s.yaml --out results --requests none".split()) == 0
    capsys.readouterr()
    assert main(["report", "results"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "wrote results/report.html: the report, for a browser\n"
    assert printed.err == "jaxsim: note: the run kept no table of requests; the report has its summary only\n"
    assert main("report results --metrics m.prom".split()) == 2


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("run s.yaml --json --metrics m.json".split()) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["num_completed"] == 100 and "wrote m.json" in printed.err
    assert json.loads(Path("m.json").read_text())["schema_version"] == 1


def test_precise_runs_have_a_report_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("run s.yaml --precision ttft_s.mean=20% --max-requests 5000 --report r.html".split()) == 0
    assert "The P99 of TTFT is" in Path("r.html").read_text()
