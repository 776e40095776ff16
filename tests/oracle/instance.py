"""One instance: a scheduler with its clock, its role in the fleet and the times it is away."""

from collections import deque
from dataclasses import dataclass, field

from tests.oracle.job import Job
from tests.oracle.latency import Latency, batch_terms
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
    is_cut: bool = False  # the instance failed under it, at `end`


@dataclass(eq=False)
class Instance:
    scheduler: Scheduler
    latency: Latency
    role: str = "unified"
    index: int = 0
    entry: int = 0  # which entry of `cluster.instances` it comes from
    outages: deque[tuple[float, float]] = field(default_factory=deque)  # still to come, the present one included
    on_failure: str = "requeue"
    is_available: bool = True
    is_lent: bool = False  # a decode instance that takes prefills too, or the reverse

    in_flight: deque[tuple[Plan, float]] = field(default_factory=deque)
    iterations: list[Iteration] = field(default_factory=list)
    at_boundary: bool = True  # may compose a batch now: idle, or a batch ended at this instant
    is_livelocked: bool = False
    _seen: set = field(default_factory=set)

    def __post_init__(self) -> None:
        self.scheduler.waiting.adopt = self.adopt
        self.scheduler.waiting.lets_go = lambda: self.lets_go

    @property
    def takes_prefills(self) -> bool:
        return self.role != "decode" or self.is_lent

    @property
    def takes_decodes(self) -> bool:
        """From other instances, that is: a unified one does not."""
        return self.role == "decode" or (self.role == "prefill" and self.is_lent)

    @property
    def lets_go(self) -> bool:
        """Whether requests that come now leave when their prefill is done."""
        return self.role == "prefill" and not self.is_lent

    @property
    def kv_token_seconds(self) -> float:
        """Sum over iterations of seconds x tokens resident (computed + granted, over the running requests)."""
        return sum((i.end - i.start) * i.resident_tokens for i in self.iterations)

    def adopt(self, job: Job) -> None:
        """The request is this instance's from now on."""
        job.instance = self.index
        job.leaves = self.lets_go
        job.kept = job.emitted

    def enqueue(self, job: Job) -> None:
        self.adopt(job)
        self.scheduler.waiting.push(job)
        self._seen.clear()

    def end_batch(self) -> list[Job]:
        """The oldest batch ends; returns the requests that leave."""
        plan, end = self.in_flight.popleft()
        emitting = [grant.job for grant in plan.grants if grant.emits]
        if emitting:
            self._seen.clear()
        self.at_boundary = True
        leaving = self.scheduler.apply(plan, end)
        for job in emitting:
            has_more = not self.scheduler.ends_with(job, job.emitted)
            if self.role != "unified" and not job.leaves and has_more:
                job.decode_instance = self.index
        return leaving

    def schedule(self, now: float, outside: float = 0.0) -> None:
        """Compose batches until enough are in flight or there is nothing to do now.

        `outside` differs whenever something else may have changed what this instance can do.
        """
        self.at_boundary = self.at_boundary or not self.in_flight
        while self.at_boundary and len(self.in_flight) < self.scheduler.depth:
            self.scheduler.admit_landed()
            if self._goes_in_circles(outside):
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
            job = grant.job
            if job.first_scheduled is None:
                job.first_scheduled = start
            if job.kv_landed is not None and job.decode_scheduled is None:
                job.decode_scheduled = start
            if grant.context == 0:
                job.prefill_started = start
        decodes = sum(grant.is_decode for grant in plan.grants)
        held = (len(self.scheduler.members), self.scheduler.used_blocks, self.scheduler.resident_tokens())
        self.iterations.append(Iteration(start, end, *batch_terms(plan.grants), decodes, *held))

    def _goes_in_circles(self, outside: float) -> bool:
        if self.scheduler.running:
            in_flight = tuple((g.job.index, g.context, g.tokens) for plan, _ in self.in_flight for g in plan.grants)
            snapshot = (in_flight, outside, *self.scheduler.snapshot())
            self.is_livelocked = snapshot in self._seen
            self._seen.add(snapshot)
        return self.is_livelocked

    def fail(self, now: float) -> list[Job]:
        """Batches in flight come to nothing; returns the requests that were here. A batch that had begun is cut."""
        for plan, _ in self.in_flight:  # what it would have begun has not begun
            for grant in plan.grants:
                if grant.job.first_scheduled is not None and grant.job.first_scheduled >= now:
                    grant.job.first_scheduled = None
        self.in_flight.clear()
        self.iterations = [i for i in self.iterations if i.start < now]
        if self.iterations and self.iterations[-1].end > now:
            self.iterations[-1].end, self.iterations[-1].is_cut = now, True
        self._seen.clear()
        return self.scheduler.abandon()
