"""Command lines: argparse with one-line errors that name the nearest valid choice."""

import argparse
import difflib
import re
from typing import Any, NoReturn


class UsageError(ValueError):
    """A command line that cannot be understood."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` and keeps the line breaks of descriptions and examples."""

    def __init__(self, **options: Any):
        super().__init__(**options, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{_nearest(message)} (see {self.prog} --help)")


def whole_number(text: str) -> int:
    """An argument that is a whole number, 1 or greater."""
    if not (text.isdecimal() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or greater, not {text!r}")
    return int(text)


def _nearest(message: str) -> str:
    """`message` with the choice nearest to the invalid one, if it is about one."""
    invalid = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
    if not invalid:
        return message
    near = difflib.get_close_matches(invalid[1], invalid[2].replace("'", "").split(", "), n=1)
    return message + (f"; did you mean {near[0]}?" if near else "")
