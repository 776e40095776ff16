"""KV transfers from prefill to decode instances (SCHEDULING, "Disaggregation")."""

import heapq
from collections import deque
from dataclasses import dataclass

from tests.oracle.job import Job
from tests.oracle.scheduler import Scheduler


@dataclass
class KvTransfer:
    latency_s: float = 0.0
    bandwidth_bytes_per_s: float | None = None
    bytes_per_token: float = 0.0
    contention: str = "none"
    overlap: str = "none"

    def seconds(self, job: Job) -> float:
        if self.bandwidth_bytes_per_s is None:
            return self.latency_s
        return self.latency_s + job.prompt * self.bytes_per_token / self.bandwidth_bytes_per_s

    def links(self, source: Scheduler, target: Scheduler) -> list[tuple]:
        """What the transfer needs for itself while it runs."""
        return {"none": [], "link": [(source, target)], "nic": [("out", source), ("in", target)]}[self.contention]


class Transfers:
    """A transfer first waits for blocks on its decode instance (first come first served there), then for its link."""

    def __init__(self, model: KvTransfer):
        assert model.overlap == "none"
        self._model = model
        self._waiting: dict[Scheduler, deque[tuple[Job, Scheduler]]] = {}
        self._landing: list[tuple[float, int, Job, Scheduler, Scheduler, int]] = []
        self._link_free: dict[tuple, float] = {}
        self._started = 0

    def next_landing(self) -> list[float]:
        return [self._landing[0][0]] if self._landing else []

    def request(self, job: Job, source: Scheduler, target: Scheduler) -> None:
        target.incoming += 1
        self._waiting.setdefault(target, deque()).append((job, source))

    def start(self, now: float) -> None:
        for target, queue in self._waiting.items():
            while queue:
                job, source = queue[0]
                blocks = target.blocks(job.prompt + 1)
                if target.free - blocks < target.watermark_blocks:
                    break
                queue.popleft()
                target.used_blocks += blocks
                links = self._model.links(source, target)
                begin = max([now, *(self._link_free.get(link, now) for link in links)])
                land = begin + self._model.seconds(job)
                self._link_free.update(dict.fromkeys(links, land))
                self._started += 1
                heapq.heappush(self._landing, (land, self._started, job, source, target, blocks))

    def land(self) -> None:
        """The earliest landing: blocks at the source are free, the request is queued at the target."""
        _, _, job, source, target, blocks = heapq.heappop(self._landing)
        source.release(job)
        job.blocks = blocks
        target.incoming -= 1
        target.landed.append(job)
