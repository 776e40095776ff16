"""Clients that wait for answers before they send more."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Clients:
    """Who sends the requests of a workload, in the order of the requests.

    Attributes:
        concurrency: users of a closed loop: each sends a request when the one before has ended and it has thought;
            None: requests arrive by themselves.
        think_s: float64 `[R, N]`, time that a user lets pass after the end of a request, in seconds; of a closed loop.
        max_in_flight: most requests under way at once, of requests that arrive by themselves; None: no limit. A request
            that is held back has arrived all the same: its latencies count from then.
    """

    concurrency: int | None = None
    think_s: np.ndarray | None = None
    max_in_flight: int | None = None
