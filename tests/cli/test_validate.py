"""`jaxsim validate`."""

import json
from pathlib import Path

import pytest

from jaxsim.cli.main import main
from tests.cli.scenarios import SMALL


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(SMALL)
    assert main(["run", "s.yaml", "--seeds", "1", "--out", "measured"]) == 0
    capsys.readouterr()


def test_prints_errors_and_writes_a_picture(files: None, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    command = ["validate", "s.yaml", "measured/requests.csv", "--warmup", "10", "--plot", "overlay.png"]
    assert main([*command, "--set", "latency.base_s=0.0055", "--out", "out"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("The largest error is +") and "\nTPOT: mean +" in out and "Half of the 40 requests" in out
    assert Path("overlay.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads(Path("out/validate.json").read_text())["requests"] == 40
    assert main(["validate", "s.yaml", "measured/requests.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["per_request_error"]["e2e_s"] < 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["s.yaml"], "the following arguments are required: MEASURED"),
        (["s.yaml", "missing.csv"], "missing.csv: No such file or directory"),
        (["s.yaml", "measured/requests.csv", "--arrival-stamp", "queued"], "no queued_s in at least one row"),
        (["s.yaml", "measured/requests.csv", "--warmup", "-1"], "--warmup"),
        (
            ["s.yaml", "measured/requests.csv", "--warmup", "50"],
            "warmup_requests (50) must be less than the number",
        ),
        (["s.yaml", "measured/requests.csv", "--plot", "s.yaml/x.png"], "s.yaml is a file; --out needs a folder"),
    ],
)
def test_bad_input(files: None, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", *arguments]) == 2
    answer = capsys.readouterr()
    assert answer.out == "" and message in answer.err and answer.err.count("\n") == 1
