"""sarathi: chunked prefill beside decodes, decodes first (SCHEDULING, "sarathi")."""

from tests.oracle.job import Job
from tests.oracle.latency import Grant
from tests.oracle.scheduler import KvCache, Plan, Scheduler


class Sarathi(Scheduler):
    def __init__(self, kv: KvCache, *, max_num_seqs: int = 128, chunk_size: int = 512, queue_order: str = "fcfs"):
        super().__init__(kv, max_num_seqs, queue_order)
        self.chunk_size = chunk_size

    def plan(self) -> Plan:
        batch: list[Grant] = []
        preempted = False
        prefilling: list[Job] = []
        untouched = list(self.running)
        while untouched and len(batch) < self.max_num_seqs:
            job = untouched.pop(0)
            if job.is_prefilling:
                prefilling.append(job)
                continue
            preempted |= self.make_room(job, untouched)
            if job in self.running:
                batch.append(self.grant_decode(job))

        skipped = []
        for job in prefilling:
            tokens = min(job.known - job.computed, self._room(batch))
            if tokens == 0:
                skipped.append(job)
            else:
                batch.append(self.grant_prefill(job, tokens))

        left = sorted(skipped + untouched, key=lambda job: (job.place, job.index))
        while self.waiting and len(left) + len(batch) < self.max_num_seqs:
            job = self.waiting.head()
            tokens = min(job.known, self._room(batch))
            if tokens == 0 or self.free - self.blocks(job.known) < self.watermark_blocks:
                break
            self.waiting.remove(job)
            self.take(job, self.blocks(job.known))
            batch.append(self.grant_prefill(job, tokens))
        self.running = left + [grant.job for grant in batch]
        return Plan(batch, preempted)

    def _room(self, batch: list[Grant]) -> int:
        """What decodes and pieces so far leave of the chunk."""
        return max(0, self.chunk_size - sum(grant.tokens for grant in batch))
