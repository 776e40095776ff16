"""orca: iteration-level batching of whole prompts, memory reserved for the longest sequence (SCHEDULING, "orca")."""

from tests.oracle.job import Job
from tests.oracle.latency import Grant
from tests.oracle.scheduler import KvCache, Plan, Scheduler


class Orca(Scheduler):
    def __init__(self, kv: KvCache, *, max_num_seqs: int = 128, max_model_len: int = 4096, queue_order: str = "fcfs"):
        super().__init__(kv, max_num_seqs, queue_order)
        self.reservation = max_model_len // kv.block_size

    def landing_blocks(self, job: Job) -> int:
        return self.reservation

    def plan(self) -> Plan:
        batch: list[Grant] = []
        for job in self.running:
            job_context = job.computed
            job.compute(1)
            batch.append(Grant(job, job_context, 1, is_decode=True, emits=True))
        while self.waiting and len(self.running) < self.max_num_seqs and self.free >= self.reservation:
            job = self.waiting.head()
            self.waiting.remove(job)
            self.running.append(job)
            self.take(job, self.reservation)
            batch.append(self.grant_prefill(job, job.known))
        return Plan(batch)
