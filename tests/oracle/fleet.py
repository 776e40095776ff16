"""The event loop: one fleet of instances serving one list of requests.

At one instant: outages end, iterations end, transfers land, outages begin, requests are sent, instances schedule.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.oracle.clients import Clients
from tests.oracle.instance import Instance
from tests.oracle.job import Job
from tests.oracle.routers import Router
from tests.oracle.switching import RoleSwitching
from tests.oracle.transfer import Transfer, Transfers
from tests.oracle.waiting import Waiting

PATIENCE = 10_000  # compositions during which nothing happens in the whole fleet


@dataclass
class Outcome:
    """Jobs in the order of the workload. `status`: ok (all requests ended, one way or another), livelock, or stuck
    (requests remain that can never run)."""

    status: str
    jobs: list[Job]
    instances: list[Instance]
    transfers: list[Transfer] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)  # when instances were to go and to come back

    def has_near_tie(self, tolerance: float = 1e-9) -> bool:
        """Whether two events that do not follow from each other fall so close together that rounding may swap them.

        Ends and landings at exactly the same time are none: they have the same history, as far as rounding goes.
        """
        inner = {i.end for instance in self.instances for i in instance.iterations if not i.is_cut}
        inner |= {t.landing for t in self.transfers if t.landing < math.inf}
        outer = {time for job in self.jobs if job.sent is not None for time in (job.arrival, job.sent)} - inner
        outer |= {job.arrival for job in self.jobs if not job.is_numbered} | set(self.changes)
        times = sorted([*inner, *outer])  # what is in both is there twice
        return any(after - before <= tolerance * after for before, after in pairwise(times))


@dataclass
class Fleet:
    jobs: Sequence[Job]
    instances: list[Instance]
    router: Router
    decode_router: Router
    transfers: Transfers
    clients: Clients
    central: Waiting
    switching: RoleSwitching | None = None
    _progress: int = 0
    _patience: int = 0

    def run(self) -> Outcome:
        """Run until nothing can happen any more."""
        changes = [time for instance in self.instances for outage in instance.outages for time in outage]
        now = 0.0
        while not any(instance.is_livelocked for instance in self.instances):
            now = max(now, self._next_time())
            if now == math.inf:
                break
            self._recover(now)
            self._end_batches(now)
            self._land(now)
            self._fail(now)
            for job in self.clients.due(now):
                self._route(job, now)
            self._schedule(now)
            self.transfers.start(now)  # blocks that a preemption freed

        if all(job.ending for job in self.jobs):
            status = "ok"
        else:
            status = "livelock" if any(instance.is_livelocked for instance in self.instances) else "stuck"
        return Outcome(status, list(self.jobs), self.instances, self.transfers.log, changes)

    def _next_time(self) -> float:
        ends = [instance.in_flight[0][1] for instance in self.instances if instance.in_flight]
        changes = [i.outages[0][0 if i.is_available else 1] for i in self.instances if i.outages]
        return min([self.clients.next_time(), *ends, *changes, *self.transfers.next_landing()])

    def _recover(self, now: float) -> None:
        for instance in self.instances:
            if not instance.is_available and instance.outages[0][1] == now:
                instance.outages.popleft()
                instance.is_available = True

    def _end_batches(self, now: float) -> None:
        done = [i for i in self.instances if i.in_flight and i.in_flight[0][1] == now]
        for instance, job in [(i, job) for i in done for job in i.end_batch()]:
            if instance.scheduler.ends_with(job, job.emitted):
                job.finish = now
                self._end(job, "finished", now)
            else:
                self._route_decode(job, instance, now)

    def _land(self, now: float) -> None:
        self.transfers.start(now)
        while self.transfers.next_landing() == [now]:
            self.transfers.land()
            self.transfers.start(now)

    def _fail(self, now: float) -> None:
        failing = [i for i in self.instances if i.is_available and i.outages and i.outages[0][0] == now]
        for instance in failing:
            instance.is_available = False
        requeued = []
        for instance in failing:
            for job in instance.fail(now) + self.transfers.abandon(instance):
                if instance.on_failure == "lose":
                    self._end(job, "lost", now)
                else:
                    job.requeue()
                    requeued.append(job)
        for job in requeued:
            self._route(job, now)

    def _route(self, job: Job, now: float) -> None:
        if self.switching:
            self.switching.before_prefill(self.instances)
        group = reachable([instance for instance in self.instances if instance.takes_prefills])
        chosen = self.router.pick(job, job.uniform, group, now)
        if chosen is None:
            self.central.push(job)
        else:
            chosen.enqueue(job)

    def _route_decode(self, job: Job, source: Instance, now: float) -> None:
        if self.switching:
            self.switching.before_decode(self.instances)
        group = reachable([instance for instance in self.instances if instance.takes_decodes])
        chosen = self.decode_router.pick(job, job.uniform * 2**26 % 1, group, now)
        assert chosen is not None
        self.transfers.request(job, source, chosen, now)

    def _schedule(self, now: float) -> None:
        for instance in self.instances:
            if instance.is_available:
                instance.schedule(now, self._outside(instance, now))
                for job in instance.scheduler.aborted:
                    self._end(job, "aborted", now)
                instance.scheduler.aborted.clear()

    def _outside(self, instance: Instance, now: float) -> float:
        """An instance whose KV is tied up in transfers may turn in circles until something moves elsewhere."""
        if not self.transfers.of(instance):
            return 0.0
        progress = sum(job.emitted + (job.kv_landed is not None) for job in self.jobs)
        if progress != self._progress:
            self._progress, self._patience = progress, PATIENCE
        self._patience -= 1
        return now if self._patience > 0 else 0.0

    def _end(self, job: Job, ending: str, now: float) -> None:
        job.ending = ending
        self.clients.ended(job, now)


def reachable(group: list[Instance]) -> list[Instance]:
    """The available ones; all of them if there is none."""
    return [instance for instance in group if instance.is_available] or group
