"""What the sections of a report are made from."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxsim.analysis.compare import Difference
from jaxsim.metrics.events import Events
from jaxsim.metrics.neighbours import Neighbours
from jaxsim.metrics.per_request import METRICS, latencies
from jaxsim.metrics.request_table import RequestTable

NAMES = {"ttft_s": "TTFT", "tpot_s": "TPOT", "itl_s": "ITL", "e2e_s": "E2E", "queue_s": "Queue"}
PROMISED_NAMES = {**NAMES, "ttft_with_transfer_s": "TTFT with transfer"}
"""Of what may be promised, too."""
LONG_NAMES = {
    "ttft_s": "Time to first token",
    "tpot_s": "Time per output token",
    "itl_s": "Gaps between tokens",
    "e2e_s": "End to end",
    "queue_s": "Time in the queue",
}


@dataclass(frozen=True, eq=False)
class Context:
    """A result, and what several sections need of it.

    Attributes:
        summary: as in `summary.json`.
        table: all requests; None if the run did not keep them.
        manifest: as in `manifest.json`.
        events: batches of the first seed; None if they were not recorded.
        outages: what they cost; empty if that is not known.
    """

    summary: Mapping[str, Any]
    table: RequestTable | None
    manifest: Mapping[str, Any]
    events: Events | None = None
    outages: tuple[Difference, ...] = ()

    @property
    def scenario(self) -> Mapping[str, Any]:
        """The scenario as plain data."""
        return self.manifest["scenario"]

    @property
    def warmup(self) -> int:
        """Requests at the start of each seed that are not measured."""
        return int(self.scenario["monte_carlo"]["warmup_requests"])

    @property
    def batches(self) -> bool:
        """Whether batches of consecutive requests are independent, rather than seeds."""
        return self.summary["ci_method"] != "replications"

    @functools.cached_property
    def measured(self) -> RequestTable | None:
        """The requests after the warm-up."""
        return None if self.table is None else self.table.block(requests=slice(self.warmup, None))

    @functools.cached_property
    def latencies(self) -> Mapping[str, np.ndarray]:
        """Seconds of the measured requests by metric, nan where there is none."""
        return {metric: np.empty((0, 0)) for metric in METRICS} if self.measured is None else latencies(self.measured)

    @functools.cached_property
    def neighbours(self) -> Neighbours | None:
        """What else was going on."""
        return None if self.table is None else Neighbours(self.table)
