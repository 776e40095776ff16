"""`jaxsim presets` and `jaxsim init`."""

import json
from pathlib import Path

import pytest

from jaxsim.cli.main import main
from jaxsim.config.io import load_scenario
from jaxsim.config.presets import PRESETS


def test_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(PRESETS)
    assert main(["presets", "rag"]) == 0
    shown = capsys.readouterr().out
    assert (
        shown.startswith("# answers from retrieved documents\n# lengths: mean, ")
        and "workload:\n  kind: synth" in shown
    )
    assert main(["presets", "rag", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workload"] == PRESETS["rag"].workload


def test_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    assert capsys.readouterr().out == "wrote scenario.yaml: try jaxsim run scenario.yaml\n"
    assert load_scenario("scenario.yaml").name == "chat"
    assert main(["init", "--preset", "code"]) == 2
    assert capsys.readouterr().err == "jaxsim: error: scenario.yaml is there already; --force replaces it\n"
    assert main(["init", "--preset", "code", "--force"]) == 0
    assert load_scenario("scenario.yaml").name == "code"
    capsys.readouterr()
    assert main(["init", "-"]) == 0
    assert capsys.readouterr().out.startswith("# People chatting with an assistant.\n# Run it with: jaxsim run FILE\n")
    assert main(["run", "scenario.yaml", "--seeds", "1", "--set", "workload.num_requests=120"]) == 0


@pytest.mark.parametrize("command", [["presets", "caht"], ["init", "--preset", "caht"]])
def test_unknown_preset(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command) == 2
    assert capsys.readouterr().err.startswith("jaxsim: error: unknown preset 'caht'; did you mean chat? valid: chat, ")
