"""What every scheduler has: a waiting queue, a running list and a pool of KV blocks."""

import math
from dataclasses import dataclass, field

from tests.oracle.job import Job
from tests.oracle.latency import Grant
from tests.oracle.waiting import Waiting


@dataclass
class Plan:
    """One composed batch. Empty with `preempted` set means: schedule again at the same time."""

    grants: list[Grant] = field(default_factory=list)
    preempted: bool = False


@dataclass
class KvCache:
    num_blocks: int | None = None
    block_size: int = 16
    watermark: float = 0.0


class Scheduler:
    """Base of the policies: `plan` composes a batch, `apply` handles its end. Batches in flight: `depth`."""

    depth = 1

    def __init__(self, kv: KvCache, queue_order: str = "fcfs"):
        self.block_size = kv.block_size
        self.capacity = math.inf if kv.num_blocks is None else kv.num_blocks
        self.watermark_blocks = 0 if kv.num_blocks is None else int(kv.watermark * kv.num_blocks)
        self.free = self.capacity
        self.waiting = Waiting(queue_order)
        self.running: list[Job] = []

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, plan: Plan, end: float) -> list[Job]:
        """Emit the batch's tokens at `end`; returns the requests that are done, which have left."""
        done = []
        for grant in plan.grants:
            job = grant.job
            if grant.emits:
                job.emitted += 1
                job.owed = max(0, job.owed - 1)
                job.token_times.append(end)
                if self.is_done(job):
                    self.retire(job)
                    done.append(job)
        return done

    def is_done(self, job: Job) -> bool:
        return job.emitted == job.output

    def retire(self, job: Job) -> None:
        """The request leaves, from wherever it is, and its blocks are free."""
        self.release(job)
        (self.running if job in self.running else self.waiting).remove(job)

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def take(self, job: Job, blocks: int) -> None:
        """Let the request hold `blocks` blocks in total."""
        self.free -= blocks - job.blocks
        job.blocks = blocks
        assert 0 <= self.free <= self.capacity

    def release(self, job: Job) -> None:
        self.free += job.blocks
        job.blocks = 0

    def preempt(self, job: Job) -> None:
        """By recomputation: what it computed is forgotten, what it emitted is kept."""
        self.running.remove(job)
        self.release(job)
        job.computed = 0
        job.owed = 0
        job.preemptions += 1
        self.waiting.push_preempted(job)

    def make_room(self, job: Job, victims: list[Job]) -> bool:
        """vllm_v0 and sarathi: a decode needs one free block, whether or not it will take it. Preempts the last of
        `victims` until there is one, and the request itself when none is left. Returns whether anyone was preempted."""
        preempted = False
        while self.free < 1 and job in self.running:
            self.preempt(victims.pop() if victims else job)
            preempted = True
        return preempted

    def grant_decode(self, job: Job) -> Grant:
        """One token on top of what is computed, and a block for it if the last one is full."""
        context = job.computed
        self.take(job, max(job.blocks, self.blocks(context + 1)))
        job.compute(1)
        return Grant(job, context, 1, is_decode=True, emits=True)

    def grant_prefill(self, job: Job, tokens: int) -> Grant:
        """The next piece of the prompt; its last piece emits. Blocks are the caller's business."""
        context = job.computed
        if context == 0:
            job.prefill_goal = job.known
        job.compute(tokens)
        return Grant(job, context, tokens, is_decode=False, emits=not job.is_prefilling)

    def used_blocks(self) -> int:
        return sum(job.blocks for job in self.running)

    def resident_tokens(self) -> int:
        """Tokens with KV once the batch just planned has run: (computed + granted) over the running requests."""
        return sum(job.computed for job in self.running)

    def snapshot(self) -> tuple:
        """Two equal snapshots with no arrival and no token in between: it goes round in circles."""
        return (
            tuple((job.index, job.computed) for job in self.running),
            tuple((job.index, job.computed) for job in self.waiting),
        )
