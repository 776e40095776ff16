"""How many requests must come before a replication, for it to start as if the system had run for ever.

Two memories have to fade:

* The queue's. Near its limit it is a reflected Brownian motion, which forgets where it started as `exp(-t / T)` with
  `T = 2 variance / drift^2` (Cox & Miller 1965, The Theory of Stochastic Processes, 5.7; Abate & Whitt 1987, Transient
  Behavior of Regulated Brownian Motion): `2 load^2 (ca^2 + cs^2) / (1 - load)^2` arrivals.
* The batch's: requests that were in service at the start have to be gone.
"""

import math
from dataclasses import dataclass

from jaxsim.config.errors import ScenarioError
from jaxsim.config.schema import Scenario
from jaxsim.mean_field.fleet import FleetField
from jaxsim.mean_field.mix import mix_of
from jaxsim.workload import Synthetic

RELAXATIONS = 6.0
"""Times T that a past is long: measured, P99 TTFT is then within noise of where it stays (`benchmarks/README.md`)."""

MOST_REQUESTS = 100_000
"""Longest past: enough up to 98 or 99 % of what the fleet bears."""

_LEAST_IDLE = 1e-3
_KEY = "monte_carlo.start"
_ADVICE = "say start: empty, and leave out the beginning with monte_carlo.warmup_requests"


@dataclass(frozen=True)
class Past:
    """What comes before each seed.

    Attributes:
        requests: how many; a multiple of the instances, so that round robin sends every other request where it would
            without them.
        sentence: what to say about it.
    """

    requests: int
    sentence: str


def past_of(scenario: Scenario) -> Past:
    """The past of a scenario that starts warm.

    Raises:
        ScenarioError: its workload has none.
    """
    workload = scenario.workload
    if not isinstance(workload, Synthetic) or not math.isfinite(workload.arrivals.rate_per_s):
        what = "arrivals with a long-run rate" if isinstance(workload, Synthetic) else "a workload of kind synthetic"
        raise ScenarioError(f"warm needs {what}, to draw what came before the start; {_ADVICE}", _KEY)
    instances = sum(group.count for group in scenario.cluster.instances)
    asked = scenario.monte_carlo.past_requests
    load, enough = _enough(scenario) if asked is None else (0.0, asked)
    if load >= 1:
        return Past(0, f"requests arrive at {load:.0%} of what the fleet bears: no start is warm, so seeds start empty")
    most = MOST_REQUESTS if asked is None else asked
    count = -(-min(enough, most) // instances) * instances
    sentence = f"each seed starts after {count:,} requests of the same process, which are not measured"
    if enough > most:
        sentence += f"; at {load:.1%} of what the fleet bears, a queue remembers its start for longer"
    return Past(count, sentence)


def _enough(scenario: Scenario) -> tuple[float, int]:
    """The load of the instances that are loaded most, and how many requests are enough for it."""
    mix = mix_of(scenario)
    fleet = FleetField(scenario, mix)
    most, longest_s = 0.0, 0.0
    for field, rate in zip(fleet.fields, fleet.rates(mix.rate_per_s), strict=True):
        point = field.at(rate)
        most = max(most, rate * point.work_s)
        load = min(rate * point.work_s, 1 - _LEAST_IDLE)
        arrivals = 2 * load**2 * (max(fleet.arrival_scv, mix.dispersion) + point.work_scv) / (1 - load) ** 2
        longest_s = max(longest_s, RELAXATIONS * arrivals / rate + point.fading_s)
    return most, max(math.ceil(mix.rate_per_s * longest_s), 1)
