"""Workloads read from a trace."""

import dataclasses
import functools
import math
import os
from collections.abc import Mapping
from typing import Literal

import numpy as np

from jaxsim._component import check, check_positive, component
from jaxsim.workload.arrivals import Arrivals
from jaxsim.workload.clients import Clients
from jaxsim.workload.random import Purpose, checked_seeds, draw, uniforms
from jaxsim.workload.requests import Requests
from jaxsim.workload.resample import block_length, bootstrap_rows
from jaxsim.workload.trace import FORMATS, MappedColumns, Rows, TraceError, check_columns, read
from jaxsim.workload.trace.rows import take
from jaxsim.workload.trace.ticks import COARSE_S, MANY, spread, tick_s

_CHOICES = {
    "format": ("auto", *FORMATS),
    "on_invalid": ("error", "skip"),
    "resample": ("none", "block_bootstrap"),
    "on_infeasible": ("error", "reject"),
}


@component
class Trace:
    """Requests as they were recorded.

    Attributes:
        path: the file.
        format: `auto` (seen from the file) or the name of one of `jaxsim.workload.trace.FORMATS`.
        columns: for a table of any other kind, which of its columns is what: `{arrival_s: time, prompt_tokens: in,
            output_tokens: out}` (see `jaxsim.workload.trace.mapped`).
        on_invalid: what becomes of rows without valid lengths or times, failed requests say: `error` stops the run,
            `skip` leaves them out.
        arrivals: when requests arrive, in place of what the trace says; a list of lengths needs it.
        spread_ticks: move requests that were recorded at the same tick of a coarse clock apart, evenly within the tick.
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
    columns: Mapping[str, str] | None = None
    on_invalid: Literal["error", "skip"] = "error"
    arrivals: Arrivals | None = None
    spread_ticks: bool = False
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
        for field, choices in _CHOICES.items():
            if getattr(self, field) not in choices:
                raise ValueError(f"{field} must be one of {', '.join(choices)}, not {getattr(self, field)!r}")
        if self.columns is not None:
            object.__setattr__(self, "columns", dict(self.columns))
            check_columns(self.columns)
            if self.format != "auto":
                raise ValueError("format must be auto where columns says what the columns are")
        if self.arrivals is not None and (self.spread_ticks or self.rate_scale != 1):
            raise ValueError(
                "arrivals must not be given beside spread_ticks or rate_scale: it replaces what they change"
            )

    def __hash__(self) -> int:
        return hash((self.path, self.format, self.on_invalid, self.rate_scale, self.limit, self.resample))

    @property
    def differs_by_seed(self) -> bool:
        """Whether seeds are independent replications, rather than copies of one run."""
        return self.resample != "none" or self.arrivals is not None

    def read(self, timeless: bool = False) -> Rows:
        """The requests to replay, in order of arrival at the scaled rate; `id` and `session` stay in order of the file.

        Args:
            timeless: also take a file that does not say when requests arrive.

        Raises:
            TraceError: the file cannot be used; the message says where and why.
        """
        status = os.stat(self.path) if os.path.exists(self.path) else None
        columns = None if self.columns is None else tuple(self.columns.items())
        version = (status.st_mtime_ns, status.st_size) if status else None
        rows = _read(self.path, self.format, columns, self.on_invalid, version)
        if self.arrivals is None and rows.arrival_s is None and not timeless:
            raise TraceError(
                f"{self.path}: the trace does not say when requests arrive; give arrivals, such as "
                "{kind: poisson, rate: 4}" + ("" if self.columns else ", or columns if the file has times")
            )
        if rows.arrival_s is not None:
            rows = self._in_order(rows, rows.arrival_s)
        if rows.arrival_s is None or self.arrivals is not None:
            return take(dataclasses.replace(rows, arrival_s=None), slice(self.limit))
        arrival_s, notice = self._spread(rows.arrival_s)
        rows = dataclasses.replace(rows, arrival_s=arrival_s / self.rate_scale, notices=rows.notices + notice)
        return take(rows, slice(self.limit))

    def _in_order(self, rows: Rows, arrival_s: np.ndarray) -> Rows:
        """The rows in order of arrival, with a notice if they were not."""
        if not np.any(np.diff(arrival_s) < 0):
            return rows
        notice = (
            f"{self.path}: rows were not in order of arrival and were sorted (equal arrivals keep their order); "
            "`request` is the row of the file"
        )
        rows = dataclasses.replace(rows, notices=(*rows.notices, notice))
        return take(rows, np.argsort(arrival_s, kind="stable"))

    def _spread(self, arrival_s: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
        """Arrival times moved off their ticks if asked for, and what to say about ticks."""
        length_s = tick_s(arrival_s)
        if self.spread_ticks and length_s:
            return spread(arrival_s, length_s), (f"{self.path}: arrivals were spread over ticks of {length_s:g} s",)
        if self.spread_ticks:
            return arrival_s, (f"{self.path}: arrivals are on no coarse clock, so spread_ticks has no effect",)
        together = int(np.unique(arrival_s, return_counts=True)[1].max())
        if length_s < COARSE_S or together < MANY:
            return arrival_s, ()
        return arrival_s, (
            f"{self.path}: arrivals are on ticks of {length_s:g} s, up to {together:,} at the same time; "
            "spread_ticks: true spreads them",
        )

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
        rows = self.read()
        count = len(rows.row)
        notices = rows.notices
        pick = None
        if self.resample != "none":
            gaps = () if rows.arrival_s is None else (_gaps(rows.arrival_s),)
            block = self.block_requests or block_length(*gaps, rows.prompt_tokens, rows.output_tokens)
            pick = bootstrap_rows(seeds, count, block)
            notices += (f"{self.path}: every seed replays the trace resampled in blocks of {block} requests",)
        if rows.prefix_blocks is not None:
            notices += (f"{self.path}: shared prefixes are not simulated: every prompt is computed whole",)

        def per_seed(column: np.ndarray) -> np.ndarray:
            return np.broadcast_to(column, (len(seeds), count)) if pick is None else column[pick]

        arrival_s, clients = self._arrivals(seeds, rows.arrival_s, pick, count)
        return Requests(
            arrival_s=arrival_s,
            prompt_tokens=per_seed(rows.prompt_tokens),
            output_tokens=per_seed(rows.output_tokens),
            routing_uniform=uniforms(Purpose.ROUTING, seeds, count),
            row=per_seed(rows.row),
            priority=per_seed(rows.priority),
            class_index=per_seed(rows.class_index),
            rate_per_s=math.nan if self.arrivals is None else self.arrivals.rate_per_s,
            id=rows.id,
            session=rows.session,
            class_names=rows.class_names,
            notices=notices,
            clients=clients,
        )

    def _arrivals(
        self, seeds: np.ndarray, recorded_s: np.ndarray | None, pick: np.ndarray | None, count: int
    ) -> tuple[np.ndarray, Clients | None]:
        """Arrival times `[R, N]`, and who sends the requests: of the process asked for, as recorded, or from the gaps
        of the resampled requests."""
        if self.arrivals is not None:
            gaps = draw({Purpose.ARRIVAL: self.arrivals.unit_gap()}, seeds, count)[Purpose.ARRIVAL]
            return self.arrivals.arrival_s(np.cumsum(gaps, axis=1), seeds), self.arrivals.clients(gaps)
        assert recorded_s is not None  # `read` has seen to it
        if pick is None:
            return np.broadcast_to(recorded_s, (len(seeds), count)), None
        drawn_s = _gaps(recorded_s)[pick]
        drawn_s[:, 0] = recorded_s[0]
        return np.cumsum(drawn_s, axis=1, out=drawn_s), None


def _gaps(arrival_s: np.ndarray) -> np.ndarray:
    """The gap before each request; before the first, the mean gap."""
    gap_s = np.diff(arrival_s)
    return np.append(gap_s.mean() if len(gap_s) else 0.0, gap_s)


@functools.lru_cache(maxsize=4)
def _read(
    path: str,
    format: str,
    columns: tuple[tuple[str, str], ...] | None,
    on_invalid: str,
    version: tuple[int, int] | None,
) -> Rows:
    """Read a file once per version of it: seeds are drawn in many calls."""
    if columns is not None:
        return read(path, [MappedColumns(dict(columns))], on_invalid)
    return read(path, list(FORMATS.values()) if format == "auto" else [FORMATS[format]], on_invalid)
