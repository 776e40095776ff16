"""`jaxsim schema`."""

import json

import pytest

from jaxsim.cli.main import main
from jaxsim.config.json_schema import scenario_schema


def test_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == scenario_schema()
