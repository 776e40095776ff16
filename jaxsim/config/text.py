"""Scenario files as plain data: YAML 1.2 without surprises, and TOML."""

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from jaxsim.config.errors import ScenarioError
from jaxsim.config.reader import NUMBER


def read_file(path: Path) -> Any:
    """The plain data in a YAML file, or in a TOML one if its name ends in `.toml`.

    Raises:
        ScenarioError: If the file cannot be read; with the line if it is not YAML or TOML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ScenarioError((error.strerror or str(error)).lower(), source=str(path)) from None
    except UnicodeDecodeError:
        raise ScenarioError("is not text in UTF-8; a scenario is a YAML or TOML file", source=str(path)) from None
    return _parse_toml(text, str(path)) if path.suffix == ".toml" else parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> Any:
    """The plain data of one YAML document; raises ScenarioError with the line."""
    try:
        return yaml.load(text, _Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        goes_on = error.context and (error.problem or "").startswith("but ")
        problem = f"{error.context}, {error.problem}" if goes_on else error.problem
        raise ScenarioError(f"{place}not valid YAML: {problem}", source=source) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ScenarioError(f"not valid YAML: {str(error).splitlines()[0]}", source=source) from None
    except RecursionError:
        raise ScenarioError("is nested too deeply", source=source) from None


def _parse_toml(text: str, source: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"not valid TOML: {error}", source=source) from None
    except RecursionError:
        raise ScenarioError("is nested too deeply", source=source) from None


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with YAML 1.2's scalars (`2e-05` is a number; `no` and `1:30` are text) and no key twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value} is there twice", problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)

    def construct_whole_number(self, node: yaml.ScalarNode) -> int:
        return int(node.value)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_whole_number)
for _tag, _pattern in {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+",
    "float": NUMBER.pattern + r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    "merge": r"<<",
}.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), None)


def dump_yaml(data: Any) -> str:
    """Plain data as YAML that `read_file` reads back; a list or section of plain values takes one line."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=False)


class _Dumper(yaml.SafeDumper):
    """Writes a section or list in braces if nothing in it is a section, unless it is at the top."""

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        node = super().represent_mapping(tag, mapping, flow_style)
        node.flow_style = all(isinstance(value, yaml.ScalarNode) for _, value in node.value)
        return node

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        node = super().represent_sequence(tag, sequence, flow_style)
        node.flow_style = all(isinstance(value, yaml.ScalarNode) for value in node.value)
        return node

    def ignore_aliases(self, data: Any) -> bool:
        return True
