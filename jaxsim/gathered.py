"""What the chunks of a run add up to, in memory or in a folder, from one process or several."""

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim import tables
from jaxsim.checkpoint import Checkpoint, Part
from jaxsim.engine.record import STRETCH_SPREAD, itl_bin_edges
from jaxsim.job import Cost, Job
from jaxsim.metrics import Accumulator, LaneTotals, RequestTable
from jaxsim.metrics.accumulate import EXACT_LIMIT
from jaxsim.metrics.summary import NO_MORE, Percentiles
from jaxsim.result import Result


@dataclass(frozen=True, eq=False)
class Simulated:
    """One chunk of seeds that this process simulated: its number and what came out of it."""

    chunk: int
    table: RequestTable
    totals: LaneTotals
    cost: Cost


Outcome = Simulated | Part | BaseException | None
"""What became of a chunk: simulated here or elsewhere, not finished, or there was none for this process."""


class Gathered:
    """The chunks that have finished.

    Args:
        job: the run.
        keep: keep the table of requests in memory.
        format: how the requests are written into a folder.
        percentiles: to report beside the usual ones.
    """

    def __init__(self, job: Job, keep: bool, format: tables.Format, percentiles: Percentiles = NO_MORE) -> None:
        self._job = job
        self._keep = keep
        self._format = format
        self._percentiles = percentiles
        self._warmup = job.scenario.monte_carlo.warmup_requests
        self._accumulator = self._new_accumulator(EXACT_LIMIT)
        self._tables: list[RequestTable] = []
        self._gap_counts: list[np.ndarray] = []
        self._cost = Cost()
        self._chunks: set[int] = set()
        self._checkpoint: Checkpoint | None = None
        self._resumed_after_seeds: int | None = None
        self._notices: list[str] = []

    def begin(self, folder: Path | None, run: Mapping[str, Any], seeds_per_chunk: int, resume: bool) -> dict[str, Any]:
        """Open the folder.

        Args:
            folder: where to write; None: nowhere.
            run: what is being run, for `Checkpoint`, as are the following.
            seeds_per_chunk: how many seeds make a chunk.
            resume: go on with the run in the folder.

        Returns:
            `seeds_per_chunk` and the `finished` chunks; or `summary` and `manifest`, if the folder holds them already.

        Raises:
            ValueError: the folder holds another run.
        """
        if folder is not None:
            self._checkpoint = checkpoint = Checkpoint(folder, run, seeds_per_chunk, resume)
            if resume and (there := checkpoint.complete()):
                return {"summary": there.summary, "manifest": there.manifest}
            seeds_per_chunk = checkpoint.seeds_per_chunk
            self._notices = checkpoint.notices()
            for part in checkpoint.finished():
                self._add(part)
                self._resumed_after_seeds = self._accumulator.num_seeds
        return {"seeds_per_chunk": seeds_per_chunk, "finished": sorted(self._chunks)}

    def take(self, outcomes: Sequence[Outcome]) -> str:
        """Add chunks; returns `go on`, `stop` after Ctrl-C, or `nothing` if there is nothing to stop with.

        Raises:
            Exception: one of the outcomes.
        """
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
            if isinstance(outcome, Part):
                self._keep_part(outcome)
            elif isinstance(outcome, Simulated) and self._checkpoint:
                self._keep_part(self._part(outcome))
            elif isinstance(outcome, Simulated):
                self._accumulator.add(outcome.table, outcome.totals)
                self._cost.add(outcome.cost)
                self._chunks.add(outcome.chunk)
            if isinstance(outcome, Simulated) and self._keep:
                self._tables.append(outcome.table)
                self._gap_counts.append(outcome.totals.itl_counts)
        if not any(isinstance(outcome, KeyboardInterrupt) for outcome in outcomes):
            return "go on"
        return "stop" if self._chunks else "nothing"

    def sent(self, outcome: Outcome) -> Outcome:
        """An outcome as it is sent to another process."""
        return self._part(outcome) if isinstance(outcome, Simulated) else outcome

    def finish(self, manifest: Mapping[str, Any], interrupted: bool, started: float) -> dict[str, Any]:
        """Write the results, if there is a folder.

        Args:
            manifest: what is known of it beforehand.
            interrupted: not all chunks have finished.
            started: when the run began, by `time.perf_counter`.

        Returns:
            `summary` and `manifest`.
        """
        seeds = {**manifest["seeds"], "count": self._accumulator.num_seeds}
        whole = {
            **manifest,
            "seeds": seeds,
            "interrupted": interrupted,
            "resumed_after_seeds": self._resumed_after_seeds,
            "notices": [*manifest["notices"], *self._notices],
            "compile_seconds": self._cost.compile_seconds,
            "run_seconds": self._cost.run_seconds,
            "total_seconds": time.perf_counter() - started,
            "rounds": self._cost.rounds,
            "iterations": self._cost.iterations,
        }
        summary = self._accumulator.summary(percentiles=self._percentiles)
        if self._checkpoint:
            try:
                self._checkpoint.finish(summary, whole, self._chunks)
            except KeyboardInterrupt:
                raise KeyboardInterrupt("what had finished is kept; --resume goes on") from None
        return {"summary": summary, "manifest": whole}

    def result(self, outcome: Mapping[str, Any]) -> Result:
        """The result with what `begin` or `finish` returned."""
        if not self._tables:
            return Result(outcome["summary"], None, outcome["manifest"])
        requests, gap_counts = RequestTable.concatenate(self._tables), np.concatenate(self._gap_counts)
        return Result(outcome["summary"], requests, outcome["manifest"], gap_counts)

    def close(self) -> None:
        """Let other runs write into the folder."""
        if self._checkpoint:
            self._checkpoint.close()

    def _part(self, simulated: Simulated) -> Part:
        """A chunk as it is written."""
        measured = len(self._accumulator.metrics) * len(self._job.seeds) * (self._job.num_requests - self._warmup)
        views = 1 + len(self._job.classes)
        # exact percentiles need all latencies; a run that will be sketched needs only counts
        accumulator = self._new_accumulator(EXACT_LIMIT if measured <= EXACT_LIMIT // views else 0)
        accumulator.add(simulated.table, simulated.totals)
        requests = io.BytesIO()
        if self._format != "none":
            tables.write(simulated.table, self._format, requests, self._job.has_classes)
        arrays = {**accumulator.state(), "cost": np.array(astuple(simulated.cost), np.float64)}
        return Part(simulated.chunk, arrays, requests.getvalue())

    def _keep_part(self, part: Part) -> None:
        if self._checkpoint:
            self._checkpoint.put(part)
        self._add(part)

    def _add(self, part: Part) -> None:
        compiling, running, rounds, iterations = part.arrays["cost"].tolist()
        self._accumulator.add_state(part.arrays)
        self._cost.add(Cost(compiling, running, int(rounds), int(iterations)))
        self._chunks.add(part.chunk)

    def _new_accumulator(self, exact_limit: int) -> Accumulator:
        return Accumulator(
            self._job.scenario.slo,
            self._warmup,
            itl_edges_s=itl_bin_edges(),
            itl_credited_error=STRETCH_SPREAD / 2,
            units="batches" if self._job.is_one_run else "seeds",
            rate_per_s=self._job.first.rate_per_s,
            classes=self._job.classes,
            exact_limit=exact_limit,
            handover=self._job.hands_over,
            seeds_per_cluster=self._job.seeds_per_cluster,
        )


def encoded(outcome: Outcome) -> bytes:
    """An outcome as bytes, for another process. Nothing is pickled."""
    file = io.BytesIO()
    if isinstance(outcome, Part):
        table = np.frombuffer(outcome.requests, np.uint8)
        np.savez(file, allow_pickle=False, **outcome.arrays, chunk=np.int64(outcome.chunk), requests=table)
    elif isinstance(outcome, Exception):
        np.savez(file, allow_pickle=False, error=np.array(str(outcome) or type(outcome).__name__))
    elif outcome is not None:
        np.savez(file, allow_pickle=False, interrupted=np.array(True))
    return file.getvalue()


def decoded(data: bytes) -> Outcome:
    """What `encoded` made bytes of; any exception but Ctrl-C is a ValueError of the same message."""
    if not data:
        return None
    with np.load(io.BytesIO(data), allow_pickle=False) as saved:
        arrays = dict(saved)
    if "error" in arrays:
        return ValueError(str(arrays["error"]))
    if "interrupted" in arrays:
        return KeyboardInterrupt()
    return Part(int(arrays.pop("chunk")), arrays, arrays.pop("requests").tobytes())
