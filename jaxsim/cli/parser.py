"""Command lines: argparse with one-line errors that name the nearest valid choice."""

import argparse
import difflib
import math
import re
from typing import Any, NoReturn

from jaxsim.config.errors import choices


class UsageError(ValueError):
    """A command line that cannot be understood."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` and keeps the line breaks of descriptions and examples."""

    def __init__(self, **options: Any):
        super().__init__(**options, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)

    def parse_known_args(self, *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
        """As in the base class, but words that are not known are an error of the command that they were given to."""
        known, unknown = super().parse_known_args(*args, **kwargs)
        if unknown:
            near = difflib.get_close_matches(unknown[0], self._option_string_actions, n=1)
            self.error(f"unknown argument {unknown[0]}" + (f"; did you mean {near[0]}?" if near else ""))
        return known, unknown

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`; where an argument is none of its choices, in the words of the scenario's errors."""
        invalid = re.fullmatch(r"argument (.*): invalid choice: '(.*?)'.*\(choose from (.*)\)", message)
        if invalid:
            argument, value, valid = invalid.groups()
            message = f"{argument} cannot be {value!r}; {choices(value, valid.replace(chr(39), '').split(', '))}"
        raise UsageError(f"{message.removeprefix('argument ')} (see {self.prog} --help)")


def natural_number(text: str) -> int:
    """An argument that is a whole number, 0 or greater."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or greater, not {text!r}")
    return int(text)


def whole_number(text: str) -> int:
    """An argument that is a whole number, 1 or greater."""
    if not (text.isdecimal() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or greater, not {text!r}")
    return int(text)


def whole_numbers(text: str) -> list[int]:
    """An argument that is a list of whole numbers, 1 or greater: `1,2,4`."""
    return [whole_number(part) for part in text.split(",")]


def positive_number(text: str) -> float:
    """An argument that is a finite number greater than 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number greater than 0, not {text!r}")
    return value
