"""The documentation: it builds strictly, and every command, example and scenario in it works, page by page."""

import copy
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import jaxsim
from jaxsim.cli.main import _COMMANDS, main
from jaxsim.cluster.routing import ROUTERS
from jaxsim.config.io import dump_scenario, load_scenario, parse_scenario
from jaxsim.config.text import parse_yaml
from jaxsim.engine.policy import POLICIES
from jaxsim.workload.trace import FORMATS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NAMES = [str(page.relative_to(DOCS)) for page in PAGES]
SLOW = {"policy.md": pytest.mark.slow, "disaggregation.md": pytest.mark.slow}
"""Pages for which the whole engine is compiled more than once."""

LANGUAGES = {"console", "python", "yaml", "sh"}
"""console: commands that are run; sh: commands that need a shell, a network or files of one's own."""


def blocks(page: Path) -> list[tuple[str, str]]:
    return FENCE.findall(page.read_text(encoding="utf-8"))


def text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, with the examples of the repository."""
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.mark.parametrize("page", [pytest.param(page, marks=SLOW.get(page.name, ())) for page in PAGES], ids=NAMES)
def test_every_block_works(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for language, block in blocks(page):
        assert language in LANGUAGES, f"a block of {language or 'nothing'}"
        if language == "python":
            exec(compile(block, str(page), "exec"), names)
        elif language == "console":
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                assert words[0] == "jaxsim"
                assert main([*words[1:], "--no-progress"] if words[1] == "run" else words[1:]) == 0, line
                capsys.readouterr()
        elif language == "yaml":
            check_scenario(parse_yaml(block, str(page)))


def check_scenario(data: dict[str, Any]) -> None:
    """A whole scenario, or sections of one."""
    whole: Any = copy.deepcopy(dump_scenario(load_scenario("examples/chat.yaml")))
    if "scheduler" in data:
        whole["cluster"]["instances"][0]["scheduler"] = data.pop("scheduler")
    parse_scenario({**whole, **data})


def test_it_builds_strictly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stdout + built.stderr
    api = (tmp_path / "api.html").read_text(encoding="utf-8")
    assert "Time to first token" in api or "Simulate a scenario." in api
    for page in tmp_path.rglob("*.html"):
        assert "fonts.googleapis" not in page.read_text(encoding="utf-8"), page


def test_the_api_page_has_every_public_name() -> None:
    listed = set(re.findall(r"^::: jaxsim\.(\S+)$", text("api.md"), flags=re.MULTILINE))
    for name, home in jaxsim._HOMES.items():
        module = sys.modules.get(getattr(getattr(jaxsim, name), "__module__", ""), None)
        assert module is not None
        assert f"{module.__name__.removeprefix('jaxsim.')}.{name}" in listed, f"{home}.{name} is not in docs/api.md"


def test_every_scheduler_router_format_and_command_is_described() -> None:
    schedulers, workloads, everything = text("schedulers.md"), text("workloads.md"), "".join(map(Path.read_text, PAGES))
    for kind in POLICIES:
        assert f"\n## {kind}\n" in schedulers
    for kind in ROUTERS:
        assert f"| `{kind}` |" in schedulers
    for command in _COMMANDS:
        assert f"jaxsim {command.__name__.rpartition('.')[2]}" in everything
    spelled = workloads.lower().replace("-", "").replace(" ", "")
    for name in FORMATS:
        word = {"jaxsim_csv": "jaxsim", "vllm_bench": "vllmbench", "lengths": "listsoflengths"}.get(name, name)
        assert word.replace("_", "").replace("otel", "opentelemetry") in spelled, name
