"""The answer of an analysis in the terminal."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jaxsim.analysis.answer import Answer, Row
from jaxsim.report.figures import figure, percent, time_unit

_ROWS = 40
"""Most rows shown; the table that is saved has them all."""

_MANY = 1000
"""Columns, more than any table here needs."""

_ACRONYMS = ("ttft", "tpot", "itl", "e2e", "slo", "kv", "ci")


def print_answer(answer: Answer, console: Console | None = None) -> None:
    """Print the answer in words, its table and its warnings.

    Args:
        answer: of any analysis.
        console: where to; standard output by default.
    """
    console = console or Console(highlight=False)
    for place, sentence in enumerate(answer.sentences):
        console.print(Text(sentence, style="" if place else "bold"))
    if answer.rows:
        console.print()
        _print_table(answer.rows, console)
    if answer.warnings:
        console.print()
    for warning in answer.warnings:
        console.print(Text(f"! {warning}", style="yellow"))


def _print_table(rows: Sequence[Row], console: Console) -> None:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    cells = []
    for name in rows[0]:
        heading, column = _column(name, [row[name] for row in rows[:_ROWS]])
        cells.append(column)
        text = any(isinstance(row[name], str) for row in rows)
        longest = max(len(word) for cell in column for word in cell.split() or [""])
        table.add_column(heading, justify="left" if text else "right", no_wrap=not text, min_width=longest)
    for row in zip(*cells, strict=True):
        table.add_row(*map(Text, row))
    needed = console.measure(table, options=console.options.update(max_width=_MANY)).maximum
    if not console.is_terminal:  # a file or a pipe has no width
        console.width = max(needed, console.width)
    console.print(table)
    if len(rows) > _ROWS:
        console.print(f"... and {len(rows) - _ROWS} more rows")


def _column(name: str, values: Sequence[Any]) -> tuple[str, list[str]]:
    """Heading and cells of a column; times in a unit that fits the most of them."""
    sizes = [abs(v) for v in values if isinstance(v, float) and v]
    if name.endswith("_s") and not name.endswith("_per_s") and sizes:
        scale, unit = time_unit(sorted(sizes)[len(sizes) // 2])
        values = [value / scale if isinstance(value, float) else value for value in values]
        return f"{_heading(name)}\n{unit}", [_cell("", value) for value in values]
    return _heading(name), [_cell(name, value) for value in values]


def _heading(name: str) -> str:
    words = name.replace("_per_s", "/s").replace("_s_", "_").removesuffix("_s").replace(".", "_").split("_")
    return "\n".join(word.upper() if word in _ACRONYMS else word for word in words)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if name.endswith(("_error", "_change")):
        return f"{value:+.1%}"
    if name.endswith(("attainment", "utilisation", "_share")):
        return percent(value)
    return figure(value)
