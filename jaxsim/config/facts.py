"""Models and accelerators that a scenario names: by name, or by the path of a file that describes one."""

from pathlib import Path
from typing import Any

from jaxsim.config.errors import ScenarioError
from jaxsim.config.text import read_file
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


def _read(text: str) -> dict[str, Any]:
    path = Path(text).expanduser()
    data = read_file(path / "config.json" if path.is_dir() else path)
    if not isinstance(data, dict):
        raise ScenarioError("must hold keys such as those of jaxsim schema", source=str(path))
    return {"name": path.stem, **data}


FACTS = {ModelSpec: read_model, HardwareSpec: read_hardware}
"""What reads the text that stands in place of a section."""
