"""Workloads read from a trace."""

import dataclasses
import functools
import math
import os
from typing import Literal

import numpy as np

from jaxsim._component import check, check_positive, component
from jaxsim.workload.random import Purpose, checked_seeds, uniforms
from jaxsim.workload.requests import Requests
from jaxsim.workload.resample import block_length, bootstrap_rows
from jaxsim.workload.trace import FORMATS, Rows, read


@component
class Trace:
    """Requests as they were recorded.

    Attributes:
        path: the file.
        format: `auto` (seen from the header) or the name of one of `jaxsim.workload.trace.FORMATS`.
        rate_scale: how many times faster requests arrive than recorded: arrival times are divided by it.
        limit: keep the first so many requests in order of arrival; null keeps all.
        resample: `none` replays the trace under every seed; `block_bootstrap` draws for every seed another sequence of
            blocks of consecutive requests (gap before, prompt, output, priority and class stay together).
        block_requests: requests per block of the bootstrap; null chooses it (see `jaxsim.workload.resample`).
        on_infeasible: what becomes of a request that the engine can never serve: `error` stops the run, `reject`
            reports it as rejected. Feasibility is judged by who knows the engine, not here.
    """

    kind: Literal["trace"] = "trace"
    path: str
    format: str = "auto"
    rate_scale: float = 1.0
    limit: int | None = None
    resample: Literal["none", "block_bootstrap"] = "none"
    block_requests: int | None = None
    on_infeasible: Literal["error", "reject"] = "error"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))
        check_positive(self, "rate_scale")
        for field in ("limit", "block_requests"):
            check(
                self, field, lambda count: isinstance(count, int) and count >= 1, "null or a whole number, 1 or greater"
            )
        _check_choice(self, "format", ("auto", *FORMATS))
        _check_choice(self, "resample", ("none", "block_bootstrap"))
        _check_choice(self, "on_infeasible", ("error", "reject"))

    def read(self) -> tuple[Rows, np.ndarray]:
        """The requests to replay, in order of arrival, at the scaled rate.

        Returns:
            The requests (`id` and `session` stay in the order of the file), and the row of the file of each, from 0.

        Raises:
            TraceError: the file cannot be used; the message says where and why.
        """
        status = os.stat(self.path) if os.path.exists(self.path) else None
        rows = _read(self.path, self.format, (status.st_mtime_ns, status.st_size) if status else None)
        notices = rows.notices
        if np.any(np.diff(rows.arrival_s) < 0):
            notices += (
                f"{self.path}: rows were not in order of arrival and were sorted (equal arrivals keep their order); "
                "`request` is the row of the file",
            )
        order = np.argsort(rows.arrival_s, kind="stable")[: self.limit]
        replayed = dataclasses.replace(
            rows,
            arrival_s=rows.arrival_s[order] / self.rate_scale,
            prompt_tokens=rows.prompt_tokens[order],
            output_tokens=rows.output_tokens[order],
            priority=rows.priority[order],
            class_index=rows.class_index[order],
            notices=notices,
        )
        return replayed, order.astype(np.int32)

    def draw(self, seeds: np.ndarray) -> Requests:
        """The requests of every seed, a pure function of the file and the seed numbers.

        A resampled trace is as long as the recorded one and begins at the same time; the gap before the recorded
        first request, which is unknown, is taken to be the mean gap.

        Args:
            seeds: whole numbers of zero or greater, `[R]`.

        Raises:
            ValueError: bad seeds, or the file cannot be used (TraceError).
        """
        seeds = checked_seeds(seeds)
        rows, row = self.read()
        count = len(row)
        routing_uniform = uniforms(Purpose.ROUTING, seeds, count)
        notices = rows.notices
        if self.resample == "none":
            arrival_s = np.broadcast_to(rows.arrival_s, routing_uniform.shape)

            def per_seed(column: np.ndarray) -> np.ndarray:
                return np.broadcast_to(column, routing_uniform.shape)
        else:
            gap_s = np.diff(rows.arrival_s)
            gap_s = np.append(gap_s.mean() if count > 1 else 0.0, gap_s)
            block = self.block_requests or block_length(gap_s, rows.prompt_tokens, rows.output_tokens)
            pick = bootstrap_rows(seeds, count, block)
            drawn_s = gap_s[pick]
            drawn_s[:, 0] = rows.arrival_s[0]
            arrival_s = np.cumsum(drawn_s, axis=1, out=drawn_s)
            notices += (f"{self.path}: every seed replays the trace resampled in blocks of {block} requests",)

            def per_seed(column: np.ndarray) -> np.ndarray:
                return column[pick]

        return Requests(
            arrival_s=arrival_s,
            prompt_tokens=per_seed(rows.prompt_tokens),
            output_tokens=per_seed(rows.output_tokens),
            routing_uniform=routing_uniform,
            row=per_seed(row),
            priority=per_seed(rows.priority),
            class_index=per_seed(rows.class_index),
            rate_per_s=math.nan,
            id=rows.id,
            session=rows.session,
            class_names=rows.class_names,
            notices=notices,
        )


@functools.lru_cache(maxsize=4)
def _read(path: str, format: str, version: tuple[int, int] | None) -> Rows:
    """Read a file once per version of it: seeds are drawn in many calls."""
    return read(path, list(FORMATS.values()) if format == "auto" else [FORMATS[format]])


def _check_choice(trace: Trace, field: str, choices: tuple[str, ...]) -> None:
    if getattr(trace, field) not in choices:
        raise ValueError(f"{field} must be one of {', '.join(choices)}, not {getattr(trace, field)!r}")
