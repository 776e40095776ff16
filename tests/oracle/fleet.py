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

    def end_batch(self) -> tuple[Plan, list[Job]]:
        """The oldest batch ends; returns it and the requests it finished."""
        plan, end = self.in_flight.popleft()
        if any(grant.emits for grant in plan.grants):
            self._seen.clear()
        self.at_boundary = True
        return plan, self.scheduler.apply(plan, end)

    def schedule(self, now: float) -> None:
        """Compose batches until enough are in flight or there is nothing to do now."""
        self.at_boundary = self.at_boundary or not self.in_flight
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
        held = (len(self.scheduler.running), self.scheduler.used_blocks(), self.scheduler.resident_tokens())
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


def simulate(jobs: Sequence[Job], instances: list[Instance], router: Router) -> Outcome:
    """Run until nothing can happen any more. Jobs must be sorted by arrival."""
    arrivals = deque(jobs)
    while not any(instance.is_livelocked for instance in instances):
        times = [instance.in_flight[0][1] for instance in instances if instance.in_flight]
        if arrivals:
            times.append(arrivals[0].arrival)
        if not times:
            break
        now = min(times)
        for instance in instances:
            if instance.in_flight and instance.in_flight[0][1] == now:
                _, done = instance.end_batch()
                for job in done:
                    job.finish = now
        while arrivals and arrivals[0].arrival == now:
            job = arrivals.popleft()
            job.instance = router(job, instances)
            instances[job.instance].enqueue(job)
        for instance in instances:
            instance.schedule(now)
    if all(job.finish is not None for job in jobs):
        status = "ok"
    else:
        status = "livelock" if any(instance.is_livelocked for instance in instances) else "stuck"
    return Outcome(status, list(jobs), instances)
