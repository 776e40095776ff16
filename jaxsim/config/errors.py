"""What is wrong with a scenario, in one sentence that names the key and what is valid."""

import difflib
from collections.abc import Iterable, Mapping


class ScenarioError(ValueError):
    """A scenario that cannot be used.

    Attributes:
        problem: What is wrong; what is valid.
        key: Path of the key at fault as `--set` writes it, such as `cluster.instances.0.count`; "" if none.
        source: The file or option that said so; "" for a scenario built in Python.
    """

    def __init__(self, problem: str, key: str = "", source: str = ""):
        super().__init__(problem, key, source)
        self.problem, self.key, self.source = problem, key, source

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, self.key, self.problem) if part)


def choices(name: str, valid: Iterable[str]) -> str:
    """What to write instead of `name`: the nearest valid name, then all that are valid."""
    names = list(valid)
    listed = f"valid: {', '.join(names)}"
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}? {listed}" if near else listed


def shown(value: object) -> str:
    """`value` as a message quotes it: short, on one line, in the words of a scenario file."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a section of keys"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}...{text[-1]}"
