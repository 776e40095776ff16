"""The front door: a scenario in, a result out."""

import hashlib
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from jaxsim import _loop
from jaxsim._status import LaneStatus, RequestStatus
from jaxsim._version import __version__
from jaxsim.cluster import fleet
from jaxsim.cluster.instances import InstanceGroup
from jaxsim.config.errors import ScenarioError
from jaxsim.config.io import dump_scenario
from jaxsim.config.schema import Instance, Scenario
from jaxsim.engine.lanes import PROGRAMS
from jaxsim.engine.record import STRETCH_SPREAD, itl_bin_edges
from jaxsim.metrics import Accumulator, LaneTotals, RequestTable, ServiceClass
from jaxsim.result import Result
from jaxsim.workload import Requests, Trace

REQUESTS_PER_CHUNK = 1_280_000
"""Requests that are drawn, simulated and added up together, whole seeds at a time: memory does not grow with seeds."""

KEPT_REQUESTS = 5_000_000
"""Most requests whose table is kept by default (70 bytes each)."""


def run(
    scenario: Scenario,
    *,
    requests: Requests | None = None,
    keep_requests: bool | None = None,
    devices: int | Literal["auto"] = "auto",
    progress: Callable[[float], None] | None = None,
) -> Result:
    """Simulate a scenario.

    Args:
        scenario: what to simulate.
        requests: requests to serve in place of the scenario's workload (arrays from a notebook, say); each of their
            rows is a seed.
        keep_requests: keep the table of requests; by default only of up to 5 million.
        devices: how many cores (or accelerators) to use; all by default. The result does not depend on it.
        progress: called now and then with the share of the run that is done, in [0, 1].

    Returns:
        The result. After Ctrl-C it covers the chunks of seeds that had finished, and its manifest says
        `"interrupted": true`.

    Raises:
        ScenarioError: the scenario cannot be simulated.
        ValueError: the workload's file cannot be used, or there are fewer devices.
        KeyboardInterrupt: interrupted before the first chunk had finished.
    """
    started = time.perf_counter()
    seeds = scenario.monte_carlo.seeds if requests is None else len(requests.arrival_s)
    numbers = scenario.monte_carlo.first_seed + np.arange(seeds, dtype=np.int64)
    workers = _loop.workers(None if devices == "auto" else devices)
    job = _Job(scenario, requests, workers)
    keep = keep_requests if keep_requests is not None else seeds * job.num_requests <= KEPT_REQUESTS
    accumulator = Accumulator(
        scenario.slo,
        scenario.monte_carlo.warmup_requests,
        itl_edges_s=itl_bin_edges(),
        itl_credited_error=STRETCH_SPREAD / 2,
        units="batches" if job.is_one_run(seeds) else "seeds",
        rate_per_s=job.first.rate_per_s,
        classes=_classes(scenario, job.first),
    )
    tables: list[RequestTable] = []
    interrupted = False
    try:
        for done, chunk in _chunks(seeds, job.num_requests):
            share = len(chunk) / seeds
            report = _within(progress, done / seeds, share)
            table, totals = job.simulate(numbers[chunk], chunk, report)
            accumulator.add(table, totals)
            if keep:
                tables.append(table)
    except KeyboardInterrupt:
        if not accumulator.num_seeds:
            raise
        interrupted = True
    manifest = {
        "schema_version": 1,
        "scenario": dump_scenario(scenario),
        "seeds": {"first": int(numbers[0]), "count": accumulator.num_seeds},
        "interrupted": interrupted,
        "notices": [*job.first.notices, *_pool_notices(scenario)],
        "versions": {
            "jaxsim": __version__,
            "jax": jax.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "device": {
            "platform": jax.default_backend(),
            "kind": jax.devices()[0].device_kind,
            "workers": len(workers),
        },
        "input_hashes": _input_hashes(scenario),
        "compile_seconds": job.compile_seconds,
        "run_seconds": job.run_seconds,
        "total_seconds": time.perf_counter() - started,
        "rounds": job.rounds,
        "iterations": job.iterations,
    }
    return Result(accumulator.summary(), RequestTable.concatenate(tables) if keep else None, manifest)


def run_many(
    scenarios: Sequence[Scenario],
    *,
    keep_requests: bool = False,
    devices: int | Literal["auto"] = "auto",
    progress: Callable[[float], None] | None = None,
) -> list[Result]:
    """Simulate several scenarios; those of equal structure share their compiled programs.

    Args:
        scenarios: what to simulate.
        keep_requests: keep the tables of requests.
        devices: as in `run`.
        progress: called now and then with the share of all runs that is done.

    Returns:
        One result per scenario, in order.

    Raises:
        ScenarioError: a scenario cannot be simulated.
    """
    share = 1 / max(1, len(scenarios))
    return [
        run(
            scenario, keep_requests=keep_requests, devices=devices, progress=_within_run(progress, place * share, share)
        )
        for place, scenario in enumerate(scenarios)
    ]


class _Job:
    """What stays the same from chunk to chunk of seeds, and what adds up over them."""

    def __init__(self, scenario: Scenario, requests: Requests | None, workers: list[_loop.Worker]) -> None:
        self._scenario = scenario
        self._given = requests
        self._groups = [_group(instance) for instance in scenario.cluster.instances]
        self._workers = workers
        self.first = requests or scenario.workload.draw(np.array([scenario.monte_carlo.first_seed]))
        self.num_requests = self.first.arrival_s.shape[1]
        self.compile_seconds = self.run_seconds = 0.0
        self.rounds = self.iterations = 0
        warmup = scenario.monte_carlo.warmup_requests
        if warmup >= self.num_requests:
            raise ScenarioError(
                f"must be less than the number of requests ({self.num_requests}), not {warmup}",
                "monte_carlo.warmup_requests",
            )

    def is_one_run(self, seeds: int) -> bool:
        """Whether the seeds are not independent replications: one seed, or copies of one trace."""
        workload = self._scenario.workload
        return seeds == 1 or (self._given is None and isinstance(workload, Trace) and not workload.differs_by_seed)

    def simulate(
        self, numbers: np.ndarray, rows: np.ndarray, progress: Callable[[float], None]
    ) -> tuple[RequestTable, LaneTotals]:
        """Draw and simulate some seeds: `numbers` their numbers, `rows` their places in the run."""
        requests = self._scenario.workload.draw(numbers) if self._given is None else _rows(self._given, rows)
        accepted = ~self._rejected(requests)
        started, compiled = time.perf_counter(), PROGRAMS.compile_seconds
        served = fleet.Fleet(
            self._groups, self._scenario.cluster.router, requests, accepted, self._scenario.engine.leap
        )
        [records] = fleet.simulate([served], self._workers, progress)
        compiling = PROGRAMS.compile_seconds - compiled
        self.compile_seconds += compiling
        self.run_seconds += time.perf_counter() - started - compiling
        self.rounds += int(records.rounds.sum())
        self.iterations += int(records.iterations.sum())
        finished = ~np.isnan(records.finish_s)
        status = np.where(finished, RequestStatus.COMPLETED, RequestStatus.UNFINISHED)
        table = RequestTable(
            seed=numbers,
            request=requests.row,
            arrival_s=requests.arrival_s,
            prompt_tokens=requests.prompt_tokens,
            output_tokens=np.where(finished, records.output_tokens, 0),
            instance=records.instance,
            decode_instance=np.full_like(records.instance, -1),
            first_scheduled_s=records.first_scheduled_s,
            first_token_s=records.first_token_s,
            finish_s=records.finish_s,
            preemptions=records.preemptions,
            cached_tokens=np.zeros_like(records.preemptions),
            status=np.where(accepted, status, RequestStatus.REJECTED).astype(np.int8),
            class_index=requests.class_index,
        )
        totals = LaneTotals(
            itl_counts=records.itl_counts,
            kv_token_seconds=records.kv_token_seconds,
            kv_capacity_token_seconds=records.makespan_s * self._capacity_tokens(),
            makespan_s=records.makespan_s,
            iterations=records.iterations,
            rounds=records.rounds,
            recomputed_tokens=records.recomputed_tokens,
            status=np.where(records.status == LaneStatus.OK, LaneStatus.OK, records.status),
        )
        return table, totals

    def _capacity_tokens(self) -> float:
        """Tokens that the KV pools of the fleet hold; nan if one is unlimited."""
        pools = [(group.count, group.num_blocks, group.block_size) for group in self._groups]
        return float(sum(count * (np.nan if blocks is None else blocks) * size for count, blocks, size in pools))

    def _rejected(self, requests: Requests) -> np.ndarray:
        """Requests that some instance could never serve.

        Raises:
            ScenarioError: there are some, and the workload does not say to reject them.
        """
        shape = requests.arrival_s.shape
        rejected = np.zeros(shape, bool)
        workload = self._scenario.workload
        for place, group in enumerate(self._groups):
            hopeless = group.infeasible(requests.prompt_tokens, requests.output_tokens)
            if hopeless.any() and not (isinstance(workload, Trace) and workload.on_infeasible == "reject"):
                seed, request = np.argwhere(hopeless)[0]
                why = group.why_infeasible(
                    int(requests.prompt_tokens[seed, request]), int(requests.output_tokens[seed, request])
                )
                raise ScenarioError(
                    f"cannot serve {self._describe(int(requests.row[seed, request]))}: {why}; "
                    f"{int(hopeless.sum())} of {hopeless.size} requests are like it",
                    f"cluster.instances.{place}",
                )
            rejected |= hopeless
        return rejected

    def _describe(self, row: int) -> str:
        workload = self._scenario.workload
        if self._given is None and isinstance(workload, Trace):
            return f"row {row + 1} of {workload.path} (on_infeasible: reject would leave such rows out)"
        return f"request {row}"


def _classes(scenario: Scenario, requests: Requests) -> list[ServiceClass]:
    """The classes of the requests; what a class was not promised itself, it was promised by the scenario."""
    own = {one.name: one.slo for one in getattr(scenario.workload, "classes", None) or ()}
    return [ServiceClass(name, own.get(name) or scenario.slo) for name in requests.class_names]


def _group(instance: Instance) -> InstanceGroup:
    pool = instance.kv_cache
    return InstanceGroup(
        count=instance.count,
        policy=instance.scheduler,
        latency=instance.latency,
        num_blocks=instance.num_blocks,
        block_size=pool.block_size,
        watermark=pool.watermark,
    )


def _chunks(seeds: int, num_requests: int) -> Iterator[tuple[int, np.ndarray]]:
    """Places of the seeds that are simulated together, with how many came before."""
    size = max(1, REQUESTS_PER_CHUNK // num_requests)
    for start in range(0, seeds, size):
        yield start, np.arange(start, min(start + size, seeds))


def _rows(requests: Requests, rows: np.ndarray) -> Requests:
    columns = ("arrival_s", "prompt_tokens", "output_tokens", "routing_uniform", "row", "priority", "class_index")
    return Requests(
        **{name: getattr(requests, name)[rows] for name in columns},
        rate_per_s=requests.rate_per_s,
        notices=requests.notices,
    )


def _pool_notices(scenario: Scenario) -> list[str]:
    """How large the KV pools are that were worked out from the device memory."""
    return [
        f"cluster.instances.{place}: {instance.num_blocks:,} KV blocks of {instance.kv_cache.block_size} tokens fit"
        for place, instance in enumerate(scenario.cluster.instances)
        if instance.num_blocks != instance.kv_cache.num_blocks
    ]


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


def _input_hashes(scenario: Scenario) -> dict[str, str]:
    """SHA-256 of every file the workload reads."""
    paths = _paths(dump_scenario(scenario)["workload"])
    return {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}


def _paths(data: Any) -> list[str]:
    if isinstance(data, dict):
        here = [data["path"]] if isinstance(data.get("path"), str) else []
        return here + [path for value in data.values() for path in _paths(value)]
    return []
