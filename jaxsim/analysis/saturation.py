"""What gives way first in a fleet: which wait of the requests that break a promise has grown with the load.

The same requests are served at a low rate and above the highest that keeps the SLO. Of those that are then beyond the
limit, the part of their time that the load has lengthened most names what saturates: a queue, a pool of memory, the
link between two instances, or the iterations themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from jaxsim.analysis.promises import Margin
from jaxsim.analysis.splits import Split
from jaxsim.metrics.per_request import latencies
from jaxsim.metrics.request_table import RequestTable
from jaxsim.metrics.stays import decode_scheduled_s
from jaxsim.specs.slo import TTFT_WITH_TRANSFER

Side = Literal["prefill", "link", "decode", "colocated"]

BOTTLENECKS: Mapping[str, tuple[Side, str]] = {
    "prefill queue": ("prefill", "requests queue at the prefill instances"),
    "prefill iterations": ("prefill", "prompts take long to compute"),
    "prefill memory": ("link", "KV caches that wait for their transfer fill the prefill instances"),
    "decode memory": ("decode", "requests wait for KV memory of the decode instances"),
    "reserved memory": ("link", "KV caches that wait for their transfer reserve the memory of the decode instances"),
    "link": ("link", "transfers queue for the link"),
    "transfer": ("link", "transfers take long"),
    "decode seats": ("decode", "requests wait for a seat in the batch of their decode instance"),
    "decode iterations": ("decode", "iterations of the decode instances get longer"),
    "queue": ("colocated", "requests queue for admission"),
    "memory": ("colocated", "requests queue for KV memory"),
    "iterations with prompts": ("colocated", "iterations get longer, with prompts and decodes in them"),
}
"""What may saturate: where, and in words."""

_OF_STAGE: Mapping[str, str] = {
    "queue_prefill_s": "prefill queue",
    "prefill_s": "prefill iterations",
    "wait_memory_s": "decode memory",
    "wait_link_s": "link",
    "transfer_s": "transfer",
    "queue_decode_s": "decode seats",
    "decode_s": "decode iterations",
}
Stages = Mapping[str, np.ndarray]

_BEFORE_TOKEN = ("queue_prefill_s", "prefill_s")
_HELD = ("wait_memory_s", "wait_link_s", "transfer_s")
"""Stages in which a request keeps its blocks at the prefill instance, and does not compute."""

_FULL = 0.8
"""Mean share of the KV memory in use from which on it is what requests queue for."""


@dataclass(frozen=True)
class Saturation:
    """What gives way first.

    Attributes:
        bottleneck: what, of `BOTTLENECKS`.
        rates_per_s: arrival rates that were compared.
        seconds: of the part that has grown, at both rates, mean over the requests beyond the limit at the higher one.
    """

    bottleneck: str
    rates_per_s: tuple[float, float]
    seconds: tuple[float, float]

    @property
    def side(self) -> Side:
        """Where it is."""
        return BOTTLENECKS[self.bottleneck][0]

    @property
    def sentence(self) -> str:
        """What it is, with the figures that show it."""
        pairs = zip(self.seconds, self.rates_per_s, strict=True)
        grown = " and ".join(f"{seconds:.3g} s at {rate:.3g} requests/s" for seconds, rate in pairs)
        return f"{BOTTLENECKS[self.bottleneck][1]} ({grown})"


def saturation_of(
    split: Split,
    broken: Margin,
    quiet: RequestTable,
    busy: RequestTable,
    rates_per_s: tuple[float, float],
    kv_utilisation: float | None,
    inherent: bool,
) -> Saturation:
    """What breaks a promise.

    Args:
        split: the fleet.
        broken: the promise.
        quiet: measured requests, far below the rate that breaks it.
        busy: the same requests at or above that rate.
        rates_per_s: of the two.
        kv_utilisation: mean share of the KV memory in use in the busy run; None without a limit.
        inherent: the promise is broken at the low rate, too: what takes longest there is named.
    """
    before, after = _stages(quiet, split), _stages(busy, split)
    metric, slow = _slow(busy, broken, split)
    tokens = np.maximum(busy.output_tokens - 1.0, 1.0) if metric in ("tpot_s", "itl_s") else 1.0
    stages = [name for name in after if _counts(name, metric)]
    early, late = ({name: (of[name] / tokens)[slow].mean() for name in stages} for of in (before, after))
    stage = max(stages, key=lambda name: early[name] if inherent else late[name] - early[name])
    seconds = float(before[stage][slow].mean()), float(after[stage][slow].mean())
    return Saturation(_bottleneck(stage, split, before, after, kv_utilisation), rates_per_s, seconds)


def _bottleneck(stage: str, split: Split, before: Stages, after: Stages, kv_utilisation: float | None) -> str:
    """What the part that has grown waits for."""
    if split.is_colocated:
        if stage != "queue_prefill_s":
            return "iterations with prompts"
        return "memory" if (kv_utilisation or 0.0) >= _FULL else "queue"
    if stage == "queue_prefill_s" and split.groups[0].num_blocks is not None and split.bound_by != "prefill":
        held_s = sum(after[name].mean() - before[name].mean() for name in _HELD)
        if held_s > after["prefill_s"].mean():
            return "prefill memory"
    if stage == "wait_memory_s" and split.bound_by == "link":
        return "reserved memory"
    return _OF_STAGE[stage]


def _stages(table: RequestTable, split: Split) -> Stages:
    """Seconds of each request in every stage of its life, float64 `[R, N]`; 0 where it was not in it."""
    stages = {name: seconds for name, seconds in table.breakdown_s.items() if name not in _BEFORE_TOKEN}
    decode_from_s = table.first_token_s
    if not split.is_colocated:
        scheduled_s = decode_scheduled_s(table)
        decode_from_s = np.where(np.isnan(scheduled_s), table.first_token_s, scheduled_s)
    stages |= {
        "queue_prefill_s": table.queue_s,
        "prefill_s": table.first_token_s - table.first_scheduled_s,
        "decode_s": table.finish_s - decode_from_s,
    }
    return {name: np.nan_to_num(seconds) for name, seconds in stages.items()}


def _counts(stage: str, metric: str) -> bool:
    """Whether a stage is part of a metric."""
    if metric == "ttft_s":
        return stage in _BEFORE_TOKEN
    if metric == TTFT_WITH_TRANSFER:
        return stage != "decode_s"
    return metric == "e2e_s" or stage not in _BEFORE_TOKEN


def _slow(table: RequestTable, broken: Margin, split: Split) -> tuple[str, np.ndarray]:
    """The metric that breaks a promise, and the requests beyond its limit, one in a hundred at least; bool `[R, N]`."""
    limits = {broken.promise.metric: broken.limit} if broken.promise.is_latency else split.scenario.slo.thresholds
    named = {metric: "tpot_s" if metric == "itl_s" else metric for metric in limits}
    values = latencies(table, tuple(named.values()))
    over = {metric: np.nan_to_num(values[named[metric]] / limit_s) for metric, limit_s in limits.items()}
    metric = max(over, key=lambda name: np.quantile(over[name], 0.99))
    return metric, over[metric] >= min(1.0, np.quantile(over[metric], 0.99))
