"""The mean field of a whole fleet."""

import numpy as np

from jaxsim.cluster.routing import AbstractRouter, Random, RoundRobin
from jaxsim.config.schema import Instance, Scenario
from jaxsim.mean_field.instance import MeanField
from jaxsim.mean_field.mix import Mix


class FleetField:
    """The mean field of every group of a fleet, and how arrivals are shared among their instances.

    Round robin and random routing share equally; routers that look at load are taken to share by capacity. What arrives
    at prefill instances arrives at decode instances after that.

    Args:
        scenario: the fleet.
        mix: of its workload, which need not be at the scenario's rate.
    """

    def __init__(self, scenario: Scenario, mix: Mix) -> None:
        self._mix = mix
        self._router = scenario.cluster.router
        self._groups: tuple[Instance, ...] = scenario.cluster.instances
        self.fields = [MeanField(instance, mix) for instance in self._groups]
        counts = np.array([group.count for group in self._groups])
        roles = np.array([group.role for group in self._groups])
        self._instances = int(counts[roles != "decode"].sum())
        self._share = self._shares(self._router, counts * (roles != "decode"))
        if (roles == "decode").any():
            handed_over = float((self._share * counts)[roles == "prefill"].sum())
            self._share += handed_over * self._shares(scenario.cluster.decode_router, counts * (roles == "decode"))

    def _shares(self, router: AbstractRouter, counts: np.ndarray) -> np.ndarray:
        """Share of the requests that one instance of each group gets, of groups with so many that take part."""
        if isinstance(router, RoundRobin | Random):
            return (counts > 0) / counts.sum()
        capacity = np.array([field.limit_per_s for field in self.fields]) * (counts > 0)
        return capacity / float(capacity @ counts)

    @property
    def is_disaggregated(self) -> bool:
        """Whether requests are handed over."""
        return any(group.role != "unified" for group in self._groups)

    @property
    def limit_per_s(self) -> float:
        """Requests per second beyond which some instance's queue grows without end."""
        pairs = zip(self.fields, self._share, strict=True)
        return float(min(field.limit_per_s / share for field, share in pairs if share > 0))

    def rates(self, rate_per_s: float) -> list[float]:
        """What arrives at an instance of each group."""
        return [rate_per_s * float(share) for share in self._share]

    @property
    def weights(self) -> np.ndarray:
        """Share of the requests that each group serves, float64 `[groups]`."""
        weights = np.array([group.count for group in self._groups]) * self._share
        return weights / weights.sum()

    def throughput_per_s(self, rate_per_s: float) -> float:
        """`min(rate, slots / (TTFT + TPOT x tokens))`, TTFT without queueing, over all instances."""
        points = [field.at(rate) for field, rate in zip(self.fields, self.rates(rate_per_s), strict=True)]
        return sum(
            group.count * min(point.rate_per_s, point.slots / point.service_s)
            for group, point in zip(self._groups, points, strict=True)
        )

    @property
    def arrival_scv(self) -> float:
        """Of the gaps at one instance: every I-th arrival, or each with probability 1/I (Whitt 1983, 'The Queueing
        Network Analyzer', 4.4)."""
        if isinstance(self._router, RoundRobin):
            return self._mix.arrival_scv / self._instances
        return 1 + (self._mix.arrival_scv - 1) / self._instances
