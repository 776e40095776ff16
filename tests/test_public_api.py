"""`import jaxsim` offers the public names, says the same to type checkers, and does not wait for JAX."""

import ast
import subprocess
import sys
from pathlib import Path

import jaxsim


def test_every_public_name_loads() -> None:
    for name in jaxsim._HOMES:
        assert getattr(jaxsim, name).__name__ == name
    assert set(jaxsim._HOMES) <= set(dir(jaxsim))


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    module = ast.parse(Path(jaxsim.__file__).read_text(encoding="utf-8"))
    block = next(node for node in module.body if isinstance(node, ast.If))
    seen = {
        alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == {name: f"jaxsim.{home}" for name, home in jaxsim._HOMES.items()}


def test_import_does_not_load_jax() -> None:
    code = "import sys, jaxsim; jaxsim.__version__; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
