"""How much can the fleet bear, and how large must it be? One search for each question, both on common requests.

A published search that took one short seed per rate was measured to vary by 30 % and to be 50 % too hopeful. Here the
answer has an interval, and runs are lengthened until the answer does not depend on their length.
"""

from collections.abc import Callable
from typing import Literal, overload

from jaxsim.analysis.fleet_search import FleetAnswer, cheapest_fleet
from jaxsim.analysis.promises import check_promises
from jaxsim.analysis.rate_search import RateAnswer, highest_rate
from jaxsim.analysis.replications import Horizon
from jaxsim.config.schema import Scenario

MAX_REQUESTS = 40_000_000
"""Default budget: simulated requests in all."""


@overload
def capacity(
    scenario: Scenario,
    vary: Literal["rate"] = "rate",
    *,
    precision: float = 0.02,
    horizon: Horizon | Literal["auto"] = "auto",
    max_requests: int = MAX_REQUESTS,
    progress: Callable[[float], None] | None = None,
) -> RateAnswer: ...


@overload
def capacity(
    scenario: Scenario,
    vary: Literal["instances"],
    *,
    precision: float = 0.02,
    horizon: Horizon | Literal["auto"] = "auto",
    max_requests: int = MAX_REQUESTS,
    progress: Callable[[float], None] | None = None,
) -> FleetAnswer: ...


def capacity(
    scenario: Scenario,
    vary: Literal["rate", "instances"] = "rate",
    *,
    precision: float = 0.02,
    horizon: Horizon | Literal["auto"] = "auto",
    max_requests: int = MAX_REQUESTS,
    progress: Callable[[float], None] | None = None,
) -> RateAnswer | FleetAnswer:
    """The highest arrival rate, or the cheapest fleet, that keeps every promise of the SLO.

    Args:
        scenario: with an `slo`: percentiles or means per metric, or `attainment` of all thresholds together, or both.
            Of synthetic workloads the number of requests and seeds only say where the search begins.
        vary: `rate` looks for the highest rate that the fleet bears; `instances` for the counts of the groups that cost
            least (`cost_per_hour`; where no group has a price, each instance costs 1) at the scenario's rate or trace.
        precision: half-width of the 95 % interval of the rate, relative to it.
        horizon: as in `monte_carlo`. In a steady state, the first fifth of each seed is not measured.
        max_requests: most requests to simulate.
        progress: as in `run`.

    Returns:
        The answer with its interval and the goodput curve or the fleets that were tried. Repeated, it is the same to
        the last bit.

    Raises:
        ScenarioError: no SLO, or a scenario that cannot be simulated.
        ValueError: an unknown `vary`.
    """
    check_promises(scenario)
    if vary not in ("rate", "instances"):
        raise ValueError(f"vary must be rate or instances, not {vary!r}")
    if vary == "rate":
        return highest_rate(scenario, precision, horizon, max_requests, progress)
    return cheapest_fleet(scenario, horizon, max_requests, progress)
