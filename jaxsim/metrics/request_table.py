"""What happened to each request, as columns, and the latencies that follow from them."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jaxsim._status import RequestStatus

BREAKDOWN = ("queue_prefill_s", "prefill_s", "wait_memory_s", "wait_link_s", "transfer_s", "queue_decode_s")
"""Where the time until the second token of a request goes, in a fleet that hands requests over."""

STAMPS = ("kv_asked_s", "kv_granted_s", "kv_started_s", "kv_landed_s", "decode_scheduled_s")
"""Columns that only tables of such a fleet have."""


@dataclass(frozen=True, eq=False)
class RequestTable:
    """Outcome of R seeds x N requests, in order of arrival within a seed; times in seconds from the start of the seed.

    Attributes:
        seed: int64 `[R]`, the seed number of each row.
        request: int32 `[R, N]`, the request's number: its place in the workload, or its row in the trace file.
        arrival_s: float64 `[R, N]`, not decreasing along N.
        prompt_tokens: int32 `[R, N]`.
        output_tokens: int32 `[R, N]`, tokens emitted.
        instance: int32 `[R, N]`, where it was served (prefilled); -1: never routed.
        decode_instance: int32 `[R, N]`, where it decoded in a disaggregated fleet; -1: nowhere else.
        first_scheduled_s: float64 `[R, N]`, start of the first iteration it was part of; nan: never.
        first_token_s: float64 `[R, N]`, end of the iteration that emitted its first token; nan: never.
        finish_s: float64 `[R, N]`, when its last token was emitted; nan: never.
        preemptions: int32 `[R, N]`.
        cached_tokens: int32 `[R, N]`, prompt tokens found in the prefix cache.
        status: int8 `[R, N]`, codes of `RequestStatus`.
        class_index: int32 `[R, N]`, which of the workload's classes it is of; 0 by default.
        kv_asked_s: float64 `[R, N]`, when it asked for memory at its decode instance; nan: it was not handed over, as
            in the following. All of them None: no instance hands requests over.
        kv_granted_s: float64 `[R, N]`, when it got it.
        kv_started_s: float64 `[R, N]`, when the transfer of its KV cache started.
        kv_landed_s: float64 `[R, N]`, when it ended.
        decode_scheduled_s: float64 `[R, N]`, start of the first iteration it was part of after that.
    """

    seed: np.ndarray
    request: np.ndarray
    arrival_s: np.ndarray
    prompt_tokens: np.ndarray
    output_tokens: np.ndarray
    instance: np.ndarray
    decode_instance: np.ndarray
    first_scheduled_s: np.ndarray
    first_token_s: np.ndarray
    finish_s: np.ndarray
    preemptions: np.ndarray
    cached_tokens: np.ndarray
    status: np.ndarray
    class_index: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((), np.int32))
    kv_asked_s: np.ndarray | None = None
    kv_granted_s: np.ndarray | None = None
    kv_started_s: np.ndarray | None = None
    kv_landed_s: np.ndarray | None = None
    decode_scheduled_s: np.ndarray | None = None

    def __post_init__(self) -> None:
        shape = self.arrival_s.shape
        if self.class_index.ndim == 0:  # all are of one class
            object.__setattr__(self, "class_index", np.broadcast_to(self.class_index, shape))
        if len(shape) != 2 or self.seed.shape != shape[:1]:
            raise ValueError(f"arrival_s must be [seeds, requests] and seed [seeds], not {shape} and {self.seed.shape}")
        for name, column in self._columns().items():
            if column.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, not {column.shape}")

    def _columns(self) -> dict[str, np.ndarray]:
        """What there is of every request, by name."""
        columns = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)[1:]}
        return {name: column for name, column in columns.items() if column is not None}

    @property
    def num_seeds(self) -> int:
        """R, the rows."""
        return self.arrival_s.shape[0]

    @property
    def num_requests(self) -> int:
        """N, the requests of one seed."""
        return self.arrival_s.shape[1]

    @property
    def completed(self) -> np.ndarray:
        """bool `[R, N]`: the request emitted all its tokens."""
        return self.status == RequestStatus.COMPLETED

    @property
    def ttft_s(self) -> np.ndarray:
        """Time to first token, float64 `[R, N]`: first token - arrival; nan if it never came."""
        return self.first_token_s - self.arrival_s

    @property
    def tpot_s(self) -> np.ndarray:
        """Time per output token after the first, float64 `[R, N]`: (finish - first token) / (output tokens - 1).

        nan for requests of one token, for which it is undefined, and for those that never finished.
        """
        gaps = self.output_tokens - 1.0
        gaps[gaps <= 0] = np.nan
        return (self.finish_s - self.first_token_s) / gaps

    @property
    def breakdown_s(self) -> dict[str, np.ndarray]:
        """Where the time until the second token of requests that were handed over went, float64 `[R, N]` each, nan of
        the others; empty if no instance hands requests over.

        `queue_prefill_s` and `prefill_s` (preemptions included) make up the TTFT; `wait_memory_s` for blocks at the
        decode instance, `wait_link_s`, `transfer_s` and `queue_decode_s` (until it is scheduled there) follow.
        """
        if self.kv_asked_s is None:
            return {}
        stamps = (
            np.where(np.isnan(self.kv_asked_s), np.nan, self.arrival_s),
            self.first_scheduled_s,
            self.kv_asked_s,
            self.kv_granted_s,
            self.kv_started_s,
            self.kv_landed_s,
            self.decode_scheduled_s,
        )
        spans = itertools.pairwise(stamp for stamp in stamps if stamp is not None)
        return {name: end_s - start_s for name, (start_s, end_s) in zip(BREAKDOWN, spans, strict=True)}

    @property
    def ttft_with_transfer_s(self) -> np.ndarray:
        """TTFT, and for requests that were handed over the time until they were scheduled again, float64 `[R, N]`."""
        if self.decode_scheduled_s is None:
            return self.ttft_s
        return np.where(np.isnan(self.decode_scheduled_s), self.ttft_s, self.decode_scheduled_s - self.arrival_s)

    @property
    def e2e_s(self) -> np.ndarray:
        """End-to-end latency, float64 `[R, N]`: finish - arrival; nan if it never finished."""
        return self.finish_s - self.arrival_s

    @property
    def queue_s(self) -> np.ndarray:
        """Time in the queue, float64 `[R, N]`: first scheduled - arrival; nan if it was never scheduled."""
        return self.first_scheduled_s - self.arrival_s

    def block(self, seeds: slice = slice(None), requests: slice = slice(None)) -> "RequestTable":
        """The table of some rows and a range of requests (by arrival), as views."""
        columns = {name: column[seeds, requests] for name, column in self._columns().items()}
        return RequestTable(seed=self.seed[seeds], **columns)

    @classmethod
    def concatenate(cls, tables: Sequence["RequestTable"]) -> "RequestTable":
        """One table of the seeds of all tables, which must have equally many requests per seed."""
        names = ["seed", *tables[0]._columns()]
        return cls(**{name: np.concatenate([getattr(table, name) for table in tables]) for name in names})

    def columns(self, classes: bool | None = None) -> Mapping[str, np.ndarray]:
        """The columns of `requests.csv` by name and in order, each `[R * N]`, seed by seed.

        Args:
            classes: whether `class_index` is one of them; by default if it is not 0 throughout.
        """
        flat = {name: column.reshape(-1) for name, column in self._columns().items()}
        if not (self.class_index.any() if classes is None else classes):
            del flat["class_index"]
        return {"seed": np.repeat(self.seed, self.num_requests), **flat}
