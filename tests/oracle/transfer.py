"""KV transfers from prefill to decode instances (SCHEDULING, "Disaggregation")."""

import math
from collections import deque
from dataclasses import dataclass, field

from tests.oracle.instance import Instance
from tests.oracle.job import Job


@dataclass
class KvTransfer:
    latency_s: float = 1e-4
    bandwidth_bytes_per_s: float | None = 2.5e10
    bytes_per_token: float = 131072
    contention: str = "link"
    overlap: str = "none"
    layers: int = 1

    def seconds(self, job: Job, prefill_s: float) -> float:
        """What is left to do when the prefill, which took `prefill_s`, is done."""
        if self.bandwidth_bytes_per_s is None:
            return self.latency_s
        whole = job.computed * self.bytes_per_token / self.bandwidth_bytes_per_s
        if self.overlap == "layerwise":
            whole = max(whole / self.layers, whole - prefill_s * (self.layers - 1) / self.layers)
        return self.latency_s + whole

    def links(self, source: Instance, target: Instance) -> list[tuple]:
        """What the transfer needs for itself while it runs."""
        by_contention: dict[str, list[tuple]] = {
            "none": [],
            "link": [(source, target)],
            "nic": [("out", source), ("in", target)],
        }
        return by_contention[self.contention]


@dataclass(eq=False)
class Transfer:
    job: Job
    source: Instance
    target: Instance
    asked: float
    seconds: float
    links: list[tuple]
    blocks: int
    started: float | None = None  # when its links are its own; None while it waits for memory
    landing: float = math.inf


@dataclass
class Transfers:
    """A transfer first waits for blocks on its decode instance (first come first served there), then for its links."""

    model: KvTransfer
    waiting: dict[Instance, deque[Transfer]] = field(default_factory=dict)
    moving: list[Transfer] = field(default_factory=list)  # in the order in which they got memory
    log: list[Transfer] = field(default_factory=list)  # all that ever were, in the order in which they asked for memory
    _link_free: dict[tuple, float] = field(default_factory=dict)

    def next_landing(self) -> list[float]:
        return [self._first().landing] if self.moving else []

    def _first(self) -> Transfer:
        return min(self.moving, key=lambda transfer: transfer.landing)

    def request(self, job: Job, source: Instance, target: Instance, now: float) -> None:
        """The prefill is done and the decode instance chosen: ask for memory there."""
        job.leaves = False
        job.kv_asked = now
        job.decode_instance = target.index
        if source is target:  # it was lent meanwhile: nothing moves
            job.kv_granted = job.kv_started = job.kv_landed = now
            target.scheduler.landed.append(job)
            return
        seconds = self.model.seconds(job, now - job.prefill_started)
        links, blocks = self.model.links(source, target), target.scheduler.landing_blocks(job)
        transfer = Transfer(job, source, target, now, seconds, links, blocks)
        target.scheduler.incoming.append(job)
        self.waiting.setdefault(target, deque()).append(transfer)
        self.log.append(transfer)

    def start(self, now: float) -> None:
        """Give memory to those that wait for it, and each its time on its links."""
        for target, queue in self.waiting.items():
            scheduler = target.scheduler
            while queue and target.is_available:
                transfer = queue[0]
                if scheduler.free - transfer.blocks < scheduler.watermark_blocks:
                    break
                queue.popleft()
                scheduler.used_blocks += transfer.blocks
                begin = max([now, *(self._link_free.get(link, now) for link in transfer.links)])
                transfer.started, transfer.landing = begin, begin + transfer.seconds
                self._link_free.update(dict.fromkeys(transfer.links, transfer.landing))
                transfer.job.kv_granted, transfer.job.kv_started = now, begin
                self.moving.append(transfer)

    def land(self) -> None:
        """The earliest landing: blocks at the source are free, the request is queued at the target."""
        transfer = self._first()
        job, target = transfer.job, transfer.target.scheduler
        self.moving.remove(transfer)
        transfer.source.scheduler.release(job)
        job.blocks = transfer.blocks
        job.prefill_goal = job.computed
        job.kv_landed = transfer.landing
        target.incoming.remove(job)
        target.landed.append(job)

    def of(self, instance: Instance) -> list[Transfer]:
        """Those from and to an instance that have not landed."""
        under_way = [t for queue in self.waiting.values() for t in queue] + self.moving
        return [t for t in self.log if t in under_way and instance in (t.source, t.target)]

    def abandon(self, failing: Instance) -> list[Job]:
        """Drop all transfers from and to an instance that fails; what was given of links stays given."""
        hit = self.of(failing)
        for transfer in hit:
            transfer.source.scheduler.release(transfer.job)
            transfer.target.scheduler.incoming.remove(transfer.job)
            if transfer in self.moving:
                self.moving.remove(transfer)
                transfer.target.scheduler.used_blocks -= transfer.blocks
            else:
                self.waiting[transfer.target].remove(transfer)
        return [transfer.job for transfer in hit]
