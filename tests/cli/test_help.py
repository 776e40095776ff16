"""Help answers at once and shows how to use every command."""

import subprocess
import sys

import pytest

from jaxsim.cli.main import _COMMANDS, main

COMMANDS = [command.__name__.rpartition(".")[2] for command in _COMMANDS]
SLOW = ("jax", "numpy", "pydantic", "yaml", "rich", "pandas")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)], ids=" ".join
)
def test_answers_without_loading_what_is_slow(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from jaxsim.cli.main import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit as done:\n"
        "    assert not done.code\n"
        f"print('loaded:', [name for name in {SLOW!r} if name in sys.modules])\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.endswith("loaded: []\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert f"\n  jaxsim {command} " in capsys.readouterr().out


def test_python_dash_m_is_the_command() -> None:
    answer = subprocess.run([sys.executable, "-m", "jaxsim", "--version"], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0 and answer.stdout.startswith("jaxsim 0.")
