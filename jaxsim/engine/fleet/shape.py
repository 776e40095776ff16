"""The static facts of a lane that is a fleet."""

import dataclasses
from typing import Literal

import jax


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class FleetShape:
    """Sizes and switches that select the program. What a fleet does not use is compiled away.

    Attributes:
        num_requests: requests per lane, N; columns have N + 1 elements, the last spare.
        instances: I.
        slots: requests that one instance may run at once, S.
        leap: advance whole stretches of like iterations in closed form.
        itl: record the inter-token latency histogram.
        kv_integral: record the KV token-seconds.
        transfers: KV transfers that may be under way at once; 0: no instance hands requests over.
        contention: what transfers share; see `jaxsim.engine.fleet.handover`.
        layers: layers that are transferred one by one behind the prefill; 0: all at its end.
        users: of a closed loop; 0: requests arrive by themselves.
        capped: clients hold requests back (`max_in_flight`).
        central: all requests wait in one queue.
        sessions: of the requests; 0: none is looked at.
        outages: changes of what instances are available; 0: all are, always.
        switches: instances may take the other role's requests too.
        events: batches that are recorded one by one; 0: none.
    """

    num_requests: int
    instances: int
    slots: int
    leap: bool = True
    itl: bool = True
    kv_integral: bool = True
    transfers: int = 0
    contention: Literal["none", "link", "nic"] = "none"
    layers: int = 0
    users: int = 0
    capped: bool = False
    central: bool = False
    sessions: int = 0
    outages: int = 0
    switches: bool = False
    events: int = 0

    @property
    def queues(self) -> int:
        """Waiting queues of each order: one per instance, and the central one."""
        return self.instances + self.central
