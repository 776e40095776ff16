"""Ways to spend a budget of accelerators: some instances to prefill and others to decode, or all to do both."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from jaxsim.analysis.sweep import ranks_of
from jaxsim.config.errors import ScenarioError
from jaxsim.config.schema import Cluster, Instance, Scenario
from jaxsim.latency import Roofline
from jaxsim.mean_field import MeanField, Mix, mix_of
from jaxsim.specs.slo import quantile_of

Role = Literal["unified", "prefill", "decode"]
Part = Role | Literal["link"]

_TAILS = 0.9
"""A limit on this quantile or above is one on the mean, too."""

_CHUNK_KEYS = ("max_num_batched_tokens", "chunk_size", "chunked_prefill_size")
"""What schedulers call their token budget."""


@dataclass(frozen=True, eq=False)
class Split:
    """One way to spend the budget.

    Attributes:
        scenario: the workload on that fleet.
        groups: its instances: one group of `prefill` and one of `decode`, or one of `unified`.
        limits_per_s: requests per second that its parts bear in the mean at most, `link` among them; decodes then take
            no longer than promised in the mean.
        stable_per_s: requests per second beyond which some queue grows without end, whatever was promised.
        in_service: requests in service at its bound, in the mean.
    """

    scenario: Scenario
    groups: tuple[Instance, ...]
    limits_per_s: Mapping[Part, float]
    stable_per_s: float
    in_service: float

    @property
    def bound_per_s(self) -> float:
        """Requests per second that it bears in the mean at most."""
        return min(self.limits_per_s.values())

    @property
    def bound_by(self) -> Part:
        """The part that bears the least."""
        return min(self.limits_per_s, key=lambda part: self.limits_per_s[part])

    @property
    def is_colocated(self) -> bool:
        """Whether all instances prefill and decode."""
        return len(self.groups) == 1

    def count(self, role: Role) -> int:
        """How many instances have the role."""
        return sum(group.count for group in self.groups if group.role == role)

    @property
    def num_instances(self) -> int:
        """Of all roles: fleets of as many share a program."""
        return sum(group.count for group in self.groups)

    @property
    def layouts(self) -> tuple[int, ...]:
        """Accelerators of an instance of each group."""
        return tuple(ranks_of(group.latency) for group in self.groups)

    @property
    def accelerators(self) -> int:
        """Of the fleet."""
        return sum(group.count * ranks for group, ranks in zip(self.groups, self.layouts, strict=True))

    @property
    def prefill_share(self) -> float:
        """Share of the accelerators that only prefill."""
        return self.count("prefill") * self.layouts[0] / self.accelerators

    @property
    def chunk_tokens(self) -> int | None:
        """Most tokens of an iteration of a colocated instance; None if its scheduler knows no such limit."""
        key = _chunk_key(self.groups[0]) if self.is_colocated else None
        return getattr(self.groups[0].scheduler, key) if key else None

    @property
    def label(self) -> str:
        """`3 prefill : 5 decode`, `8 colocated (chunks of 512)`; with the accelerators of each unless that is one."""
        parts = []
        for group, ranks in zip(self.groups, self.layouts, strict=True):
            role = "colocated" if self.is_colocated else group.role
            parts.append(f"{group.count} {role}" + (f" of {ranks} accelerators" if ranks > 1 else ""))
        chunk = f" (chunks of {self.chunk_tokens})" if self.chunk_tokens else ""
        return " : ".join(parts) + chunk


def splits_of(
    scenario: Scenario, accelerators: int, layouts: Sequence[int] | None = None, chunks: Sequence[int] | None = None
) -> list[Split]:
    """Every way to spend the budget that no other contains.

    Args:
        scenario: with one group of unified instances, which are tried in all roles, or with one of prefill and one of
            decode instances; without a unified group beside them, colocated instances are like the decode instances.
        accelerators: how many there are.
        layouts: values of `latency.tensor_parallel` to try for each role; by default the scenario's. One that the
            model does not fit in is left out.
        chunks: token budgets to try for colocated instances; by default the scheduler's.

    Raises:
        ScenarioError: the scenario does not say what instances of each role are like, or how KV caches are transferred;
            the latency has no layouts, the scheduler no chunks; the model fits in no layout.
        ValueError: too few accelerators, or no layout or chunk of 1 or more.
    """
    for name, values in (("accelerators", [accelerators]), ("layouts", layouts or []), ("chunks", chunks or [])):
        if not all(value >= 1 for value in values):
            raise ValueError(f"{name} must be 1 or greater, not {min(values)}")
    network = scenario.cluster.kv_transfer
    if network.bandwidth_bytes_per_s is None and not network.latency_s:
        raise ScenarioError(
            "is needed: say how KV caches get from prefill to decode instances, such as "
            "{latency_s: 1.0e-4, bandwidth_bytes_per_s: 2.5e10}",
            "cluster.kv_transfer",
        )
    unified, prefill, decode = (_in_layouts(group, layouts) for group in _templates(scenario))
    fleets: list[tuple[Instance, ...]] = []
    for one in unified:
        if count := accelerators // ranks_of(one.latency):
            fleets += [(replace(chunked, count=count),) for chunked in _in_chunks(one, chunks)]
    for first, second in itertools.product(prefill, decode):
        fleets += _pairs(first, second, accelerators)
    if not any(len(groups) > 1 for groups in fleets):
        least = min(map(_ranks, prefill)) + min(map(_ranks, decode))
        raise ValueError(
            f"accelerators must be enough for a prefill and a decode instance: {least}, not {accelerators}"
        )
    bounds = _Bounds(scenario, mix_of(scenario))
    return [bounds.split(groups) for groups in fleets]


def _ranks(group: Instance) -> int:
    return ranks_of(group.latency)


def _templates(scenario: Scenario) -> tuple[Instance, Instance, Instance]:
    """What unified, prefill and decode instances are like."""
    groups: dict[str, Instance] = {}
    for place, group in enumerate(scenario.cluster.instances):
        if group.role in groups:
            raise ScenarioError(
                f"is another group of {group.role} instances: say what they are like in one",
                f"cluster.instances.{place}",
            )
        groups[group.role] = group
    roles: tuple[Role, ...] = ("unified", "prefill", "decode")
    other = groups.get("decode") or groups["unified"]
    unified, prefill, decode = (groups.get(role) or replace(other, role=role, name=None) for role in roles)
    return unified, prefill, decode


def _in_layouts(group: Instance, layouts: Sequence[int] | None) -> list[Instance]:
    """The group in every layout that the model fits in."""
    if layouts is None:
        return [group]
    if not isinstance(group.latency, Roofline):
        raise ScenarioError(
            "must be of kind roofline, which names a model and hardware, for other layouts to be tried",
            "cluster.instances.latency",
        )
    if group.kv_cache.num_blocks is not None:
        raise ScenarioError(
            "must be null, with gpu_memory_utilization given, so that the pool follows the layout",
            "cluster.instances.kv_cache.num_blocks",
        )
    found, problem = [], ""
    for ranks in layouts:
        try:
            found.append(replace(group, latency=replace(group.latency, tensor_parallel=ranks)))
        except ValueError as error:
            problem = problem or str(error)
    if not found:
        raise ScenarioError(f"fits in none of the layouts {list(layouts)}: {problem}", "cluster.instances.latency")
    return found


def _chunk_key(group: Instance) -> str | None:
    return next((name for name in _CHUNK_KEYS if hasattr(group.scheduler, name)), None)


def _in_chunks(group: Instance, chunks: Sequence[int] | None) -> Iterator[Instance]:
    """The group with every token budget, and prompts in chunks."""
    scheduler: Any = group.scheduler
    if hasattr(scheduler, "enable_chunked_prefill"):
        scheduler = replace(scheduler, enable_chunked_prefill=True)
    key = _chunk_key(group)
    if chunks and key is None:
        raise ScenarioError(f"is {scheduler.kind}, which knows no chunks", "cluster.instances.scheduler")
    for change in [{str(key): tokens} for tokens in chunks or ()] or [{}]:
        yield replace(group, scheduler=replace(scheduler, **change))


def _pairs(prefill: Instance, decode: Instance, accelerators: int) -> Iterator[tuple[Instance, Instance]]:
    """Every pair of counts to which no further instance can be added."""
    for count in range(1, accelerators // _ranks(prefill) + 1):
        others, left = divmod(accelerators - count * _ranks(prefill), _ranks(decode))
        if others and left < _ranks(prefill):
            yield replace(prefill, count=count), replace(decode, count=others)


class _Bounds:
    """What fleets bear in the mean at most."""

    def __init__(self, scenario: Scenario, mix: Mix) -> None:
        self._scenario = scenario
        self._mix = mix
        tpot = [
            limit_s
            for metric, part, limit_s in scenario.slo.limits
            if metric == "tpot_s" and (part == "mean" or (quantile_of(part) or 0.0) >= _TAILS)
        ]
        self._tpot_s = min(tpot, default=math.inf)
        self._known: dict[Instance, tuple[MeanField, float]] = {}

    def split(self, groups: tuple[Instance, ...]) -> Split:
        """The split of some groups."""
        switching = self._scenario.cluster.role_switching if len(groups) > 1 else None
        try:
            cluster = replace(self._scenario.cluster, instances=groups, role_switching=switching)
        except ValueError as error:
            raise ScenarioError(str(error), "cluster") from None
        fields = {group.role: (group.count, *self._instance(group)) for group in groups}
        limits: dict[Part, float] = {role: count * limit for role, (count, _, limit) in fields.items()}
        if len(groups) > 1:
            limits["link"] = self._links(cluster, groups[0].count, groups[1].count)
        stable = [count * field.limit_per_s for count, field, _ in fields.values()]
        bound = min(limits.values())
        in_service = sum(count * field.at(bound / count).in_service for count, field, _ in fields.values())
        scenario = replace(self._scenario, cluster=cluster)
        return Split(scenario, groups, limits, min(*stable, limits.get("link", math.inf)), in_service)

    def _instance(self, group: Instance) -> tuple[MeanField, float]:
        """Such an instance, and the requests per second that it bears."""
        one = replace(group, count=1)
        if one not in self._known:
            field = MeanField(one, self._mix)
            low, high = 0.0, field.limit_per_s
            if one.role != "prefill" and field.at(high).step_s > self._tpot_s:
                for _ in range(12):
                    middle = (low + high) / 2
                    low, high = (middle, high) if field.at(middle).step_s <= self._tpot_s else (low, middle)
            self._known[one] = field, high
        return self._known[one]

    def _links(self, cluster: Cluster, prefill: int, decode: int) -> float:
        """Requests per second that the network bears; without end where transfers do not queue for it."""
        network = cluster.transfer
        links = {"none": math.inf, "link": prefill * decode, "nic": min(prefill, decode)}[network.contention]
        size = self._mix.prompt_tokens * (network.bytes_per_token or 0.0)
        each_s = network.latency_s + size / (network.bandwidth_bytes_per_s or math.inf)
        mean_s = float(np.mean(np.where(self._mix.output_tokens > 1, each_s, 0.0)))
        return links / mean_s if mean_s > 0 and network.overlap == "none" else math.inf
