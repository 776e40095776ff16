"""The static facts of a lane: what the compiled program is specialised to."""

import dataclasses
from typing import Literal

import jax


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes and switches that select the program; numbers that do not are array leaves of the model.

    Attributes:
        num_requests: requests per lane, N; columns have N + 1 elements, the last spare.
        slots: requests that may hold a slot at once, S; slot arrays have S + 1 elements, the last spare.
        block_size: tokens per KV block.
        kv: `unlimited`: the pool can never be full and no block is counted. `watched`: no block is counted, but a lane
            that comes near the pool's limit is stopped (`state.State.exceeded`) to be run again. `counted`: blocks are
            counted near the limit, and shortages preempt.
        leap: advance whole stretches of like iterations in closed form; without it every iteration is a round.
        itl: record the inter-token latency histogram.
        kv_integral: record the KV token-seconds.
    """

    num_requests: int
    slots: int
    block_size: int = 16
    kv: Literal["unlimited", "watched", "counted"] = "counted"
    leap: bool = True
    itl: bool = True
    kv_integral: bool = True

    @property
    def counted(self) -> bool:
        """Whether blocks are counted and requests may be preempted."""
        return self.kv == "counted"

    @property
    def slot_bits(self) -> int:
        """Low bits of a finish key that hold the slot."""
        return max(1, (self.slots - 1).bit_length())
