"""The requests of a trace file, and how most formats come to them."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Measured:
    """What a server (or its client) measured of each request; nan where it did not.

    Attributes:
        queued_s: float64 `[M]`, when the engine took the request in, on the clock of `Rows.arrival_s`.
        first_token_s: float64 `[M]`, when its first token arrived.
        finish_s: float64 `[M]`, when its last token arrived.
        gaps_s: per request the gaps between its tokens; None: not known.
    """

    queued_s: np.ndarray
    first_token_s: np.ndarray
    finish_s: np.ndarray
    gaps_s: tuple[Sequence[float], ...] | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """The valid requests of a trace file, in the order of the file.

    Attributes:
        arrival_s: float64 `[M]`, seconds, 0 or greater; None: the file does not say when requests arrive.
        prompt_tokens: int32 `[M]`, 1 or greater.
        output_tokens: int32 `[M]`, 1 or greater.
        priority: int32 `[M]`.
        class_index: int32 `[M]`, place in `class_names`.
        row: int32 `[M]`, row of the file, from 0; the formats leave it to `read`.
        class_names: in order of first appearance.
        id: text ids by row of the file, if it has them.
        session: text session names by row of the file, if it has them.
        prefix_blocks: per request the names of the blocks of its prompt: equal names, equal text up to there.
        prefix_block_tokens: tokens in such a block.
        measured: what happened to the requests, if the file says so.
        notices: sentences for the user.
    """

    arrival_s: np.ndarray | None
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    priority: np.ndarray
    class_index: np.ndarray
    row: np.ndarray
    class_names: tuple[str, ...] = ()
    id: tuple[str, ...] | None = None
    session: tuple[str, ...] | None = None
    prefix_blocks: tuple[Sequence[str], ...] | None = None
    prefix_block_tokens: int = 0
    measured: Measured | None = None
    notices: tuple[str, ...] = ()


def rows_of(
    arrival_s: np.ndarray | None, prompt_tokens: Sequence[int], output_tokens: Sequence[int], **more: Any
) -> Rows:
    """Requests, of one class and priority unless `more` says otherwise."""
    zeros = np.zeros(len(prompt_tokens), np.int32)
    defaults = {"priority": zeros, "class_index": zeros, "row": np.arange(len(prompt_tokens), dtype=np.int32)}
    return Rows(
        arrival_s=arrival_s,
        prompt_tokens=np.array(prompt_tokens, np.int32),
        output_tokens=np.array(output_tokens, np.int32),
        **{**defaults, **more},
    )


def take(rows: Rows, which: np.ndarray | slice) -> Rows:
    """Some of the requests, in the order given; `id` and `session`, which are by row of the file, stay whole."""

    def picked(column: np.ndarray | None) -> np.ndarray | None:
        return None if column is None else column[which]

    changes: dict[str, Any] = {
        name: picked(getattr(rows, name))
        for name in ("arrival_s", "prompt_tokens", "output_tokens", "priority", "class_index", "row")
    }
    order = np.arange(len(rows.row))[which]
    if rows.prefix_blocks is not None:
        changes["prefix_blocks"] = tuple(rows.prefix_blocks[place] for place in order)
    if rows.measured is not None:
        stamps: dict[str, Any] = {
            name: picked(getattr(rows.measured, name)) for name in ("queued_s", "first_token_s", "finish_s")
        }
        gaps = rows.measured.gaps_s
        stamps["gaps_s"] = None if gaps is None else tuple(gaps[place] for place in order)
        changes["measured"] = dataclasses.replace(rows.measured, **stamps)
    return dataclasses.replace(rows, **changes)


def classes_of(names: Sequence[str]) -> dict[str, Any]:
    """The fields of `Rows` about classes, from the class of each request."""
    index = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return {"class_index": np.array([index[name] for name in names], np.int32), "class_names": tuple(index)}


def seconds_since(origin_ns: int, times_ns: Sequence[int | None]) -> np.ndarray:
    """Seconds, float64 `[M]`, after `origin_ns`; whole nanoseconds, so rounded once; None is nan."""
    return np.array([np.nan if time is None else (time - origin_ns) / 10**9 for time in times_ns], np.float64)


def measured_rows(
    prompt_tokens: Sequence[int],
    output_tokens: Sequence[int],
    *,
    start_ns: Sequence[int] | None,
    ttft_ns: Sequence[int | None] | None = None,
    e2e_ns: Sequence[int | None] | None = None,
    queued_ns: Sequence[int | None] | None = None,
    gaps_ns: Sequence[Sequence[int]] | None = None,
    **more: Any,
) -> Rows:
    """Requests of a benchmark or a log, on the clock of the earliest.

    Args:
        prompt_tokens: `[M]`.
        output_tokens: `[M]`.
        start_ns: when they were sent, on any clock; None: not known.
        ttft_ns: nanoseconds from then to the first token.
        e2e_ns: nanoseconds from then to the last token.
        queued_ns: nanoseconds from then until the engine took them in.
        gaps_ns: nanoseconds between the tokens of each request.
        more: other fields of `Rows`.
    """
    origin = min(start_ns) if start_ns is not None else 0
    starts = start_ns if start_ns is not None else [0] * len(prompt_tokens)

    def stamps(durations: Sequence[int | None] | None) -> np.ndarray:
        if durations is None:
            durations = [None] * len(starts)
        return seconds_since(
            origin, [None if time is None else start + time for start, time in zip(starts, durations, strict=True)]
        )

    measured = None
    if ttft_ns is not None or e2e_ns is not None:
        gaps = None if gaps_ns is None else tuple([gap / 10**9 for gap in between] for between in gaps_ns)
        measured = Measured(stamps(queued_ns), stamps(ttft_ns), stamps(e2e_ns), gaps)
    arrival_s = None if start_ns is None else seconds_since(origin, start_ns)
    return rows_of(arrival_s, prompt_tokens, output_tokens, measured=measured, **more)


def since(starts_ns: Sequence[int], stamps_ns: Sequence[int | None] | None) -> list[int | None] | None:
    """Durations from the starts to the stamps; a stamp that is None, or before its start, is not known."""
    if stamps_ns is None:
        return None
    pairs = zip(starts_ns, stamps_ns, strict=True)
    return [None if stamp is None or stamp < start else stamp - start for start, stamp in pairs]
