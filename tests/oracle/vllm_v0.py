"""vllm_v0: whole prompts first, decodes only when no prompt could be admitted (SCHEDULING, "vllm_v0")."""

from tests.oracle.latency import Grant
from tests.oracle.scheduler import KvCache, Plan, Scheduler


class VllmV0(Scheduler):
    def __init__(
        self,
        kv: KvCache,
        *,
        max_num_seqs: int = 256,
        max_num_batched_tokens: int = 2048,
        padded_prompts: bool = False,
        queue_order: str = "fcfs",
    ):
        super().__init__(kv, max_num_seqs, queue_order)
        self.max_num_batched_tokens = max_num_batched_tokens
        self.padded_prompts = padded_prompts

    def plan(self) -> Plan:
        prefills = self._prefills()
        return Plan(prefills) if prefills else self._decodes()

    def _prefills(self) -> list[Grant]:
        batch: list[Grant] = []
        for job in self.waiting:
            lengths = [grant.tokens for grant in batch] + [job.known]
            total = len(lengths) * max(lengths) if self.padded_prompts else sum(lengths)
            if (
                self.free - self.blocks(job.known) < self.watermark_blocks
                or total > self.max_num_batched_tokens
                or len(self.running) + 1 > self.max_num_seqs
            ):
                break
            self.waiting.remove(job)
            self.running.append(job)
            self.take(job, self.blocks(job.known))
            batch.append(self.grant_prefill(job, job.known))
        return batch

    def _decodes(self) -> Plan:
        batch: list[Grant] = []
        preempted = False
        left = sorted(self.running, key=lambda job: (job.place, job.index))
        while left and len(batch) < self.max_num_seqs:
            job = left.pop(0)
            preempted |= self.make_room(job, left)
            if job in self.running:
                batch.append(self.grant_decode(job))
        return Plan(batch, preempted)
