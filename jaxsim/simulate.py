"""The front door: a scenario in, a result out."""

import contextlib
import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from jaxsim import _loop, tables
from jaxsim._ctrl_c import CtrlC
from jaxsim._version import __version__
from jaxsim.config.io import dump_scenario
from jaxsim.config.schema import Scenario
from jaxsim.gathered import Gathered, Outcome, Simulated, decoded, encoded
from jaxsim.hosts import Hosts
from jaxsim.job import Job, simulate_together
from jaxsim.metrics import RequestTable
from jaxsim.metrics.events import Events
from jaxsim.metrics.summary import NO_MORE, Percentiles, check_percentiles
from jaxsim.result import Result
from jaxsim.workload import Requests

REQUESTS_PER_CHUNK = 1_280_000
"""Requests that are drawn, simulated and added up together, whole seeds at a time: memory does not grow with seeds."""

KEPT_REQUESTS = 5_000_000
"""Most requests whose table is kept, or written, by default (70 bytes each in memory, 130 as CSV)."""


def run(
    scenario: Scenario,
    *,
    requests: Requests | None = None,
    keep_requests: bool | None = None,
    devices: int | Literal["auto"] = "auto",
    progress: Callable[[float], None] | None = None,
    out: str | os.PathLike[str] | None = None,
    requests_format: tables.Format | None = None,
    resume: bool = False,
    percentiles: Percentiles = NO_MORE,
) -> Result:
    """Simulate a scenario.

    Seeds are simulated in chunks. With `out`, each chunk is on disk as soon as it has finished: a run that is killed
    loses one chunk at most, and tables larger than memory can be written. Where `jax.distributed` was initialised, the
    processes share the chunks; process 0 writes, and all return the same result.

    Args:
        scenario: what to simulate.
        requests: requests to serve in place of the scenario's workload (arrays from a notebook, say); each of their
            rows is a seed.
        keep_requests: keep the table of requests in the result; by default of up to 5 million, and not with `out`.
        devices: how many cores (or accelerators) to use; all by default. The result does not depend on it.
        progress: called now and then with the share of the run that is done, in [0, 1].
        out: folder to write `summary.json`, `manifest.json` and the requests into; earlier results there are replaced.
        requests_format: how to write the requests; by default `csv` for up to 5 million of them, else `none`.
        resume: go on with the run that `out` holds unfinished, if it holds one. The results are the same, to the byte,
            as those of a run that was not interrupted. Those of a finished run are returned as they are.
        percentiles: to report beside the usual ones and those that the SLO limits: `{"ttft_s": ["p99.9"]}`.

    Returns:
        The result. After Ctrl-C it covers the chunks of seeds that had finished, and its manifest says
        `"interrupted": true`; so do the files in `out`, where the run can be resumed.

    Raises:
        ScenarioError: the scenario cannot be simulated.
        ValueError: the workload's file cannot be used, there are fewer devices, `out` holds another run, or there are
            no such percentiles.
        KeyboardInterrupt: interrupted before the first chunk had finished.
    """
    started = time.perf_counter()
    check_percentiles(percentiles)
    hosts = Hosts()
    workers = _loop.workers(None if devices == "auto" else devices)
    job = Job(scenario, requests, workers)
    few = job.total_requests <= KEPT_REQUESTS
    keep = keep_requests if keep_requests is not None else few and out is None and hosts.count == 1
    if keep and (resume or hosts.count > 1):
        raise ValueError("keep_requests must not be given with resume or over several processes: write them to out")
    if resume and out is None:
        raise ValueError("resume needs out, the folder of the run to go on with")
    format = "none" if out is None else requests_format or ("csv" if few else "none")
    tables.check_format(format)
    what = _what(job) if out is None else _what(job, format, requests)
    manifest = _manifest(job, what, len(workers), hosts.count)
    per_chunk = _seeds_per_chunk(job, hosts.count)
    folder = None if out is None else Path(out)
    with contextlib.closing(Gathered(job, keep, format, percentiles)) as gathered:
        outcome = hosts.agree(lambda: gathered.begin(folder, what, per_chunk, resume))
        if "summary" not in outcome:
            interrupted = _simulate(job, outcome, gathered, hosts, progress)
            outcome = hosts.agree(lambda: gathered.finish(manifest, interrupted, started))
        return gathered.result(outcome)


def record(
    scenario: Scenario, *, seed: int | None = None, requests: Requests | None = None
) -> tuple[RequestTable, Events]:
    """Simulate one seed and keep what the instances did, batch by batch: for timelines and time series.

    Args:
        scenario: what to simulate.
        seed: which of its seeds; by default the first.
        requests: as in `run`.

    Returns:
        What became of the requests, as in `run` up to rounding (1e-9), and the batches.

    Raises:
        ScenarioError: the scenario cannot be simulated.
        ValueError: it has no such seed.
    """
    job = Job(scenario, requests, _loop.workers())
    place = 0 if seed is None else int(seed - job.seeds[0])
    if not 0 <= place < len(job.seeds):
        raise ValueError(f"seed must be from {job.seeds[0]} to {job.seeds[-1]}, not {seed}")
    return job.record(place)


def run_many(
    scenarios: Sequence[Scenario],
    *,
    keep_requests: bool = False,
    devices: int | Literal["auto"] = "auto",
    progress: Callable[[float], None] | None = None,
    percentiles: Percentiles = NO_MORE,
) -> list[Result]:
    """Simulate several scenarios; those of equal structure run side by side, in compiled programs that they share.

    Args:
        scenarios: what to simulate.
        keep_requests: keep the tables of requests.
        devices: as in `run`.
        progress: called now and then with the share of all runs that is done.
        percentiles: as in `run`.

    Returns:
        One result per scenario, in order: what `run` returns, to the last bit.

    Raises:
        ScenarioError: a scenario cannot be simulated.
        KeyboardInterrupt: interrupted; `run_each` lets its caller keep what had finished.
    """
    return list(
        run_each(scenarios, keep_requests=keep_requests, devices=devices, progress=progress, percentiles=percentiles)
    )


def run_each(
    scenarios: Sequence[Scenario],
    *,
    keep_requests: bool = False,
    devices: int | Literal["auto"] = "auto",
    progress: Callable[[float], None] | None = None,
    percentiles: Percentiles = NO_MORE,
) -> Iterator[Result]:
    """`run_many`, one result at a time: memory does not grow with the number of scenarios."""
    check_percentiles(percentiles)
    if Hosts().count > 1:  # which share the seeds of each run
        for place, scenario in enumerate(scenarios):
            part = _within_run(progress, place / len(scenarios), 1 / len(scenarios))
            yield run(scenario, keep_requests=keep_requests, devices=devices, progress=part, percentiles=percentiles)
        return
    workers = _loop.workers(None if devices == "auto" else devices)
    done = 0.0
    for batch in _batches(_Run(scenario, workers, keep_requests, percentiles) for scenario in scenarios):
        share = sum(len(places) / len(one.job.seeds) for one, _, places in batch) / len(scenarios)
        parts = [(one.job, places) for one, _, places in batch]
        found = simulate_together(parts, _within(progress, done, share))
        done += share
        for (one, chunk, _), outcome in zip(batch, found, strict=True):
            if (result := one.take(Simulated(chunk, *outcome))) is not None:
                yield result


class _Run:
    """One of several runs, until all its seeds are there."""

    def __init__(
        self, scenario: Scenario, workers: list[_loop.Worker], keep_requests: bool, percentiles: Percentiles
    ) -> None:
        self._started = time.perf_counter()
        self.job = Job(scenario, None, workers)
        self._manifest = _manifest(self.job, _what(self.job), len(workers), 1)
        self._gathered = Gathered(self.job, keep_requests, "none", percentiles)
        self._missing = len(self.job.seeds)

    def chunks(self) -> Iterator[np.ndarray]:
        """Places of the seeds, in chunks as those of `run`."""
        size = _seeds_per_chunk(self.job)
        for first in range(0, len(self.job.seeds), size):
            yield np.arange(first, min(first + size, len(self.job.seeds)))

    def take(self, chunk: Simulated) -> Result | None:
        """Add a chunk; returns the result after the last one."""
        self._gathered.take([chunk])
        self._missing -= chunk.table.num_seeds
        if self._missing:
            return None
        return self._gathered.result(self._gathered.finish(self._manifest, False, self._started))


def _batches(runs: Iterable[_Run]) -> Iterator[list[tuple[_Run, int, np.ndarray]]]:
    """Chunks of runs (number and places of its seeds) that are simulated together, of as many requests as a chunk."""
    batch: list[tuple[_Run, int, np.ndarray]] = []
    held = 0
    for one in runs:
        for number, places in enumerate(one.chunks()):
            size = len(places) * one.job.simulated_requests
            if held and held + size > REQUESTS_PER_CHUNK:
                yield batch
                batch, held = [], 0
            batch.append((one, number, places))
            held += size
    if batch:
        yield batch


def _seeds_per_chunk(job: Job, processes: int = 1) -> int:
    return max(1, min(REQUESTS_PER_CHUNK // job.simulated_requests, -(-len(job.seeds) // processes)))


def _what(job: Job, format: str | None = None, requests: Requests | None = None) -> dict[str, Any]:
    """What is run, as far as it decides what is found; and, for a run that writes, in which format."""
    return {
        "scenario": dump_scenario(job.scenario),
        "seeds": {"first": int(job.seeds[0]), "count": len(job.seeds)},
        **({} if format is None else {"requests": format}),
        "versions": {"jaxsim": __version__, "jax": jax.__version__, "numpy": np.__version__},
        "device": {"platform": jax.default_backend(), "kind": jax.local_devices()[0].device_kind},
        "input_hashes": _input_hashes(job.scenario, requests),
    }


def _manifest(job: Job, what: Mapping[str, Any], workers: int, processes: int) -> dict[str, Any]:
    """What is known of a run before it begins."""
    return {
        "schema_version": 1,
        **what,
        "notices": job.notices,
        "versions": {**what["versions"], "python": platform.python_version()},
        "device": {**what["device"], "workers": workers, "processes": processes},
    }


def _simulate(
    job: Job, plan: Mapping[str, Any], gathered: Gathered, hosts: Hosts, progress: Callable[[float], None] | None
) -> bool:
    """Simulate the chunks that have not finished, each process one at a time; returns whether Ctrl-C ended it.

    Raises:
        KeyboardInterrupt: before a chunk had finished.
    """
    size, finished = plan["seeds_per_chunk"], set(plan["finished"])
    chunks = -(-len(job.seeds) // size)
    todo = [chunk for chunk in range(chunks) if chunk not in finished]
    with CtrlC() as ctrl_c:
        for first in range(0, len(todo), hosts.count):
            group = todo[first : first + hosts.count]
            mine = group[hosts.index] if hosts.index < len(group) else None
            report = _within(progress, (len(finished) + first) / chunks, len(group) / chunks)
            outcome = _chunk(job, mine, size, ctrl_c, report)
            verdict = _share(outcome, gathered, hosts)
            if verdict == "nothing":
                raise KeyboardInterrupt
            if verdict == "stop":
                return True
    return ctrl_c.pressed


def _chunk(job: Job, chunk: int | None, size: int, ctrl_c: CtrlC, progress: Callable[[float], None]) -> Outcome:
    """What becomes of a chunk of `size` seeds."""
    if chunk is None:
        return None
    places = np.arange(chunk * size, min((chunk + 1) * size, len(job.seeds)))
    try:
        with ctrl_c.allowed():
            return Simulated(chunk, *job.simulate(places, progress))
    except (Exception, KeyboardInterrupt) as error:
        return error


def _share(outcome: Outcome, gathered: Gathered, hosts: Hosts) -> str:
    """Hand a chunk to process 0; returns whether to `go on`, as `Gathered.take`."""
    others = hosts.gather(lambda: encoded(gathered.sent(outcome)))
    return str(hosts.agree(lambda: gathered.take([outcome, *map(decoded, others)])))


def _within(progress: Callable[[float], None] | None, start: float, share: float) -> Callable[[float], None]:
    """Turns shares of a chunk that were just finished into the share of the run that is done."""
    done = start

    def report(part: float) -> None:
        nonlocal done
        done += part * share
        if progress:
            progress(min(done, 1.0))

    return report


def _within_run(progress: Callable[[float], None] | None, start: float, share: float) -> Callable[[float], None] | None:
    """Turns the share done of one of several runs into the share done of all."""
    return None if progress is None else lambda done: progress(start + done * share)


def _input_hashes(scenario: Scenario, requests: Requests | None) -> dict[str, str]:
    """SHA-256 of every file the scenario names, and of requests given in place of its workload."""
    files = filter(Path.is_file, map(Path, _paths(dump_scenario(scenario))))
    hashes = {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    if requests is not None:
        names = ("arrival_s", "prompt_tokens", "output_tokens", "routing_uniform", "row", "priority", "class_index")
        content = b"".join(getattr(requests, name).tobytes() for name in names)
        hashes["requests"] = hashlib.sha256(content).hexdigest()
    return hashes


def _paths(data: Any) -> list[str]:
    """What every key `path` in plain data says."""
    if isinstance(data, dict):
        here = [data["path"]] if isinstance(data.get("path"), str) else []
        return here + _paths(list(data.values()))
    return [path for value in data for path in _paths(value)] if isinstance(data, list) else []
