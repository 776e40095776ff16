"""Service-level objectives: what latency the service promised, to which share of its requests."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Limits = float | Mapping[str, float] | None
"""Seconds for one metric: none, a number for the percentile in `Slo.percentile`, or `{statistic: seconds}`."""

TTFT_WITH_TRANSFER = "ttft_with_transfer_s"
"""TTFT, and where requests are handed over to another instance the time until they are scheduled there."""

_REQUEST_METRICS = ("ttft_s", "tpot_s", "e2e_s")
_METRICS = (*_REQUEST_METRICS, "itl_s")


class SloLimit(NamedTuple):
    """One promise: `statistic` (`mean`, `p99` ...) of `metric` is at most `limit_s` seconds."""

    metric: str
    statistic: str
    limit_s: float


@dataclass(frozen=True)
class Slo:
    """Limits on latency metrics, each a number of seconds or `{statistic: seconds}` with `mean` or `p50`, `p99.9` ...

    Attributes:
        ttft_s: limits on the time to first token.
        tpot_s: limits on the time per output token after the first.
        e2e_s: limits on the end-to-end latency.
        itl_s: limits on the gap between two tokens, over all tokens.
        percentile: what a bare number limits, in percent.
        attainment: share of requests in (0, 1] that should meet all `thresholds`, if that is promised too.
        ttft_includes_transfer: in disaggregated fleets, count the KV transfer and the decode queue into TTFT.
    """

    ttft_s: Limits = None
    tpot_s: Limits = None
    e2e_s: Limits = None
    itl_s: Limits = None
    percentile: float = 99.0
    attainment: float | None = None
    ttft_includes_transfer: bool = False

    def __post_init__(self) -> None:
        if not (_is_number(self.percentile) and 0 < self.percentile < 100):
            raise ValueError(f"percentile must be a number between 0 and 100, not {self.percentile!r}")
        if self.attainment is not None and not (_is_number(self.attainment) and 0 < self.attainment <= 1):
            raise ValueError(f"attainment must be a share in (0, 1], such as 0.95, not {self.attainment!r}")
        if not isinstance(self.ttft_includes_transfer, bool):
            raise ValueError(f"ttft_includes_transfer must be true or false, not {self.ttft_includes_transfer!r}")
        for metric in _METRICS:
            given = getattr(self, metric)
            if isinstance(given, Mapping):
                object.__setattr__(self, metric, dict(given))
                if not given:
                    raise ValueError(f"{metric} must name at least one statistic, such as {{p99: 1.0}}")
            elif given is not None and not _is_number(given):
                raise ValueError(
                    f"{metric} must be a number of seconds or statistics such as {{p99: 1.0}}, not {given!r}"
                )
        for metric, statistic, limit_s in self.limits:
            if not (isinstance(statistic, str) and (statistic == "mean" or quantile_of(statistic) is not None)):
                raise ValueError(
                    f"{metric}: unknown statistic {statistic!r}; valid are mean, p50, p90, p95, p99, p99.9 ..."
                )
            if not (_is_number(limit_s) and 0 < limit_s < math.inf):
                raise ValueError(
                    f"{metric}.{statistic} must be a finite number of seconds greater than 0, not {limit_s!r}"
                )

        if self.attainment is not None and not self.thresholds:
            raise ValueError("attainment needs a limit that a request can meet: ttft_s, tpot_s or e2e_s")

    def __hash__(self) -> int:
        return hash((frozenset(self.limits), self.percentile, self.attainment, self.ttft_includes_transfer))

    @property
    def limits(self) -> tuple[SloLimit, ...]:
        """Every limit given, in the order of the fields."""
        found = []
        for metric in _METRICS:
            given = getattr(self, metric)
            if given is not None:
                by_statistic = given if isinstance(given, Mapping) else {f"p{self.percentile:g}": given}
                found += [SloLimit(metric, statistic, limit_s) for statistic, limit_s in by_statistic.items()]
        return tuple(found)

    @property
    def thresholds(self) -> dict[str, float]:
        """What one request must keep to count as served well: seconds by `ttft_s`, `tpot_s`, `e2e_s`, as `counted`.

        Where a metric has several limits (`{mean: 0.1, p99: 0.5}`), a single request is held to the largest.
        """
        limits: dict[str, float] = {}
        for metric, _, limit_s in self.limits:
            if metric in _REQUEST_METRICS:
                limits[self.counted(metric)] = max(limit_s, limits.get(self.counted(metric), 0.0))
        return limits

    def counted(self, metric: str) -> str:
        """What of a request a limit on `metric` is about: itself, or the TTFT with the transfer included."""
        return TTFT_WITH_TRANSFER if metric == "ttft_s" and self.ttft_includes_transfer else metric


def quantile_of(statistic: str) -> float | None:
    """The share that `p99.9` means (0.999); None if the text is not `p` and a percentage between 0 and 100."""
    digits = statistic[1:]
    if not statistic.startswith("p") or not digits.replace(".", "", 1).isdecimal():
        return None
    percent = float(digits)
    return percent / 100 if 0 < percent < 100 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
