"""The waiting queue of one instance, and the central queue that several may share."""

from collections.abc import Callable, Iterator

from tests.oracle.job import Job

KEYS: dict[str, Callable[[Job], tuple]] = {
    "priority": lambda job: (job.priority, job.place, job.id),
    "shortest_prompt": lambda job: (job.prompt, job.place, job.index),
    "shortest_job": lambda job: (job.output, job.place, job.index),
    "longest_waiting": lambda job: (job.place, job.index),
}


class Waiting:
    """First come first served with preempted requests at the front (`fcfs`), or sorted by a key that never changes.

    With a `central` queue it goes on with that one's requests, which nobody owns until they are taken out: `adopt`.
    """

    def __init__(self, order: str = "fcfs"):
        self.order = order
        self._key = None if order == "fcfs" else KEYS[order]
        self.own: list[Job] = []
        self.central: Waiting | None = None
        self.adopt: Callable[[Job], None] = lambda job: None
        self.lets_go: Callable[[], bool] = lambda: False

    def __len__(self) -> int:
        return len(self.own) + (len(self.central) if self.central else 0)

    def __iter__(self) -> Iterator[Job]:
        jobs = self.own + (self.central.own if self.central else [])
        return iter(sorted(jobs, key=self._key) if self._key else jobs)

    def head(self) -> Job:
        return next(iter(self))

    def leaves(self, job: Job) -> bool:
        """Whether it will leave when its prefill here is done."""
        return job.leaves if job in self.own else self.lets_go()

    def remove(self, job: Job) -> None:
        if job in self.own:
            self.own.remove(job)
        else:
            assert self.central is not None
            self.central.remove(job)
            self.adopt(job)

    def push(self, job: Job) -> None:
        self.own.append(job)
        self._sort()

    def push_preempted(self, job: Job) -> None:
        self.own.insert(0, job)
        self._sort()

    def _sort(self) -> None:
        if self._key:
            self.own.sort(key=self._key)
