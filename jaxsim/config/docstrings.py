"""What a dataclass's own docstring says of it and of each field, for the JSON Schema."""

import inspect
import re

_SECTION = re.compile(r"^(Args|Attributes):\n((?:[ ]+.*\n|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+)(?: \([^)]*\))?:\s*((?:.*\n)(?:[ ]{5,}.*\n)*)", re.MULTILINE)


def summary(cls: type) -> str:
    """The docstring of `cls` up to its first section (`Attributes:` and the like), a paragraph a line."""
    text = re.split(r"^\w+:\n", _text(cls), maxsplit=1, flags=re.MULTILINE)[0]
    return "\n\n".join(_one_line(paragraph) for paragraph in text.strip().split("\n\n"))


def field_docs(cls: type) -> dict[str, str]:
    """What the `Attributes:` (or `Args:`) section of the docstring of `cls` says, by field."""
    section = _SECTION.search(_text(cls))
    return {name: _one_line(text) for name, text in _ENTRY.findall(section[2])} if section else {}


def _text(cls: type) -> str:
    return inspect.cleandoc(cls.__doc__ or "") + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())
