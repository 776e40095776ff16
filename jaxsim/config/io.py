"""Scenarios from files and back to plain data."""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from jaxsim.config.errors import ScenarioError
from jaxsim.config.facts import look_beside
from jaxsim.config.overrides import Override, parse_override
from jaxsim.config.presets import expanded
from jaxsim.config.reader import plain
from jaxsim.config.schema import READER, Scenario
from jaxsim.config.text import read_file


def load_scenario(path: str | PathLike[str], overrides: Iterable[str] = ()) -> Scenario:
    """Read a scenario file (YAML, or TOML if its name ends in `.toml`).

    Paths of files in it are relative to the scenario file; in `overrides` they are relative to the current folder.

    Args:
        path: The file.
        overrides: `key.path=value` texts, each of which changes one key, such as `cluster.instances.0.count=4`; with
            one group of instances, `scheduler.max_num_seqs=64` is enough. Values are YAML. The last one wins.

    Raises:
        ScenarioError: If the file or an override is not valid; the message names it, the key and what is valid.
    """
    file = Path(path)
    data = read_file(file)
    if not isinstance(data, dict):
        raise ScenarioError("must hold a scenario: keys such as workload and cluster", source=str(file))
    look_beside(file.parent, data)
    return parse_with(data, overrides, str(file))


def parse_with(data: dict[str, Any], overrides: Iterable[str], source: str) -> Scenario:
    """A scenario from plain data with some keys changed, in place.

    Args:
        data: as for `parse_scenario`.
        overrides: as for `load_scenario`.
        source: where errors say that the data are from.

    Raises:
        ScenarioError: With the path of the first key at fault, and the source or the override that gave its value.
    """
    given = []
    for text in overrides:
        given.append(parse_override(text, data))
        given[-1].apply(data)
    try:
        return parse_scenario(data)
    except ScenarioError as error:
        raise ScenarioError(error.problem, error.key, _source(error.key, source, given)) from None


def parse_scenario(data: Any) -> Scenario:
    """A scenario from plain data: what `dump_scenario` gives, or a YAML file parsed by any YAML reader.

    Raises:
        ScenarioError: With the path of the first key at fault.
    """
    if isinstance(data, Mapping) and "workload" in data:
        data = {**data, "workload": expanded(data["workload"])}
    return READER.read(Scenario, data)


def dump_scenario(scenario: Scenario) -> dict[str, Any]:
    """A scenario as plain data (dicts, lists, text, numbers) with every key; `parse_scenario` reads it back, equal."""
    return plain(scenario)


def _source(key: str, source: str, overrides: list[Override]) -> str:
    """Who gave `key` its value: the override that did, else the source, with the overrides of keys beside it."""
    for override in reversed(overrides):
        if override.covers(key):
            return override.source
    return " with ".join([source, *(override.source for override in overrides if override.is_beside(key))])
