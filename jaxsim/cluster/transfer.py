"""How the KV cache of a request gets from a prefill instance to a decode instance."""

import math
from typing import Literal

from jaxsim._component import check, check_not_negative, component


@component
class KvTransfer:
    """A transfer takes `latency_s + bytes / bandwidth_bytes_per_s`; `bytes = tokens * bytes_per_token`.

    It waits for blocks at the decode instance first, then for its link. The prefill instance keeps its blocks until it
    has landed, so a slow network holds up prefills.

    Attributes:
        latency_s: fixed time of a transfer, in seconds.
        bandwidth_bytes_per_s: of a link; null is infinite.
        bytes_per_token: KV cache of one token; null: of the model of the prefill instances' latency.
        contention: what carries one transfer at a time: `none`: nothing; `link`: each pair of a prefill and a decode
            instance; `nic`: each instance's network interface, outwards and inwards.
        overlap: `none`: the transfer starts after the prefill; `layerwise`: each layer is sent when its prefill is
            done, and only what is left at the end takes time.
        layers: layers that are sent one by one, of `layerwise`; null: of the model of the prefill instances' latency.
    """

    latency_s: float = 0.0
    bandwidth_bytes_per_s: float | None = None
    bytes_per_token: float | None = None
    contention: Literal["none", "link", "nic"] = "none"
    overlap: Literal["none", "layerwise"] = "none"
    layers: int | None = None

    def __post_init__(self) -> None:
        check_not_negative(self, "latency_s", "bytes_per_token")
        check(self, "bandwidth_bytes_per_s", lambda value: 0 < value < math.inf, "greater than 0, or null for infinite")
        check(self, "layers", lambda value: isinstance(value, int) and value >= 1, "a whole number, 1 or greater")
