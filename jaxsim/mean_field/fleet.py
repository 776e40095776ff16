"""The mean field of a whole fleet."""

import numpy as np

from jaxsim.cluster.routing import Random, RoundRobin
from jaxsim.config.schema import Instance, Scenario
from jaxsim.mean_field.instance import MeanField
from jaxsim.mean_field.mix import Mix


class FleetField:
    """The mean field of every group of a fleet, and how arrivals are shared among their instances.

    Round robin and random routing share equally; routers that look at load are taken to share by capacity.

    Args:
        scenario: the fleet.
        mix: of its workload, which need not be at the scenario's rate.
    """

    def __init__(self, scenario: Scenario, mix: Mix) -> None:
        self._mix = mix
        self._router = scenario.cluster.router
        self._groups: tuple[Instance, ...] = scenario.cluster.instances
        self.fields = [MeanField(instance, mix) for instance in self._groups]
        self._instances = sum(group.count for group in self._groups)
        capacity = np.array([field.limit_per_s for field in self.fields])
        if isinstance(self._router, RoundRobin | Random):
            self._share = np.full(len(capacity), 1 / self._instances)
        else:
            self._share = capacity / sum(c * g.count for c, g in zip(capacity, self._groups, strict=True))

    @property
    def limit_per_s(self) -> float:
        """Requests per second beyond which some instance's queue grows without end."""
        return float(min(field.limit_per_s / share for field, share in zip(self.fields, self._share, strict=True)))

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
