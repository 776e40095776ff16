"""What a scenario names in place of a section: models and accelerators by name, and these and latencies by file."""

from pathlib import Path
from typing import Any

from jaxsim.config.errors import ScenarioError
from jaxsim.config.text import read_file
from jaxsim.latency import AbstractLatency
from jaxsim.specs import HardwareSpec, ModelSpec, from_hf_config, named_hardware, named_model

_SUFFIXES = (".yaml", ".yml", ".json", ".toml")


def is_path(text: str) -> bool:
    """Whether a text is a path rather than a name: it ends as files do, or begins as paths do."""
    return text.endswith(_SUFFIXES) or text.startswith((".", "/", "~"))


def read_model(text: str) -> Any:
    """The model of this name; or the keys in the file at this path, which may be the `config.json` of Hugging Face.

    Raises:
        ValueError: the name is not known, or the file cannot be read.
    """
    if not is_path(text):
        return named_model(text)
    data = _read(text)
    if "num_hidden_layers" in data or "text_config" in data:
        path = Path(text).resolve()
        return from_hf_config(data, name=path.parent.name if path.stem == "config" else path.stem)
    return data


def read_hardware(text: str) -> Any:
    """The accelerator of this name, or the keys in the file at this path; raises as `read_model`."""
    return _read(text) if is_path(text) else named_hardware(text)


def read_latency(text: str) -> Any:
    """The keys of the latency in the file at this path, such as `jaxsim calibrate` writes; raises as `read_model`."""
    if not is_path(text):
        return text
    path = Path(text).expanduser()
    data = _keys(path)
    data = data.get("latency", data)
    look_beside(path.parent, data)
    return data


def look_beside(folder: Path, data: Any) -> None:
    """Make every file that is named relative to `folder`, in place. Sections may be shared (YAML aliases)."""
    _look_beside(folder, data, set())


def _look_beside(folder: Path, data: Any, seen: set[int]) -> None:
    if id(data) in seen:
        return
    seen.add(id(data))
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        if isinstance(value, str) and (key == "path" or key in ("model", "hardware", "latency") and is_path(value)):
            data[key] = str(folder / value)
        else:
            _look_beside(folder, value, seen)


def _read(text: str) -> dict[str, Any]:
    path = Path(text).expanduser()
    return {"name": path.stem, **_keys(path / "config.json" if path.is_dir() else path)}


def _keys(path: Path) -> dict[str, Any]:
    data = read_file(path)
    if not isinstance(data, dict):
        raise ScenarioError("must hold keys such as those of jaxsim schema", source=str(path))
    return data


FACTS = {ModelSpec: read_model, HardwareSpec: read_hardware, AbstractLatency: read_latency}
"""What reads the text that stands in place of a section."""
