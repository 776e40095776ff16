"""HTML without surprises: every text and attribute is escaped, unless it is markup made here."""

import html
import re
from collections.abc import Iterable

_VOID = frozenset({"br", "meta", "link", "hr"})

_UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|s|µs|min)(?!\w))")


class Markup(str):
    """Text that is HTML already."""


Child = str | int | float | None | Iterable["Child"]
"""What a tag may hold: texts and numbers (escaped), markup, lists of these; None is nothing."""


def tag(_name: str, *children: Child, **attributes: str | int | float | None) -> Markup:
    """An element.

    Args:
        _name: its name.
        *children: what is in it.
        **attributes: a trailing underscore is dropped (`class_`), others become hyphens; None leaves one out.
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if _name in _VOID:
        return Markup(f"<{_name}{written}>")
    return Markup(f"<{_name}{written}>{markup(children)}</{_name}>")


def markup(child: Child) -> Markup:
    """The markup of texts, numbers, markup and lists of these; no line breaks between a number and its unit."""
    if child is None:
        return Markup()
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int | float):
        return Markup(_UNIT.sub("\u00a0", html.escape(str(child))))
    return Markup("".join(map(markup, child)))
