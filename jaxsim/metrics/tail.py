"""Where a tail comes from: what slow requests have more often than others, and the slowest of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from jaxsim.metrics.neighbours import LONG_SHARE, Neighbours
from jaxsim.metrics.per_request import latencies
from jaxsim.metrics.request_table import RequestTable
from jaxsim.metrics.stays import handover_s

SLOW_SHARE = 0.01
_FEWEST = 10

TailMetric = Literal["ttft_s", "tpot_s", "e2e_s"]

CAUSES: Mapping[str, str] = {
    "preempted": "preempted for want of KV memory",
    "mostly_queued": "waited in the queue for more than half of their TTFT",
    "long_queue": "arrived at a queue longer than 90 % of requests meet",
    "crowded": "arrived while more requests were running than 90 % of requests meet",
    "long_prompt": "have a prompt longer than 90 % of all",
    "behind_long_prompt": "waited while another's long prompt was prefilled",
    "long_output": "have an output longer than 90 % of all",
    "short_output": "have an output shorter than 90 % of all, so that one pause weighs heavily",
    "long_handover": "waited longer for memory, link or KV transfer than 90 % of requests",
    "prefills_beside": "decoded beside more prefill, per token, than 90 % of requests",
}
"""What may make a request slow, as the end of a sentence about several."""

_OF: Mapping[str, tuple[str, ...]] = {
    "ttft_s": ("preempted", "mostly_queued", "long_queue", "crowded", "long_prompt", "behind_long_prompt"),
    "tpot_s": ("preempted", "crowded", "long_prompt", "short_output", "prefills_beside", "long_handover"),
    "e2e_s": (
        *("preempted", "mostly_queued", "long_queue", "crowded", "long_prompt", "long_output", "prefills_beside"),
        "long_handover",
    ),
}


@dataclass(frozen=True)
class Cause:
    """Something that slow requests may have more often than others; causes do not exclude each other.

    Attributes:
        name: one of `CAUSES`.
        slow_share: share of the slow requests that have it.
        share: share of all requests that have it.
    """

    name: str
    slow_share: float
    share: float


@dataclass(frozen=True, eq=False)
class Tail:
    """The slow requests of a run.

    Attributes:
        metric: by which they are slow.
        limit_s: requests with at least this latency are slow.
        count: how many there are.
        measured: how many requests they are taken from.
        causes: from the one whose shares differ most.
        seed_index: int64 `[K]`, rows of the table with the slowest requests, the slowest first.
        request_index: int64 `[K]`, their columns.
    """

    metric: TailMetric
    limit_s: float
    count: int
    measured: int
    causes: tuple[Cause, ...]
    seed_index: np.ndarray
    request_index: np.ndarray

    @property
    def share(self) -> float:
        """Share of the requests that are slow."""
        return self.count / self.measured if self.measured else 0.0


def tail(
    table: RequestTable,
    metric: TailMetric = "ttft_s",
    warmup: int = 0,
    slowest: int = 10,
    neighbours: Neighbours | None = None,
) -> Tail:
    """The slowest 1 % of the completed requests (at least 10) and what sets them apart.

    Args:
        table: all requests of some seeds.
        metric: by which they are slow.
        warmup: requests at the start of each seed that are neither slow nor among all, though others may wait for them.
        slowest: how many to name.
        neighbours: those of the table, if they are known already.

    Raises:
        ValueError: an unknown metric.
    """
    if metric not in _OF:
        raise ValueError(f"metric must be one of {', '.join(_OF)}, not {metric!r}")
    values = np.array(latencies(table)[metric])
    values[:, :warmup] = np.nan
    here = ~np.isnan(values)
    measured = int(np.count_nonzero(here))
    if not measured:
        return Tail(metric, np.nan, 0, 0, (), *np.empty((2, 0), np.int64))
    count = min(max(round(SLOW_SHARE * measured), _FEWEST), measured)
    limit_s = float(np.partition(values[here], measured - count)[measured - count])
    slow = here & (values >= limit_s)
    order = np.argsort(-values, axis=None, kind="stable")[: min(slowest, measured)]
    facts = request_facts(table, here, neighbours or Neighbours(table))
    causes = [Cause(name, float(facts[name][slow].mean()), float(facts[name][here].mean())) for name in _OF[metric]]
    causes.sort(key=lambda cause: cause.share - cause.slow_share)
    return Tail(metric, limit_s, int(slow.sum()), measured, tuple(causes), *np.unravel_index(order, values.shape))


def request_facts(table: RequestTable, here: np.ndarray, neighbours: Neighbours) -> dict[str, np.ndarray]:
    """Which of `CAUSES` each request has, bool `[R, N]` by name.

    Args:
        table: the requests.
        here: bool `[R, N]`, the requests that "90 % of requests" is about.
        neighbours: those of the table.
    """
    outputs = table.output_tokens
    beside = neighbours.prompt_tokens_beside / np.maximum(outputs - 1, 1)
    return {
        "preempted": table.preemptions > 0,
        "mostly_queued": table.queue_s > table.ttft_s / 2,
        "long_queue": _beyond(neighbours.waiting, here),
        "crowded": _beyond(neighbours.running, here),
        "long_prompt": neighbours.long_prompt,
        "behind_long_prompt": neighbours.long_prompts_beside > 0,
        "long_output": _beyond(outputs, here),
        "short_output": _beyond(-outputs, here),
        "long_handover": _beyond(np.nan_to_num(handover_s(table)), here),
        "prefills_beside": _beyond(beside, here),
    }


def _beyond(values: np.ndarray, here: np.ndarray) -> np.ndarray:
    return values > np.quantile(values[here], LONG_SHARE)
