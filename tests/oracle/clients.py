"""Who sends the requests: open arrivals, held back or not, or a closed loop of users."""

import heapq
import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from tests.oracle.job import Job


class Clients(Protocol):
    def next_time(self) -> float:
        """When the next request will be sent, as things stand; infinity: not before another one ends, or never."""

    def due(self, now: float) -> Iterator[Job]:
        """Send what is due."""

    def ended(self, job: Job, now: float) -> None:
        """A request finished, or was lost or given up."""


class Open:
    """Requests come when they come; at most `max_in_flight` are with the fleet, the others wait with the client."""

    def __init__(self, jobs: Sequence[Job], max_in_flight: int | None = None):
        self._unsent = deque(jobs)
        self._free = math.inf if max_in_flight is None else max_in_flight

    def next_time(self) -> float:
        return self._unsent[0].arrival if self._unsent and self._free > 0 else math.inf

    def due(self, now: float) -> Iterator[Job]:
        while self.next_time() <= now:
            job = self._unsent.popleft()
            self._free -= 1
            job.sent = now
            yield job

    def ended(self, job: Job, now: float) -> None:
        self._free += 1


class ClosedLoop:
    """Users share the list of requests: whoever is ready first sends the next one, waits for its end, and thinks."""

    def __init__(self, jobs: Sequence[Job], concurrency: int, think_time_s: float = 0.0):
        self._unsent = deque(jobs)
        self._think_time_s = think_time_s
        self._ready = [(0.0, user) for user in range(concurrency)]
        self._user: dict[Job, int] = {}
        for job in jobs:
            job.is_numbered = True

    def next_time(self) -> float:
        return self._ready[0][0] if self._unsent and self._ready else math.inf

    def due(self, now: float) -> Iterator[Job]:
        while self.next_time() <= now:
            job = self._unsent.popleft()
            _, self._user[job] = heapq.heappop(self._ready)
            job.arrival = job.sent = now
            yield job

    def ended(self, job: Job, now: float) -> None:
        think_s = self._think_time_s if job.think_s is None else job.think_s
        heapq.heappush(self._ready, (now + think_s, self._user[job]))
