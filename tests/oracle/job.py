"""One request, as the workload gives it and as the simulation knows it."""

from dataclasses import dataclass, field


@dataclass(eq=False)
class Job:
    """The first group of fields is the workload's, the rest is state and record. Times in seconds."""

    index: int
    arrival: float
    prompt: int
    output: int
    priority: int = 0
    id: str = ""
    uniform: float = 0.0

    emitted: int = 0  # output tokens so far
    computed: int = 0  # tokens with KV here, those of batches in flight included
    owed: int = 0  # tokens that batches in flight will emit (asynchronous scheduling)
    blocks: int = 0  # KV blocks held
    prefill_goal: int = 0  # known tokens when it was admitted: below that it is still prefilling

    instance: int = -1
    decode_instance: int = -1
    first_scheduled: float | None = None
    token_times: list[float] = field(default_factory=list)
    finish: float | None = None
    preemptions: int = 0
    farthest: int = 0  # most tokens ever computed at once
    recomputed: int = 0  # tokens computed at positions that had been computed before

    @property
    def known(self) -> int:
        """Tokens whose KV must exist before the next token can be sampled."""
        return self.prompt + self.emitted

    @property
    def is_prefilling(self) -> bool:
        return self.computed < self.prefill_goal

    @property
    def first_token(self) -> float | None:
        return self.token_times[0] if self.token_times else None

    def compute(self, tokens: int) -> None:
        """Tokens are granted: count them as computed."""
        new = self.computed + tokens
        self.recomputed += max(0, min(new, self.farthest) - self.computed)
        self.farthest = max(self.farthest, new)
        self.computed = new
