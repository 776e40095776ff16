"""The waiting queue of one instance."""

from collections.abc import Callable, Iterator

from tests.oracle.job import Job

KEYS: dict[str, Callable[[Job], tuple]] = {
    "priority": lambda job: (job.priority, job.arrival, job.id),
    "shortest_prompt": lambda job: (job.prompt, job.arrival, job.index),
    "shortest_job": lambda job: (job.output, job.arrival, job.index),
    "longest_waiting": lambda job: (job.arrival, job.index),
}


class Waiting:
    """First come first served with preempted requests at the front (`fcfs`), or sorted by a key that never changes."""

    def __init__(self, order: str = "fcfs"):
        self._key = None if order == "fcfs" else KEYS[order]
        self._jobs: list[Job] = []

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(list(self._jobs))

    def head(self) -> Job:
        return self._jobs[0]

    def remove(self, job: Job) -> None:
        self._jobs.remove(job)

    def push(self, job: Job) -> None:
        self._jobs.append(job)
        self._sort()

    def push_preempted(self, job: Job) -> None:
        self._jobs.insert(0, job)
        self._sort()

    def _sort(self) -> None:
        if self._key:
            self._jobs.sort(key=self._key)
