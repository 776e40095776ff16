"""Where the time of requests goes: queue, prefill, hand-over and decode, of fast and slow ones."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from jaxsim.metrics.per_request import latencies
from jaxsim.metrics.request_table import RequestTable
from jaxsim.metrics.stays import handover_s

PHASES = ("queue", "prefill", "handover", "decode")
"""Parts of the end-to-end latency, one after the other; the first two make up the TTFT."""

GROUPS = ((0.0, 0.5), (0.5, 0.9), (0.9, 0.99), (0.99, 1.0))
"""Requests by the rank of their latency: the faster half, up to P90, up to P99, and the slowest 1 %."""


@dataclass(frozen=True)
class Group:
    """Mean seconds of the requests between two shares of all, by rank.

    Attributes:
        low: share of requests that are faster than all of these.
        high: share of requests that are not slower than all of these.
        count: how many there are.
        queue_s: from arrival until first scheduled.
        prefill_s: from then until the first token.
        handover_s: from then until decoding went on at another instance: waiting for its memory and for the link, the
            transfer of the KV cache, and the queue there; 0 where requests stay.
        decode_s: from then until the last token.
    """

    low: float
    high: float
    count: int
    queue_s: float
    prefill_s: float
    handover_s: float
    decode_s: float


def breakdown(table: RequestTable, metric: Literal["ttft_s", "e2e_s"] = "ttft_s", warmup: int = 0) -> list[Group]:
    """Completed requests by the rank of their latency; groups without a request are left out.

    Args:
        table: the requests.
        metric: the latency that ranks them.
        warmup: requests at the start of each seed that are left out.

    Raises:
        ValueError: an unknown metric.
    """
    if metric not in ("ttft_s", "e2e_s"):
        raise ValueError(f"metric must be one of ttft_s, e2e_s, not {metric!r}")
    measured = table.block(requests=slice(warmup, None))
    values = latencies(measured)[metric].ravel()
    handover = handover_s(measured)
    order = np.argsort(values, kind="stable")[: int(np.count_nonzero(~np.isnan(values)))]
    parts = (
        measured.queue_s.ravel()[order],
        (measured.first_token_s - measured.first_scheduled_s).ravel()[order],
        handover.ravel()[order],
        (measured.finish_s - measured.first_token_s - handover).ravel()[order],
    )
    found = []
    for low, high in GROUPS:
        here = slice(round(low * len(order)), round(high * len(order)))
        if here.stop > here.start:
            found.append(Group(low, high, here.stop - here.start, *(float(part[here].mean()) for part in parts)))
    return found
