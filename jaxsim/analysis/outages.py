"""What outages cost: the scenario against itself with every instance always there, on the same requests."""

import dataclasses
from collections.abc import Callable

from jaxsim.analysis.compare import Difference
from jaxsim.analysis.scenarios import resized, size_of
from jaxsim.analysis.statistics import Sample, Statistic, seeds_per_cluster
from jaxsim.config.schema import Scenario
from jaxsim.simulate import run_many

STATISTICS = ("ttft_s.p50", "ttft_s.p99", "e2e_s.p50", "e2e_s.p99")

_MOST_REQUESTS = 1_000_000
"""Of both runs."""


def has_outages(scenario: Scenario) -> bool:
    """Whether an instance is unavailable at some time."""
    return any(group.unavailable for group in scenario.cluster.instances)


def without_outages(scenario: Scenario) -> Scenario:
    """The scenario with every instance always there."""
    groups = tuple(dataclasses.replace(group, unavailable=()) for group in scenario.cluster.instances)
    return dataclasses.replace(scenario, cluster=dataclasses.replace(scenario.cluster, instances=groups))


def cost_of_outages(scenario: Scenario, progress: Callable[[float], None] | None = None) -> tuple[Difference, ...]:
    """Latencies, and attainment where something is promised, without (`a`) and with the outages (`b`).

    Seeds are the scenario's own, as many of the first as a million requests hold. Lost requests have no end-to-end
    latency, but count as missing their promises.

    Args:
        scenario: with outages.
        progress: as in `run`.
    """
    seeds = max(1, min(scenario.monte_carlo.seeds, _MOST_REQUESTS // (2 * size_of(scenario))))
    pair = [resized(one, seeds=seeds) for one in (without_outages(scenario), scenario)]
    groups = seeds_per_cluster(pair[0])
    found = run_many(pair, keep_requests=True, progress=progress)
    calm, hit = (Sample.of(result, one, grouped=False).grouped(groups) for result, one in zip(found, pair, strict=True))
    names = [*STATISTICS, *(["slo_attainment"] if found[0].summary["slo_verdicts"] else [])]
    return tuple(Difference.of(Statistic.parse(name), calm, hit, seeds) for name in names)
