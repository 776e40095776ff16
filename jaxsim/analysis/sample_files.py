"""Files of measured iteration times."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxsim._csv import Csv, CsvError, read_csv
from jaxsim.analysis.samples import Samples, terms_of
from jaxsim.analysis.server_log import log_samples

UNITS_S = {"time_s": 1.0, "time_ms": 1e-3, "time_us": 1e-6}
"""Columns of times with the seconds of one unit."""

_FACTS = ("model", "hardware", "tp", "dtype")
_MIXED_PROMPT = 2048


class _Format(NamedTuple):
    """A layout of files."""

    columns: tuple[str, ...]
    """Those that it is known by; `time` stands for any column of `UNITS_S`."""
    read: Callable[[Csv, int], Samples]
    """The samples of a file, given the token budget of the scheduler."""


def read_samples(path: str, *, max_num_batched_tokens: int = 2048) -> Samples:
    """Read samples in any of these layouts, known by their columns (`time` is `time_s`, `time_ms` or `time_us`).

    - `prefill_tokens,prefill_context,decode_seqs,decode_context,time`: a row is an iteration, as in a table of
      `jaxsim.latency.table`.
    - `phase,batch,tokens_per_seq,time`: an iteration of one phase. `prefill`: `batch` prompts of so many tokens;
      `decode`: `batch` requests, each with so many tokens before the one being fed; `mixedC`: C tokens of prompts of
      2048 beside `batch` decodes with contexts of so many tokens.
    - `prefill_tokens,num_prefill_chunks,sum_chunk_x_kvafter,sum_chunk_sq,num_decodes,sum_decode_kv,step_seconds`: an
      iteration by its sums.
    - `arrival_s,prompt_tokens,output_tokens,first_scheduled_s,first_token_s,finish_s`: a request of one instance.

    Columns `model`, `hardware`, `tp` and `dtype` say what was measured, the same in every row. Others are ignored.

    Args:
        path: the file.
        max_num_batched_tokens: token budget of the server whose requests these are.

    Raises:
        ValueError: the file cannot be read or is none of these; or a field is not valid, with its row.
    """
    file = read_csv(path)
    unit = next((unit for unit in UNITS_S if unit in file.columns), "time_s")
    for form in _FORMATS:
        if all((unit if column == "time" else column) in file.columns for column in form.columns):
            samples = form.read(file, max_num_batched_tokens)
            digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            return replace(samples, facts=_facts(file), sha256=digest)
    valid = "; ".join(",".join(form.columns) for form in _FORMATS)
    raise CsvError(f"{path}: the columns {','.join(file.columns)} are of no known layout; valid: {valid}")


def _facts(file: Csv) -> dict[str, str]:
    facts: dict[str, str] = {}
    for name in _FACTS:
        values = dict.fromkeys(file.columns.get(name, []))
        if len(values) > 1:
            first, second, *_ = values
            raise CsvError(f"{file.path}: {name} is {first!r} in some rows and {second!r} in others; it must be one")
        facts.update((name, value) for value in values)
    return facts


def _times(file: Csv) -> np.ndarray:
    unit = next(unit for unit in UNITS_S if unit in file.columns)
    return file.seconds(unit, UNITS_S[unit])


def _steps(file: Csv, time_s: np.ndarray, **terms: np.ndarray) -> Samples:
    for row in np.flatnonzero(terms["prefill_tokens"] + terms["decode_seqs"] == 0)[:1]:
        file.fail(int(row), "the iteration is empty; it must have prompt tokens or decodes")
    return Samples(file.path, time_s, np.ones((len(file), 1)), terms_of(**terms))


def _of_points(file: Csv, budget: int) -> Samples:
    tokens, before, seqs, context = map(file.counts, _POINTS)
    return _steps(
        file,
        _times(file),
        decode_seqs=seqs,
        context_tokens=seqs * context,
        prefill_seqs=np.minimum(tokens, 1),
        prefill_tokens=tokens,
        prefill_pairs=tokens * (before + tokens),
        prefill_squares=tokens**2,
    )


def _of_phases(file: Csv, budget: int) -> Samples:
    phases = file.columns["phase"]
    chunk = np.zeros(len(file))
    for row, phase in enumerate(phases):
        mixed = phase.removeprefix("mixed")
        if phase.startswith("mixed") and mixed.isdecimal() and int(mixed):
            chunk[row] = int(mixed)
        elif phase not in ("prefill", "decode"):
            file.fail(row, f"phase is {phase!r}; it must be prefill, decode or mixed and a number of tokens")
    batch, tokens = file.counts("batch"), file.counts("tokens_per_seq")
    alone, beside = np.array(phases) == "prefill", chunk > 0
    prompts = np.where(alone, batch, np.where(beside, np.maximum(1, chunk / _MIXED_PROMPT), 0))
    size = np.where(alone, tokens, chunk / np.maximum(prompts, 1))
    before = np.where(beside, (_MIXED_PROMPT - size) / 2, 0)  # a chunk from the middle of its prompt
    seqs = np.where(alone, 0, batch)
    return _steps(
        file,
        _times(file),
        decode_seqs=seqs,
        context_tokens=seqs * np.where(beside, tokens, tokens + 1),
        prefill_seqs=prompts,
        prefill_tokens=prompts * size,
        prefill_pairs=prompts * size * (before + size),
        prefill_squares=prompts * size**2,
    )


def _of_sums(file: Csv, budget: int) -> Samples:
    tokens, chunks, pairs, squares, seqs, context = map(file.counts, _SUMS[:-1])
    return _steps(
        file,
        file.seconds("step_seconds"),
        decode_seqs=seqs,
        context_tokens=context,
        prefill_seqs=chunks,
        prefill_tokens=tokens,
        prefill_pairs=pairs,
        prefill_squares=squares,
    )


def _of_requests(file: Csv, budget: int) -> Samples:
    columns = {column: file.counts(column) for column in _REQUESTS}
    order = columns["first_scheduled_s"], columns["first_token_s"], columns["finish_s"]
    for row in np.flatnonzero(~((order[0] < order[1]) & (order[1] <= order[2])))[:1]:
        file.fail(int(row), "must have first_scheduled_s < first_token_s <= finish_s")
    return log_samples(file.path, *(columns[name] for name in _REQUESTS[1:]), max_num_batched_tokens=budget)


_POINTS = ("prefill_tokens", "prefill_context", "decode_seqs", "decode_context")
_SUMS = (
    "prefill_tokens",
    "num_prefill_chunks",
    "sum_chunk_x_kvafter",
    "sum_chunk_sq",
    "num_decodes",
    "sum_decode_kv",
    "step_seconds",
)
_REQUESTS = ("arrival_s", "prompt_tokens", "output_tokens", "first_scheduled_s", "first_token_s", "finish_s")
_FORMATS = (
    _Format((*_POINTS, "time"), _of_points),
    _Format(("phase", "batch", "tokens_per_seq", "time"), _of_phases),
    _Format(_SUMS, _of_sums),
    _Format(_REQUESTS, _of_requests),
)
