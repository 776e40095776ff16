"""Exact texts kept in files beside the tests: entries of a title in brackets and the text below it.

After a deliberate change of words: `UPDATE_SNAPSHOTS=1 pytest -p no:xdist tests/config tests/cli`, then read the diff.
"""

import os
from pathlib import Path


def check_snapshot(file: Path, title: str, text: str) -> None:
    """Assert that `text` is what `file` has under `title`; with UPDATE_SNAPSHOTS set, write it there instead."""
    kept = _read(file)
    if os.environ.get("UPDATE_SNAPSHOTS"):
        kept[title] = text
        file.write_text("\n".join(f"[{title}]\n{text}\n" for title, text in kept.items()), encoding="utf-8")
    assert kept.get(title) == text


def _read(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    entries = ("\n" + file.read_text(encoding="utf-8")).split("\n[")[1:]
    return {title: text.strip("\n") for title, _, text in (entry.partition("]\n") for entry in entries)}
