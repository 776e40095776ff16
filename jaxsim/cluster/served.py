"""What is simulated and what comes of it: the input and the output of both programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from jaxsim.cluster.instances import InstanceGroup
from jaxsim.cluster.routing import AbstractRouter
from jaxsim.cluster.switching import RoleSwitching
from jaxsim.cluster.transfer import KvTransfer
from jaxsim.workload import Requests


@dataclass(frozen=True, eq=False)
class Fleet:
    """One fleet and the requests of its seeds.

    Attributes:
        groups: the instances, numbered in this order.
        router: which instance a request goes to.
        requests: of R seeds.
        accepted: bool `[R, N]`, requests that are served; the others are not routed.
        leap: advance whole stretches at once.
        decode_router: which decode instance a request goes on at, after its prefill on a prefill instance.
        transfer: how its KV cache gets there.
        switching: when instances take the other role's requests too; None: never.
    """

    groups: Sequence[InstanceGroup]
    router: AbstractRouter
    requests: Requests
    accepted: np.ndarray
    leap: bool
    decode_router: AbstractRouter | None = None
    transfer: KvTransfer | None = None
    switching: RoleSwitching | None = None


@dataclass(frozen=True, eq=False)
class FleetRecords:
    """What R seeds of N requests recorded, in the requests' order; per seed summed over the instances.

    Attributes:
        instance: int32 `[R, N]`; -1: not accepted, or never taken from the central queue.
        output_tokens: int32 `[R, N]`, tokens emitted when finished.
        first_scheduled_s: float64 `[R, N]`; nan: never, as in the following.
        first_token_s: float64 `[R, N]`.
        finish_s: float64 `[R, N]`.
        preemptions: int32 `[R, N]`.
        itl_counts: int32 `[R, ITL_BINS]`.
        kv_token_seconds: float64 `[R]`.
        makespan_s: float64 `[R]`, when the last instance stopped.
        iterations: int64 `[R]`.
        rounds: int64 `[R]`.
        recomputed_tokens: int64 `[R]`.
        status: int32 `[R]`, the worst `LaneStatus` of the instances.
        decode_instance: int32 `[R, N]`, where requests that were handed over went on; -1: nowhere else. None:
            nothing is handed over.
        given_up: int32 `[R, N]`, `RequestStatus` of requests that ended without having emitted all their tokens; 0 of
            the others. None: there are none.
        sent_s: float64 `[R, N]`, when clients that wait for answers sent each; None: when it arrived.
        handover: when things happened between the two instances, float64 `[R, N]` by name; empty: nothing was handed
            over.
    """

    instance: np.ndarray
    output_tokens: np.ndarray
    first_scheduled_s: np.ndarray
    first_token_s: np.ndarray
    finish_s: np.ndarray
    preemptions: np.ndarray
    itl_counts: np.ndarray
    kv_token_seconds: np.ndarray
    makespan_s: np.ndarray
    iterations: np.ndarray
    rounds: np.ndarray
    recomputed_tokens: np.ndarray
    status: np.ndarray
    decode_instance: np.ndarray | None = None
    given_up: np.ndarray | None = None
    sent_s: np.ndarray | None = None
    handover: Mapping[str, np.ndarray] = field(default_factory=dict)
