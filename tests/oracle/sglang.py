"""sglang: prefills alone and first, one request in pieces, room kept by a ratio (SCHEDULING, "sglang")."""

import math

from tests.oracle.job import Job
from tests.oracle.latency import Grant
from tests.oracle.scheduler import KvCache, Plan, Scheduler

LONGEST_FORESEEN = 4096  # output tokens of one request that room is kept for
RETRACT_DECODE_STEPS = 20


class Sglang(Scheduler):
    def __init__(
        self,
        kv: KvCache,
        *,
        chunked_prefill_size: int | None = 8192,
        max_prefill_tokens: int = 16384,
        max_running_requests: int = 256,
        conservativeness: float = 1.0,
        ignore_eos: bool = False,
        queue_order: str = "fcfs",
    ):
        super().__init__(kv, max_running_requests, queue_order)
        self.chunk = math.inf if chunked_prefill_size is None else chunked_prefill_size
        self.max_prefill_tokens = max_prefill_tokens
        self.ignore_eos = ignore_eos
        self._start_ratio = min(0.7 * conservativeness, 1.0)
        self._lowest_ratio = self._start_ratio * 0.14
        self._chunked: Job | None = None
        self._set_ratio(self._start_ratio)

    @property
    def members(self) -> list[Job]:
        return self.running + ([self._chunked] if self._chunked else [])

    @property
    def ratio(self) -> float:
        """The share of their outputs still to come that running requests are expected to need."""
        if self.ignore_eos:
            return 1.0
        if self._decodes == 0:
            return self._base_ratio
        decay = (self._start_ratio - self._lowest_ratio) / 600
        return max(self._base_ratio - decay * self._decodes, self._lowest_ratio)

    def _set_ratio(self, ratio: float) -> None:
        self._base_ratio = ratio
        self._decodes = 0  # iterations since then

    def plan(self) -> Plan:
        prefills = self._prefills()
        plan = Plan(prefills) if prefills else self._decode()
        if not plan.grants and not plan.preempted:
            self._set_ratio(self._start_ratio)  # idle
        return plan

    def _prefills(self) -> list[Grant]:
        room = self.free * self.block_size - self.ratio * sum(self._foreseen(job) for job in self.running)
        slots = self.max_num_seqs - len(self.running)
        taken, chunk, left = 0, self.chunk, self.max_prefill_tokens
        batch: list[Grant] = []

        def add(job: Job, tokens: int) -> None:
            nonlocal taken, chunk, left
            self.take(job, self.blocks(job.computed + tokens))
            batch.append(self.grant_prefill(job, tokens))
            if job.is_prefilling:
                self._chunked = job
            else:
                self._chunked = None
                self.running.append(job)
                taken += self._foreseen(job)
            whole_blocks = self.blocks(tokens) * self.block_size
            taken += whole_blocks + self.block_size
            chunk -= whole_blocks
            left -= whole_blocks

        if job := self._chunked:
            limit = int(min(chunk, room))
            fits = (self.free + job.blocks) * self.block_size - job.computed
            tokens = int(min(job.known - job.computed, limit if limit > 0 else chunk, fits))
            if tokens == 0:
                return []
            add(job, tokens)
        for job in self.waiting:
            if chunk <= 0 or left <= 0 or len(batch) >= slots:
                break
            if job.known + self._foreseen(job) + self.block_size + taken > room:
                break
            whole_blocks = self.blocks(job.known) * self.block_size
            if self.chunk == math.inf and batch and whole_blocks >= left:
                break
            tokens = job.known if whole_blocks <= chunk else int(chunk) // self.block_size * self.block_size
            if tokens == 0:
                break
            self.waiting.remove(job)
            add(job, tokens)
        return batch

    def _foreseen(self, job: Job) -> int:
        return min(self.outputs_left(job), LONGEST_FORESEEN)

    def _decode(self) -> Plan:
        is_short = self._is_short()
        if not is_short:
            self._decodes += bool(self.running)
        else:
            while len(self.running) > 1:
                self.preempt(min(reversed(self.running), key=lambda job: (job.emitted, -job.prompt)))
                if not self._is_short():
                    break
            if self._is_short():
                self._abort(self.running[0])
            emitted = sum(job.emitted for job in self.running)
            longest = sum(job.output for job in self.running)
            self._set_ratio(min(1.0, (emitted + RETRACT_DECODE_STEPS * len(self.running)) / (longest + 1)))
        return Plan([self.grant_decode(job) for job in self.running], preempted=is_short)

    def _is_short(self) -> bool:
        return sum(self.blocks(job.computed + 1) > job.blocks for job in self.running) > self.free

    def _abort(self, job: Job) -> None:
        self.running.remove(job)
        self.release(job)
        self.aborted.append(job)

    def put_back(self, job: Job) -> None:
        self.waiting.push(job)  # at the end, not at the front

    def abandon(self) -> list[Job]:
        jobs = super().abandon()
        self._chunked = None
        self._set_ratio(self._start_ratio)
        return jobs
