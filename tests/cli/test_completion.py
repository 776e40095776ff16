"""Completion scripts: what bash, zsh and fish themselves offer."""

import shutil
import subprocess

import pytest

from jaxsim.cli.completion import script
from jaxsim.cli.main import _COMMANDS, main, parser

LINES = {
    "jaxsim ru": {"run"},
    "jaxsim trace f": {"fit"},
    "jaxsim run --prec": {"--precision"},
    "jaxsim run s.yaml --requests ": {"csv", "parquet", "none"},
    "jaxsim run --model llama-3.1-": {"llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b"},
    "jaxsim run --hardware h100": {"h100-sxm", "h100-pcie", "h100-nvl"},
    "jaxsim run --workload r": {"rag", "reasoning"},
    "jaxsim presets ag": {"agentic"},
    "jaxsim init --preset su": {"summarisation"},
    "jaxsim completion z": {"zsh"},
}


def offered(shell: str) -> dict[str, set[str]]:
    """What the shell offers for the last word of each line."""
    code = [script(parser(), shell)]
    for line in LINES:
        words = line.split(" ")
        if shell == "bash":
            told = " ".join(f"'{word}'" for word in words)
            code += [f"COMP_WORDS=({told}); COMP_CWORD={len(words) - 1}; _jaxsim", "printf '%s\\n' \"${COMPREPLY[@]}\""]
        else:
            code.append(f"complete -C '{line}'")
        code.append("echo ----")
    answer = subprocess.run([shell, "-c", "\n".join(code)], capture_output=True, text=True, timeout=60, check=True)
    assert not answer.stderr
    found = answer.stdout.split("----\n")[: len(LINES)]
    return {
        line: {offer.partition("\t")[0] for offer in offers.splitlines()}
        for line, offers in zip(LINES, found, strict=True)
    }


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_offers(shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not on this machine")
    assert offered(shell) == LINES


def test_zsh_reads_its_script() -> None:
    if not shutil.which("zsh"):
        pytest.skip("zsh is not on this machine")
    code = f"autoload -Uz compinit && compinit -D -u\n{script(parser(), 'zsh')}\nwhich _jaxsim_trace_fit _jaxsim_run"
    answer = subprocess.run(["zsh", "-f", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "_arguments" in answer.stdout and not answer.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    for command in _COMMANDS:
        assert command.__name__.rpartition(".")[2] in text
    for option in ("precision", "tensor-parallel", "spread-ticks", "plot-format"):
        assert option in text
