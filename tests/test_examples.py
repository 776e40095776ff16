"""Every numbered example runs, says something and saves its picture."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
MINUTES = ("04_schedulers", "05_prefill_decode")
"""They compile a program for every scheduler, or for whole fleets."""


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, marks=[pytest.mark.slow] * (path.stem in MINUTES), id=path.stem) for path in EXAMPLES],
)
def test_example(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.count("\n") > 3
    assert list(tmp_path.glob("*.png"))


def test_the_readme_lists_them() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for example in EXAMPLES:
        assert f"(examples/{example.name})" in readme
