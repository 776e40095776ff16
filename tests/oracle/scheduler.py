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

    def __init__(self, kv: KvCache, max_num_seqs: int, queue_order: str = "fcfs"):
        self.block_size = kv.block_size
        self.capacity = math.inf if kv.num_blocks is None else kv.num_blocks
        self.watermark_blocks = 0 if kv.num_blocks is None else int(kv.watermark * kv.num_blocks)
        self.max_num_seqs = max_num_seqs
        self.used_blocks = 0
        self.waiting = Waiting(queue_order)
        self.running: list[Job] = []
        self.incoming: list[Job] = []  # decode instance: requests assigned whose transfer has not landed
        self.landed: list[Job] = []  # decode instance: landed with their KV, not yet admitted
        self.aborted: list[Job] = []  # given up since the fleet last looked

    @property
    def free(self) -> float:
        return self.capacity - self.used_blocks

    @property
    def queued(self) -> int:
        """Requests assigned to this instance and not yet admitted."""
        return len(self.waiting.own) + len(self.landed) + len(self.incoming)

    @property
    def members(self) -> list[Job]:
        """Requests admitted and not done here."""
        return self.running

    @property
    def outstanding(self) -> int:
        return self.queued + len(self.members)

    def tokens_left(self, known_outputs: bool = True) -> int:
        """Tokens still to process: of prompts left to prefill, and of outputs left if they are known."""
        prompts = sum(job.known for job in self.waiting.own)
        prompts += sum(max(0, job.prefill_goal - job.computed) for job in self.members)
        jobs = self.waiting.own + self.landed + self.incoming + self.members
        return prompts + known_outputs * sum(self.outputs_left(job) for job in jobs)

    def outputs_left(self, job: Job) -> int:
        """Tokens it has yet to emit on this instance."""
        return 1 if job.leaves else self.all_outputs(job) - job.emitted

    def admit_landed(self) -> None:
        """What has its KV here already joins the running list as a decode, while there are slots."""
        while self.landed and len(self.members) < self.max_num_seqs:
            self.running.append(self.landed.pop(0))

    def landing_blocks(self, job: Job) -> int:
        """Blocks that a request needs here before its KV can be transferred."""
        return self.blocks(job.computed + 1)

    def plan(self) -> Plan:
        raise NotImplementedError

    def apply(self, plan: Plan, end: float) -> list[Job]:
        """Emit the batch's tokens at `end`; returns the requests that leave."""
        leaving = []
        for grant in plan.grants:
            job = grant.job
            if grant.emits:
                job.emitted += 1
                job.owed = max(0, job.owed - 1)
                job.token_times.append(end)
                if job.leaves and job not in self.running and not self.ends_with(job, job.emitted):
                    job.kept = job.emitted  # preempted with this token in flight: no KV is left that could be moved
                if self.leaves_with(job, job.emitted):
                    self.retire(job)
                    leaving.append(job)
        return leaving

    def all_outputs(self, job: Job) -> int:
        """Output tokens that it will have emitted in the end."""
        return job.output

    def ends_with(self, job: Job, emitted: int) -> bool:
        """Whether that many output tokens are all it will ever emit."""
        return emitted >= self.all_outputs(job)

    def leaves_with(self, job: Job, emitted: int) -> bool:
        """Whether that many output tokens are all it will emit on this instance."""
        return self.ends_with(job, emitted) or (job.leaves and emitted > job.kept)

    def retire(self, job: Job) -> None:
        """The request leaves, from wherever it is. Its blocks are free unless its KV has yet to be transferred."""
        (self.running if job in self.running else self.waiting).remove(job)
        if self.ends_with(job, job.emitted):
            self.release(job)

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def take(self, job: Job, blocks: int) -> None:
        """Let the request hold `blocks` blocks in total."""
        self.used_blocks += blocks - job.blocks
        job.blocks = blocks
        assert 0 <= self.free <= self.capacity

    def release(self, job: Job) -> None:
        self.used_blocks -= job.blocks
        job.blocks = 0

    def preempt(self, job: Job) -> None:
        """By recomputation: what it computed is forgotten, what it emitted is kept."""
        self.running.remove(job)
        self.release(job)
        job.forget()
        job.preemptions += 1
        self.put_back(job)

    def put_back(self, job: Job) -> None:
        self.waiting.push_preempted(job)

    def abandon(self) -> list[Job]:
        """The instance fails: it forgets all requests; returns those that were running, waiting and landed."""
        jobs = self.members + self.waiting.own + self.landed
        for job in jobs:
            self.release(job)
        self.running, self.waiting.own, self.landed = [], [], []
        return jobs

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

    def resident_tokens(self) -> int:
        """Tokens with KV once the batch just planned has run: (computed + granted) over the running requests."""
        return sum(job.computed for job in self.members)

    def snapshot(self) -> tuple:
        """Two equal snapshots with no arrival and no token in between: it goes round in circles."""
        return (
            tuple((job.index, job.computed, job.is_prefilling) for job in self.members),
            tuple(job.index for job in self.waiting),
        )
