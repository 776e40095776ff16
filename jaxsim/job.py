"""Chunks of the seeds of one run: their requests drawn, served by the fleet, and what became of them."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jaxsim import _loop
from jaxsim._status import RequestStatus
from jaxsim.cluster import fleet, whole
from jaxsim.cluster.instances import InstanceGroup
from jaxsim.config.errors import ScenarioError
from jaxsim.config.schema import Instance, Scenario
from jaxsim.engine.programs import PROGRAMS
from jaxsim.latency.gridded import Gridded
from jaxsim.mean_field import Past, past_of
from jaxsim.metrics import LaneTotals, RequestTable, ServiceClass
from jaxsim.metrics.events import Events
from jaxsim.warm import after, since_start
from jaxsim.workload import Requests, Synthetic, Trace
from jaxsim.workload.random import STRATA

FEWEST_CLUSTERS = 8
"""Groups of seeds that share out their draws, from which on an interval takes the groups rather than the seeds for
independent. With fewer it is as wide as for independent draws, which is too wide."""


@dataclass
class Cost:
    """What simulating took.

    Attributes:
        compile_seconds: spent compiling.
        run_seconds: spent simulating, compilation excluded.
        rounds: of the array program, summed over seeds.
        iterations: of the engines.
    """

    compile_seconds: float = 0.0
    run_seconds: float = 0.0
    rounds: int = 0
    iterations: int = 0

    def add(self, other: "Cost") -> None:
        """Add the cost of something else."""
        self.compile_seconds += other.compile_seconds
        self.run_seconds += other.run_seconds
        self.rounds += other.rounds
        self.iterations += other.iterations


class Job:
    """What stays the same from chunk to chunk.

    Args:
        scenario: what to simulate.
        requests: requests in place of those of the scenario's workload; each of their rows is a seed.
        workers: where to simulate.

    Attributes:
        scenario: what is simulated.
        first: requests of the first seed, or all that were given.
        num_requests: requests of each seed.
        seeds: int64 `[R]`, the numbers of all seeds of the run.

    Raises:
        ScenarioError: no request would be left after the warm-up, or there is no past to start warm from.
    """

    def __init__(self, scenario: Scenario, requests: Requests | None, workers: list[_loop.Worker]) -> None:
        settings = scenario.monte_carlo
        self.scenario = scenario
        self.first = requests or scenario.workload.draw(np.array([settings.first_seed]))
        self._stratified = settings.draws == "stratified"
        if self._stratified and (requests is not None or not isinstance(scenario.workload, Synthetic)):
            raise ScenarioError("stratified needs a workload of kind synthetic: say independent", "monte_carlo.draws")
        self.num_requests = self.first.arrival_s.shape[1]
        count = settings.seeds if requests is None else len(requests.arrival_s)
        self.seeds = settings.first_seed + np.arange(count, dtype=np.int64)
        self._given = requests
        self._groups = [_group(instance) for instance in scenario.cluster.instances]
        self._workers = workers
        self._past = Past(0, "")
        if settings.start == "warm":
            if requests is not None:
                raise ScenarioError(
                    "warm needs a workload that can be drawn for the time before, too; where requests are given, say "
                    "empty, and leave out the beginning with monte_carlo.warmup_requests",
                    "monte_carlo.start",
                )
            self._past = past_of(scenario)
        if settings.warmup_requests >= self.num_requests:
            raise ScenarioError(
                f"must be less than the number of requests ({self.num_requests}), not {settings.warmup_requests}",
                "monte_carlo.warmup_requests",
            )

    @property
    def total_requests(self) -> int:
        """Requests of all seeds."""
        return len(self.seeds) * self.num_requests

    @property
    def past(self) -> int:
        """Requests that are simulated before those of each seed, and not measured."""
        return self._past.requests

    @property
    def simulated_requests(self) -> int:
        """Requests of each seed with those before it: what a seed costs."""
        return self.num_requests + self.past

    @property
    def is_one_run(self) -> bool:
        """Whether the seeds are not independent replications: one seed, or copies of one trace."""
        copies = self._given is None and not self.scenario.workload.differs_by_seed
        return len(self.seeds) == 1 or copies

    @property
    def hands_over(self) -> bool:
        """Whether requests decode at other instances than they prefill at."""
        return any(group.role == "prefill" for group in self._groups)

    @property
    def seeds_per_cluster(self) -> int:
        """Seeds that are taken together as one independent replication: those that share out their draws, if there are
        enough to leave several."""
        return STRATA if self._stratified and len(self.seeds) >= FEWEST_CLUSTERS * STRATA else 1

    @property
    def has_classes(self) -> bool:
        """Whether requests may be of several classes."""
        return bool(self.first.class_names) or bool(self.first.class_index.any())

    @property
    def classes(self) -> list[ServiceClass]:
        """The classes of the requests; what a class was not promised itself, it was promised by the scenario."""
        own = {one.name: one.slo for one in getattr(self.scenario.workload, "classes", None) or ()}
        return [ServiceClass(name, own.get(name) or self.scenario.slo) for name in self.first.class_names]

    @property
    def notices(self) -> list[str]:
        """What was done to the input, and how large KV pools are that were worked out; sentences for the user."""
        pools = [
            f"cluster.instances.{place}: {instance.num_blocks:,} KV blocks of {instance.kv_cache.block_size} tokens fit"
            for place, instance in enumerate(self.scenario.cluster.instances)
            if instance.num_blocks != instance.kv_cache.num_blocks
        ]
        past = [self._past.sentence] if self._past.sentence else []
        return [*self.first.notices, *pools, *self._beyond_tables(self.first), *past]

    def simulate(self, places: np.ndarray, progress: Callable[[float], None]) -> tuple[RequestTable, LaneTotals, Cost]:
        """Draw and simulate some seeds.

        Args:
            places: int64 `[M]`, their places in `seeds`, consecutive.
            progress: called with the share of the work that was just finished.

        Raises:
            ScenarioError: there are requests that an instance can never serve, and they are not to be rejected.
        """
        [found] = simulate_together([(self, places)], progress)
        return found

    def _draw(self, seeds: np.ndarray) -> Requests:
        workload = self.scenario.workload
        if isinstance(workload, Synthetic):
            return workload.draw(seeds, self._stratified)
        return workload.draw(seeds)

    def _served(self, seeds: np.ndarray, places: np.ndarray) -> tuple[fleet.Fleet, np.ndarray]:
        """The fleet with the requests of some seeds behind those before them, and when each seed starts (`[M]`)."""
        workload = self.scenario.workload
        requests = self._draw(seeds) if self._given is None else _rows(self._given, places)
        start_s = np.zeros(len(seeds))
        if self.past:
            assert isinstance(workload, Synthetic)  # others have none
            requests, start_s = after(workload.past(seeds, self.past, self._stratified), requests)
        accepted = ~self._rejected(requests)
        self._beyond_tables(requests)
        cluster = self.scenario.cluster
        served = fleet.Fleet(
            groups=self._groups,
            router=cluster.router,
            requests=requests,
            accepted=accepted,
            leap=self.scenario.engine.leap,
            decode_router=cluster.decode_router,
            transfer=cluster.transfer,
            switching=cluster.role_switching,
        )
        return served, start_s

    def _totals(self, records: fleet.FleetRecords) -> LaneTotals:
        return LaneTotals(
            itl_counts=records.itl_counts,
            kv_token_seconds=records.kv_token_seconds,
            kv_capacity_token_seconds=records.makespan_s * self._capacity_tokens(),
            makespan_s=records.makespan_s,
            iterations=records.iterations,
            rounds=records.rounds,
            recomputed_tokens=records.recomputed_tokens,
            status=records.status,
        )

    def _capacity_tokens(self) -> float:
        """Tokens that the KV pools of the fleet hold; nan if one is unlimited."""
        pools = [(group.count, group.num_blocks, group.block_size) for group in self._groups]
        return float(sum(count * (np.nan if blocks is None else blocks) * size for count, blocks, size in pools))

    def _rejected(self, requests: Requests) -> np.ndarray:
        """Requests that some instance could never serve; raises unless the workload says to reject them."""
        rejected = np.zeros(requests.arrival_s.shape, bool)
        workload = self.scenario.workload
        largest = requests.prompt_tokens.max(keepdims=True), requests.output_tokens.max(keepdims=True)
        for place, group in enumerate(self._groups):
            if not group.infeasible(*largest).any():
                continue  # so is no other, without looking at each
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

    def _beyond_tables(self, requests: Requests) -> list[str]:
        """What batches may ask of latency tables beyond their ends, in sentences.

        Raises:
            ScenarioError: they may, and the table does not say what it is there.
        """
        found: list[str] = []
        for place, group in enumerate(self._groups):
            if isinstance(group.latency, Gridded):
                try:
                    found += group.latency.check_reach(group.reach(requests.prompt_tokens, requests.output_tokens))
                except ValueError as error:
                    raise ScenarioError(str(error), f"cluster.instances.{place}.latency.extrapolate") from None
        return found

    def record(self, place: int) -> tuple[RequestTable, Events]:
        """Simulate one seed, and keep what the instances did, batch by batch.

        Args:
            place: its place in `seeds`.
        """
        places = np.array([place])
        served, start_s = self._served(self.seeds[places], places)
        records, columns = whole.record(served, self._workers[:1])
        table = _table(self.seeds[places], served.requests, served.accepted, records)
        if self.past:
            table, _ = since_start(table, self._totals(records), start_s, self.past)
            for name in ("start_s", "end_s"):
                columns[name] = columns[name] - start_s[0]
        return table, Events(**columns)

    def _describe(self, row: int) -> str:
        workload = self.scenario.workload
        if self._given is None and isinstance(workload, Trace):
            return f"row {row + 1} of {workload.path} (on_infeasible: reject would leave such rows out)"
        return f"request {row}"


def simulate_together(
    parts: Sequence[tuple[Job, np.ndarray]], progress: Callable[[float], None]
) -> list[tuple[RequestTable, LaneTotals, Cost]]:
    """Draw and simulate some seeds of several jobs, side by side where their structure is equal.

    Args:
        parts: a job, and places in its `seeds` (int64 `[M]`, consecutive).
        progress: called with the share of the work that was just finished.

    Returns:
        What became of each part; seconds are shared out by the number of requests.

    Raises:
        ScenarioError: there are requests that an instance can never serve, and they are not to be rejected.
    """
    served = [job._served(job.seeds[places], places) for job, places in parts]
    started, compiled = time.perf_counter(), PROGRAMS.compile_seconds
    found = fleet.simulate([one for one, _ in served], parts[0][0]._workers, progress)
    compiling = PROGRAMS.compile_seconds - compiled
    running = time.perf_counter() - started - compiling
    total = sum(one.accepted.size for one, _ in served)
    outcomes = []
    for (job, places), (one, start_s), records in zip(parts, served, found, strict=True):
        share = one.accepted.size / total
        cost = Cost(share * compiling, share * running, int(records.rounds.sum()), int(records.iterations.sum()))
        table, totals = _table(job.seeds[places], one.requests, one.accepted, records), job._totals(records)
        if job.past:
            table, totals = since_start(table, totals, start_s, job.past)
        outcomes.append((table, totals, cost))
    return outcomes


def _group(instance: Instance) -> InstanceGroup:
    pool = instance.kv_cache
    return InstanceGroup(
        count=instance.count,
        policy=instance.scheduler,
        latency=instance.latency,
        num_blocks=instance.num_blocks,
        block_size=pool.block_size,
        watermark=pool.watermark,
        role=instance.role,
        unavailable=instance.unavailable,
        on_failure=instance.on_failure,
    )


def _rows(requests: Requests, rows: np.ndarray) -> Requests:
    """Some of the seeds of `requests`: consecutive rows, as views."""
    here = slice(int(rows[0]), int(rows[-1]) + 1)
    columns = ("arrival_s", "prompt_tokens", "output_tokens", "routing_uniform", "row", "priority", "class_index")
    clients = requests.clients
    if clients is not None and clients.think_s is not None:
        clients = dataclasses.replace(clients, think_s=clients.think_s[here])
    some = {name: getattr(requests, name)[here] for name in columns}
    return dataclasses.replace(requests, **some, clients=clients)


def _table(seeds: np.ndarray, requests: Requests, accepted: np.ndarray, records: fleet.FleetRecords) -> RequestTable:
    shape = requests.arrival_s.shape
    finished = ~np.isnan(records.finish_s)
    status = np.where(finished, np.int8(RequestStatus.COMPLETED), np.int8(RequestStatus.UNFINISHED))
    status[~accepted] = RequestStatus.REJECTED
    if records.given_up is not None:
        status = np.where(records.given_up > 0, records.given_up, status).astype(np.int8)
    decode_instance = records.decode_instance
    return RequestTable(
        seed=seeds,
        request=requests.row,
        arrival_s=_arrival_s(requests, records),
        prompt_tokens=requests.prompt_tokens,
        output_tokens=records.output_tokens if finished.all() else np.where(finished, records.output_tokens, 0),
        instance=records.instance,
        decode_instance=np.broadcast_to(np.int32(-1), shape) if decode_instance is None else decode_instance,
        first_scheduled_s=records.first_scheduled_s,
        first_token_s=records.first_token_s,
        finish_s=records.finish_s,
        preemptions=records.preemptions,
        cached_tokens=np.broadcast_to(np.int32(0), shape),
        status=status,
        class_index=requests.class_index,
        **{_STAMPS[name]: column for name, column in records.handover.items() if name in _STAMPS},
    )


_STAMPS = {
    "asked_s": "kv_asked_s",
    "granted_s": "kv_granted_s",
    "started_s": "kv_started_s",
    "landed_s": "kv_landed_s",
    "scheduled_s": "decode_scheduled_s",
}


def _arrival_s(requests: Requests, records: fleet.FleetRecords) -> np.ndarray:
    """When requests arrived: in a closed loop when they were sent; those that never were, at the end."""
    if requests.clients is None or requests.clients.concurrency is None or records.sent_s is None:
        return requests.arrival_s
    return np.where(np.isnan(records.sent_s), records.makespan_s[:, None], records.sent_s)
