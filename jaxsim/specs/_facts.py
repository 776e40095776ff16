"""Tables of facts that ship with jaxsim, and the lookup of their names."""

import csv
import difflib
from collections.abc import Iterable
from importlib.resources import files


def read_table(name: str) -> list[dict[str, str]]:
    """The rows of one CSV table in `specs/facts`, each with the columns that have a value."""
    text = (files("jaxsim.specs") / "facts" / f"{name}.csv").read_text(encoding="utf-8")
    return [{key: value for key, value in row.items() if value} for row in csv.DictReader(text.splitlines())]


def unknown(what: str, name: str, known: Iterable[str]) -> ValueError:
    """The error for a name that is not in a table: the nearest one and all that are."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return ValueError(f"{what} {name!r} is not known; {hint}known: {', '.join(names)}")
