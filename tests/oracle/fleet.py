"""The event loop: one fleet of instances serving one list of requests.

At one instant: iterations end, then transfers land, then requests arrive, then instances schedule (DESIGN).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.oracle.job import Job
from tests.oracle.latency import Latency, batch_terms
from tests.oracle.routers import Router
from tests.oracle.scheduler import Plan, Scheduler
from tests.oracle.transfer import Transfers


@dataclass
class Iteration:
    """One batch that ran: when, its terms, and the KV it held."""

    start: float
    end: float
    n: int  # new tokens
    k: int  # context of decodes
    q: int  # pairs of prefill chunks
    decodes: int
    running: int
    used_blocks: int
    resident_tokens: int


@dataclass
class Instance:
    scheduler: Scheduler
    latency: Latency
    role: str = "unified"
    in_flight: deque[tuple[Plan, float]] = field(default_factory=deque)
    iterations: list[Iteration] = field(default_factory=list)
    at_boundary: bool = True  # may compose a batch now: idle, or a batch ended at this instant
    is_livelocked: bool = False
    _seen: set = field(default_factory=set)

    @property
    def kv_token_seconds(self) -> float:
        """Sum over iterations of seconds x tokens resident (computed + granted, over the running requests)."""
        return sum((i.end - i.start) * i.resident_tokens for i in self.iterations)

    def enqueue(self, job: Job) -> None:
        self.scheduler.waiting.push(job)
        self._seen.clear()

    def end_batch(self) -> list[Job]:
        """The oldest batch ends; returns the requests that leave."""
        plan, end = self.in_flight.popleft()
        if any(grant.emits for grant in plan.grants):
            self._seen.clear()
        self.at_boundary = True
        return self.scheduler.apply(plan, end)

    def schedule(self, now: float) -> None:
        """Compose batches until enough are in flight or there is nothing to do now."""
        self.at_boundary = self.at_boundary or not self.in_flight
        if self.at_boundary:
            self.scheduler.admit_landed()
        while self.at_boundary and len(self.in_flight) < self.scheduler.depth:
            if self._goes_in_circles():
                return
            plan = self.scheduler.plan()
            if plan.grants:
                self._submit(plan, now)
            elif not plan.preempted or self.in_flight:
                break
        self.at_boundary = False

    def _submit(self, plan: Plan, now: float) -> None:
        start = max(now, self.in_flight[-1][1]) if self.in_flight else now
        end = start + self.latency.seconds(plan.grants)
        self.in_flight.append((plan, end))
        for grant in plan.grants:
            if grant.job.first_scheduled is None:
                grant.job.first_scheduled = start
        decodes = sum(grant.is_decode for grant in plan.grants)
        held = (len(self.scheduler.running), self.scheduler.used_blocks, self.scheduler.resident_tokens())
        self.iterations.append(Iteration(start, end, *batch_terms(plan.grants), decodes, *held))

    def _goes_in_circles(self) -> bool:
        if self.scheduler.running:
            in_flight = tuple((g.job.index, g.context, g.tokens) for plan, _ in self.in_flight for g in plan.grants)
            snapshot = (in_flight, *self.scheduler.snapshot())
            self.is_livelocked = snapshot in self._seen
            self._seen.add(snapshot)
        return self.is_livelocked


@dataclass
class Outcome:
    """Jobs in the order of the workload. `status`: ok, livelock, or stuck (requests remain that can never run)."""

    status: str
    jobs: list[Job]
    instances: list[Instance]


def simulate(
    jobs: Sequence[Job], instances: list[Instance], router: Router, decode_router: Router, transfers: Transfers
) -> Outcome:
    """Run until nothing can happen any more. Jobs must be sorted by arrival."""
    for instance in instances:
        instance.scheduler.prefill_only = instance.role == "prefill"
    front = [i for i, instance in enumerate(instances) if instance.role != "decode"]
    back = [i for i, instance in enumerate(instances) if instance.role == "decode"]
    arrivals = deque(jobs)
    while not any(instance.is_livelocked for instance in instances):
        times = [instance.in_flight[0][1] for instance in instances if instance.in_flight]
        times += [job.arrival for job in list(arrivals)[:1]] + transfers.next_landing()
        if not times:
            break
        now = min(times)

        leaving = [job for i in instances if i.in_flight and i.in_flight[0][1] == now for job in i.end_batch()]
        for job in leaving:
            if instances[job.instance].scheduler.ends_with(job, job.emitted):
                job.finish = now
            else:
                job.decode_instance = back[decode_router(job, [instances[i] for i in back])]
                transfers.request(job, instances[job.instance].scheduler, instances[job.decode_instance].scheduler)
        transfers.start(now)
        while transfers.next_landing() == [now]:
            transfers.land()
            transfers.start(now)
        while arrivals and arrivals[0].arrival == now:
            job = arrivals.popleft()
            job.instance = front[router(job, [instances[i] for i in front])]
            instances[job.instance].enqueue(job)
        for instance in instances:
            instance.schedule(now)
        transfers.start(now)  # blocks that a preemption freed

    if all(job.finish is not None for job in jobs):
        status = "ok"
    else:
        status = "livelock" if any(instance.is_livelocked for instance in instances) else "stuck"
    return Outcome(status, list(jobs), instances)
