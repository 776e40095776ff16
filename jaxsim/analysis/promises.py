"""How far a run is from breaking each promise of its SLO."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxsim.analysis.statistics import Measured, Statistic
from jaxsim.config.errors import ScenarioError
from jaxsim.config.schema import Scenario
from jaxsim.result import Result


@dataclass(frozen=True)
class Margin:
    """One promise in one run; positive is broken.

    Latencies count by the logarithm of value over limit, an attainment by how much is missing: both near linear in the
    rate where they matter.

    Attributes:
        promise: the statistic that is promised.
        limit: seconds, or a share.
        value: of the run; infinite if too many requests did not complete.
        excess: how far it is beyond the limit.
        low: least excess in the 95 % interval; None without one.
        high: most excess.
    """

    promise: Statistic
    limit: float
    value: float
    excess: float
    low: float | None
    high: float | None

    @property
    def surely_met(self) -> bool:
        """The whole interval keeps the promise."""
        return self.high is not None and self.high <= 0

    @property
    def surely_missed(self) -> bool:
        """The whole interval breaks it."""
        return (self.low is not None and self.low > 0) or self.excess == math.inf

    @property
    def label(self) -> str:
        """`P99 TTFT <= 1 s`."""
        if self.promise.is_latency:
            return f"{self.promise.label} ≤ {self.limit:g} s"
        return f"{self.promise.label} ≥ {self.limit:.4g}"


def margins(result: Result) -> list[Margin]:
    """The margins of every promise."""
    return [_margin(verdict) for verdict in result.summary["slo_verdicts"]]


def check_promises(scenario: Scenario) -> None:
    """Raise unless the scenario promises something."""
    if not scenario.slo.limits and scenario.slo.attainment is None:
        raise ScenarioError("is needed: say what must be kept, such as {ttft_s: {p99: 1.0}, attainment: 0.95}", "slo")


def met(margins_of: Sequence[Margin]) -> bool:
    """Whether every promise is kept."""
    return all(margin.excess <= 0 for margin in margins_of)


def worst(margins_of: Sequence[Margin]) -> Margin:
    """The promise that is nearest to breaking, or broken most."""
    return max(margins_of, key=lambda margin: margin.excess)


def margin_of(promise: Statistic, limit: float, measured: Measured) -> Margin:
    """The margin of a promise whose statistic was measured."""

    def excess(of: float | None) -> float:
        if of is None:
            return math.inf
        return math.log(max(of, 1e-12) / limit) if promise.is_latency else limit - of

    value, low, high = measured
    ends = [] if low is None and high is None else [excess(low), excess(high)]
    return Margin(
        promise,
        limit,
        math.inf if value is None else value,
        excess(value),
        min(ends, default=None),
        max(ends, default=None),
    )


def _margin(verdict: Mapping[str, Any]) -> Margin:
    promise = Statistic(verdict["metric"], "" if verdict["metric"] == "slo_attainment" else verdict["statistic"])
    return margin_of(promise, verdict["limit"], Measured(verdict["value"], *(verdict["ci"] or (None, None))))
