"""`--set key.path=value`: a scenario's plain data with one key changed."""

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

from jaxsim.config.errors import ScenarioError, choices, shown
from jaxsim.config.schema import Instance, Scenario
from jaxsim.config.text import parse_yaml


@dataclasses.dataclass(frozen=True)
class Override:
    """One `key.path=value`, as given.

    Attributes:
        text: The words of the user.
        path: The keys from the top of the scenario; an index in a list is a number.
        value: Plain data, parsed as YAML.
    """

    text: str
    path: tuple[str, ...]
    value: Any

    @property
    def source(self) -> str:
        """Where an error message says that a value comes from."""
        return f"--set {self.text}"

    def covers(self, key: str) -> bool:
        """Whether the value at `key` was set by this override."""
        return key == ".".join(self.path) or key.startswith(".".join(self.path) + ".")

    def is_beside(self, key: str) -> bool:
        """Whether this override changes the section that `key` is, or is in."""
        return ".".join(self.path[:-1]) in (key, key.rpartition(".")[0])

    def apply(self, data: Any) -> None:
        """Change `data` in place, making sections that are missing and copying those on the way, which may be shared.

        Raises:
            ScenarioError: If the path leads through a value or past the end of a list.
        """
        node, done = data, ""
        for key in self.path[:-1]:
            index = self._index(node, key, done)
            inner = node.get(index) if isinstance(node, dict) else node[index]
            node[index] = {} if inner is None else copy.copy(inner)
            node, done = node[index], f"{done}.{key}".lstrip(".")
        node[self._index(node, self.path[-1], done)] = self.value

    def _index(self, node: Any, key: str, done: str) -> Any:
        if isinstance(node, dict):
            return key
        if not isinstance(node, list):
            raise ScenarioError(f"is {shown(node)}, so it has no {key}", done, self.source)
        if not (key.isdecimal() and int(key) < len(node)):
            valid = f"valid: {', '.join(map(str, range(len(node))))}" if node else "the list is empty"
            raise ScenarioError(f"no entry {key} in the list; {valid}", done, self.source)
        return int(key)


def parse_override(text: str, data: Any) -> Override:
    """Read `text`, whose key may leave out `cluster.instances.0.` where `data` has one group of instances.

    Raises:
        ScenarioError: If it is not `key.path=value` with a key that a scenario has.
    """
    source = f"--set {text}"
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        raise ScenarioError("must be key.path=value, such as workload.arrivals.rate=6", source=source)
    return Override(text, tuple(_full(key.split("."), data, source)), parse_yaml(value, source))


def _full(path: Sequence[str], data: Any, source: str) -> Sequence[str]:
    scenario, instance = ([field.name for field in dataclasses.fields(cls)] for cls in (Scenario, Instance))
    if path[0] in scenario:
        return path
    if path[0] not in instance:
        raise ScenarioError(f"unknown key; {choices(path[0], [*scenario, *instance])}", path[0], source)
    try:
        groups = len(data["cluster"]["instances"])
    except (KeyError, TypeError):
        groups = 0
    if groups != 1:
        key = ".".join(path)
        raise ScenarioError(f"{groups} instance groups; say which, such as cluster.instances.0.{key}", key, source)
    return ["cluster", "instances", "0", *path]
