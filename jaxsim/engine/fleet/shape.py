"""The static facts of a lane that is a fleet."""

import dataclasses

import jax


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class FleetShape:
    """Sizes and switches that select the program.

    Attributes:
        num_requests: requests per lane, N; columns have N + 1 elements, the last spare.
        instances: I.
        slots: requests that one instance may run at once, S.
        leap: advance whole stretches of like iterations in closed form.
        itl: record the inter-token latency histogram.
        kv_integral: record the KV token-seconds.
    """

    num_requests: int
    instances: int
    slots: int
    leap: bool = True
    itl: bool = True
    kv_integral: bool = True
