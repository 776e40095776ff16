"""Groups of equal instances, and which requests they can serve at all."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from jaxsim._component import as_arrays, as_leaves
from jaxsim.engine.policy import AbstractPolicy, StreamPolicy
from jaxsim.engine.state import Model, Pool
from jaxsim.latency import AbstractLatency
from jaxsim.latency.gridded import Reach


@dataclass(frozen=True)
class InstanceGroup:
    """Equal instances.

    Attributes:
        count: how many.
        policy: their scheduler.
        latency: their clock.
        num_blocks: blocks of each KV pool; None is unlimited.
        block_size: tokens per block.
        watermark: share of the pool that admissions leave free.
        role: what they do: prefills, decodes, or both (`unified`).
        unavailable: when they are away, `(start_s, end_s)` each, in order.
        on_failure: what becomes of their requests then: `requeue` sends them to instances again, `lose` drops them.
    """

    count: int
    policy: AbstractPolicy
    latency: AbstractLatency
    num_blocks: int | None
    block_size: int
    watermark: float
    role: Literal["unified", "prefill", "decode"] = "unified"
    unavailable: tuple[tuple[float, float], ...] = ()
    on_failure: Literal["requeue", "lose"] = "requeue"

    @property
    def front_end_s(self) -> float:
        """Seconds from a request's arrival until the scheduler sees it."""
        return float(getattr(self.latency, "front_end_s", 0.0))

    def model(self) -> Model:
        """What the program of streams needs, as arrays."""
        assert isinstance(self.policy, StreamPolicy)
        blocks = self.num_blocks or 0
        return Model(
            policy=as_arrays(self.policy),
            latency=as_arrays(self.latency),
            pool=Pool(*as_leaves(blocks, self.watermark_blocks)),
        )

    @property
    def watermark_blocks(self) -> int:
        """Blocks of each pool that admissions leave free."""
        return self.policy.watermark_blocks(self.num_blocks or 0, self.watermark)

    @property
    def most_seqs(self) -> int:
        """The most requests that one instance can run at once."""
        return self.policy.most_seqs(self.num_blocks, self.block_size)

    def most_blocks(self, prompt_tokens: np.ndarray, output_tokens: np.ndarray) -> np.ndarray:
        """Blocks a request holds at most: its last token is never fed."""
        tokens = prompt_tokens.astype(np.int64) + self.policy.emitted(prompt_tokens, output_tokens) - 1
        return -(-tokens // self.block_size)

    def least_blocks(self, prompt_tokens: np.ndarray, output_tokens: np.ndarray) -> np.ndarray:
        """Blocks that a pool must have to serve a request."""
        return self.policy.least_blocks(prompt_tokens, output_tokens, self.block_size, self.watermark_blocks)

    def reach(self, prompt_tokens: np.ndarray, output_tokens: np.ndarray) -> Reach:
        """The largest batches that requests `[R, N]` can form here."""
        known = int((prompt_tokens.astype(np.int64) + self.policy.emitted(prompt_tokens, output_tokens)).max()) - 1
        seqs = min(self.policy.max_num_seqs, prompt_tokens.shape[1])
        tokens = min(getattr(self.policy, "max_num_batched_tokens", np.inf), seqs * (known + 1))
        return Reach(
            new_tokens=max(tokens, seqs),
            batch_seqs=seqs,
            prefill_tokens=tokens,
            prefill_context=known,
            decode_seqs=seqs,
            decode_context=known,
        )

    def infeasible(self, prompt_tokens: np.ndarray, output_tokens: np.ndarray) -> np.ndarray:
        """bool, requests that an instance can never serve, however long they wait."""
        longest = self.policy.longest_prompt()
        too_long = np.zeros(prompt_tokens.shape, bool) if longest is None else prompt_tokens > longest.tokens
        if self.num_blocks is None:
            return too_long
        return too_long | (self.least_blocks(prompt_tokens, output_tokens) > self.num_blocks)

    def why_infeasible(self, prompt_tokens: int, output_tokens: int) -> str:
        """One clause about a request that is infeasible, naming what would have to be larger."""
        longest = self.policy.longest_prompt()
        if longest is not None and prompt_tokens > longest.tokens:
            return (
                f"prompt_tokens is {prompt_tokens}, but a prompt must have at most {longest.tokens} tokens "
                f"({longest.because})"
            )
        need = int(self.least_blocks(np.asarray(prompt_tokens), np.asarray(output_tokens)))
        return (
            f"its {prompt_tokens} prompt and {output_tokens} output tokens need {need} KV blocks of {self.block_size} "
            f"tokens, but the pool has {self.num_blocks} (kv_cache.num_blocks)"
        )
