"""The progress bar: on a terminal only, on standard error only."""

import io

import pytest

from jaxsim.cli.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_shows_the_share_done_and_any_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("a [/red] name") as show:
        assert show is not None
        show(0.5)
        show(1.0)
    assert "a [/red] name" in terminal.getvalue() and "100%" in terminal.getvalue()
    assert capsys.readouterr().out == ""


def test_is_quiet_when_piped_or_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    with progress_bar("run") as show:
        assert show is None
    monkeypatch.setattr("sys.stderr", Terminal())
    with progress_bar("run", wanted=False) as show:
        assert show is None
