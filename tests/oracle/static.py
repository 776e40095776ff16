"""static: request-level batches that leave together (SCHEDULING, "static")."""

from tests.oracle.job import Job
from tests.oracle.latency import Grant
from tests.oracle.scheduler import KvCache, Plan, Scheduler


class Static(Scheduler):
    """A finished request stays as padding: it is fed one more token in every iteration, so its context grows like
    the others', but its KV is not kept (the batch holds the blocks of prompt + output of its members)."""

    def __init__(self, kv: KvCache, *, max_num_seqs: int = 32, queue_order: str = "fcfs"):
        super().__init__(kv, max_num_seqs, queue_order)
        self._batch: list[Job] = []
        self._steps = 0  # decode iterations this batch has had

    def landing_blocks(self, job: Job) -> int:
        return self.blocks(job.prompt + job.output)

    def admit_landed(self) -> None:
        """A batch of what has landed, if there is any and no batch runs."""
        if not self._batch:
            super().admit_landed()
            self._batch = list(self.running)
            self._steps = 0

    def plan(self) -> Plan:
        return Plan([self._step(job) for job in self._batch] if self._batch else self._new_batch())

    def _new_batch(self) -> list[Grant]:
        self._steps = -1
        while self.waiting and len(self._batch) < self.max_num_seqs:
            job = self.waiting.head()
            blocks = self.blocks(job.known + 1 if self.waiting.leaves(job) else job.prompt + job.output)
            if self.free - blocks < self.watermark_blocks:
                break
            self.waiting.remove(job)
            self.running.append(job)
            self._batch.append(job)
            self.take(job, blocks)
        return [self.grant_prefill(job, job.known) for job in self._batch]

    def _step(self, job: Job) -> Grant:
        is_padding = job not in self.running
        if not is_padding:
            job.compute(1)
        return Grant(job, job.prefill_goal + self._steps, 1, is_decode=True, emits=not is_padding)

    def apply(self, plan: Plan, end: float) -> list[Job]:
        leaving = super().apply(plan, end)
        self._steps += 1
        if not self.running:
            self._free_batch()
        return leaving

    def retire(self, job: Job) -> None:
        """Its blocks stay with the batch, unless its KV has yet to be transferred."""
        self.running.remove(job)
        if not self.ends_with(job, job.emitted):
            self._batch.remove(job)

    def abandon(self) -> list[Job]:
        jobs = super().abandon()
        self._free_batch()
        return jobs

    def _free_batch(self) -> None:
        for job in self._batch:
            self.release(job)
        self._batch = []

    def resident_tokens(self) -> int:
        return sum(job.computed for job in self._batch)
