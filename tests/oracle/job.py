"""One request, as the workload gives it and as the simulation knows it."""

from dataclasses import dataclass, field


@dataclass(eq=False)
class Job:
    """The first group of fields is the workload's, the rest is state and record. Times in seconds."""

    index: int
    arrival: float  # a closed loop sets it when it sends the request
    prompt: int
    output: int
    priority: int = 0
    id: str = ""
    uniform: float = 0.0
    session: str | None = None
    think_s: float | None = None  # closed loop: how long its user thinks after it

    emitted: int = 0  # output tokens so far
    computed: int = 0  # tokens with KV here, those of batches in flight included
    owed: int = 0  # tokens that batches in flight will emit (asynchronous scheduling)
    blocks: int = 0  # KV blocks held
    prefill_goal: int = 0  # known tokens when it was admitted: below that it is still prefilling
    prefill_started: float = 0.0  # start of its first iteration since it was last admitted
    leaves: bool = False  # whether it leaves its instance when its prefill is done
    kept: int = 0  # tokens emitted before it came to the instance that it will leave

    instance: int = -1
    decode_instance: int = -1
    sent: float | None = None
    first_scheduled: float | None = None
    token_times: list[float] = field(default_factory=list)
    finish: float | None = None
    ending: str = ""  # finished, aborted (by its engine) or lost (with its instance)
    preemptions: int = 0
    requeues: int = 0  # times its instance failed under it
    farthest: int = 0  # most tokens ever computed at once
    recomputed: int = 0  # tokens computed at positions that had been computed before

    kv_asked: float | None = None  # the end of its prefill
    kv_granted: float | None = None  # memory at the decode instance
    kv_started: float | None = None  # the link is its own
    kv_landed: float | None = None
    decode_scheduled: float | None = None

    is_numbered: bool = (
        False  # closed loop: its place in the list stands for its arrival wherever arrivals are compared
    )

    @property
    def place(self) -> float:
        """What orders by arrival compare."""
        return self.index if self.is_numbered else self.arrival

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

    @property
    def breakdown(self) -> dict[str, float]:
        """Where a request that decoded elsewhere than it prefilled spent its time before its first decode."""
        assert self.first_scheduled is not None and self.first_token is not None and self.kv_asked is not None
        assert self.kv_granted is not None and self.kv_started is not None and self.kv_landed is not None
        assert self.decode_scheduled is not None
        return {
            "queue_prefill": self.first_scheduled - self.arrival,
            "prefill": self.first_token - self.first_scheduled,
            "wait_memory": self.kv_granted - self.kv_asked,
            "wait_link": self.kv_started - self.kv_granted,
            "transfer": self.kv_landed - self.kv_started,
            "queue_decode": self.decode_scheduled - self.kv_landed,
        }

    def compute(self, tokens: int) -> None:
        """Tokens are granted: count them as computed."""
        new = self.computed + tokens
        self.recomputed += max(0, min(new, self.farthest) - self.computed)
        self.farthest = max(self.farthest, new)
        self.computed = new

    def forget(self) -> None:
        """Its KV is gone; what it emitted is kept."""
        self.computed = self.owed = 0

    def requeue(self) -> None:
        """Its instance failed under it: it starts again as if it had just been sent."""
        self.forget()
        self.requeues += 1
        self.decode_instance = -1
        self.kv_asked = self.kv_granted = self.kv_started = self.kv_landed = self.decode_scheduled = None
