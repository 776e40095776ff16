"""What is simulated and what comes of it: the input and the output of both programs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jaxsim.cluster.instances import InstanceGroup
from jaxsim.cluster.routing import AbstractRouter
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
    """

    groups: Sequence[InstanceGroup]
    router: AbstractRouter
    requests: Requests
    accepted: np.ndarray
    leap: bool


@dataclass(frozen=True, eq=False)
class FleetRecords:
    """What R seeds of N requests recorded, in the requests' order; per seed summed over the instances.

    Attributes:
        instance: int32 `[R, N]`; -1: not accepted.
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
