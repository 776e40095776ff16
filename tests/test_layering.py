"""The layers of jaxsim: a module imports only from its own layer and the ones before it, so data flows one way."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "jaxsim"

LAYERS = (
    {"_version", "_component", "_arrays", "_csv", "_status", "_kernels", "_loop", "_ctrl_c"},
    {"specs"},
    {"operators"},
    {"latency"},
    {"workload"},
    {"engine"},
    {"cluster"},
    {"metrics"},
    {"config"},
    {"mean_field"},
    {"tables", "plots"},
    {"result", "checkpoint", "hosts"},
    {"warm", "job", "gathered", "simulate"},
    {"analysis"},
    {"report"},
    {"cli"},
    {"__init__", "__main__", "extend"},
)
RANK = {module: rank for rank, modules in enumerate(LAYERS) for module in modules}

NUMERIC = set().union(*LAYERS[: RANK["metrics"] + 1])
NUMERIC_LIBRARIES = {"jax", "numpy", "equinox", "jaxtyping"}
EXTRAS = {PACKAGE / "workload" / "trace" / "files.py": {"pyarrow"}}  # imported by the function that reads Parquet
LIBRARIES = {"config": {"pydantic", "pydantic_core", "yaml"}, "report": {"rich"}, "cli": {"rich"}}

FILES = sorted(PACKAGE.rglob("*.py"))


def layer_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(file: Path) -> Iterator[str]:
    """The dotted names that a file imports anywhere in it, inside functions too."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            if node.module == "jaxsim":
                yield from (f"jaxsim.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_point_to_earlier_layers(file: Path) -> None:
    rank = RANK[layer_of(file)]
    for name in imports(file):
        root, _, rest = name.partition(".")
        if root == "jaxsim":
            assert rest, "a module imports from the layer it needs, not from the package's front"
            assert RANK[rest.split(".")[0]] <= rank, f"{name} is in a later layer"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_numeric_layers_import_only_numeric_libraries(file: Path) -> None:
    foreign = {name.partition(".")[0] for name in imports(file)} - sys.stdlib_module_names - {"jaxsim"}
    if layer_of(file) in NUMERIC:
        assert foreign <= NUMERIC_LIBRARIES | EXTRAS.get(file, set())


@pytest.mark.parametrize("library", ["pydantic", "pydantic_core", "yaml", "rich"])
def test_libraries_of_files_and_terminals_stay_in_their_layers(library: str) -> None:
    users = {layer_of(file) for file in FILES if library in {name.partition(".")[0] for name in imports(file)}}
    assert users <= {layer for layer, libraries in LIBRARIES.items() if library in libraries}
