"""vllm_v1: one token budget for prefills and decodes (SCHEDULING, "vllm_v1"), synchronous or asynchronous."""

from tests.oracle.job import Job
from tests.oracle.latency import Grant
from tests.oracle.scheduler import KvCache, Plan, Scheduler


class VllmV1(Scheduler):
    def __init__(
        self,
        kv: KvCache,
        *,
        max_num_batched_tokens: int = 2048,
        max_num_seqs: int = 256,
        max_model_len: int = 32768,
        long_prefill_token_threshold: int = 0,
        policy: str = "fcfs",
        queue_order: str = "fcfs",
        enable_chunked_prefill: bool = True,
        reserve_full_prompt: bool = True,
        async_scheduling: bool = True,
    ):
        super().__init__(kv, max_num_seqs, "priority" if policy == "priority" else queue_order)
        self.budget = max_num_batched_tokens
        self.max_model_len = max_model_len
        self.threshold = long_prefill_token_threshold
        self.by_priority = policy == "priority"
        self.chunked = enable_chunked_prefill
        self.reserve_full_prompt = reserve_full_prompt
        self.depth = 2 if async_scheduling else 1
        if kv.num_blocks is not None:
            self.watermark_blocks = int(kv.watermark * (kv.num_blocks + 1))  # the engine keeps a null block

    def all_outputs(self, job: Job) -> int:
        return min(job.output, max(1, self.max_model_len - job.prompt))

    def resident_tokens(self) -> int:
        """Without those passed over: they are gone when the batch just planned starts."""
        passed_over = [
            job for job in self.running if job not in self._granted and self.leaves_with(job, job.emitted + job.owed)
        ]
        return super().resident_tokens() - sum(job.computed for job in passed_over)

    def plan(self) -> Plan:
        self._granted: dict[Job, int] = {}
        alone = len(self.running) + len(self.waiting) <= 1
        threshold = self.threshold if self.threshold and not alone else self.max_model_len
        budget, preempted = self._grant_running(self.budget, threshold)
        if not preempted:
            self._admit(budget, threshold)
        return Plan([self._close(job, tokens) for job, tokens in self._granted.items()], preempted)

    def _grant_running(self, budget: int, threshold: int) -> tuple[int, bool]:
        preempted = False
        for job in list(self.running):
            if budget == 0:
                break
            if job not in self.running or self.leaves_with(job, job.emitted + job.owed):
                continue  # it became a victim, or the token in flight is its last
            tokens = min(job.known + job.owed - job.computed, threshold, budget, self.max_model_len - 1 - job.computed)
            while job in self.running and not self._fits(job, tokens):
                victim = self._victim()
                budget += self._granted.pop(victim, 0)
                self.preempt(victim)
                preempted = True
            if job in self.running:
                self._grant(job, tokens)
                budget -= tokens
        return budget, preempted

    def _victim(self) -> Job:
        if self.by_priority:
            return max(self.running, key=lambda job: (job.priority, job.place))
        return self.running[-1]

    def _admit(self, budget: int, threshold: int) -> None:
        while budget > 0 and len(self.running) < self.max_num_seqs and self.waiting:
            job = self.waiting.head()
            tokens = min(job.known, threshold)
            if not self.chunked and tokens > budget:
                break
            tokens = min(tokens, budget)
            spare = self.watermark_blocks if self.running else 0
            if self.reserve_full_prompt and self.blocks(job.known) + spare > self.free:
                break
            if self.blocks(tokens) + spare > self.free:
                break
            self.waiting.remove(job)
            self.running.append(job)
            job.prefill_goal = job.known
            self._grant(job, tokens)
            budget -= tokens

    def _fits(self, job: Job, tokens: int) -> bool:
        return self.blocks(job.computed + tokens) - job.blocks <= self.free

    def _grant(self, job: Job, tokens: int) -> None:
        self.take(job, self.blocks(job.computed + tokens))
        self._granted[job] = tokens

    def _close(self, job: Job, tokens: int) -> Grant:
        """The batch is final: the request's share counts as computed, and its token as owed until the batch ends."""
        context = job.computed
        missing = job.known + job.owed - context
        job.compute(tokens)
        emits = tokens == missing
        job.owed += emits
        return Grant(job, context, tokens, is_decode=tokens == missing == 1, emits=emits)
