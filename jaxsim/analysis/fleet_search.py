"""The cheapest fleet that keeps the SLO at a given rate or under a trace.

Fleets are tried in order of cost, from the first that bears the rate in the mean (mean field), several at a time on
the same requests. The cheapest that keeps every promise and its cheaper neighbours are then simulated again, with seeds
four times as long (a short run reads low) until that changes nothing, and more of them until the verdicts are sure.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.analysis.promises import Margin, margins, met, worst
from jaxsim.analysis.rate_search import WARMUP
from jaxsim.analysis.replications import Horizon, horizon_of, replicated
from jaxsim.analysis.scenarios import rate_of, resized, size_of
from jaxsim.config.errors import ScenarioError
from jaxsim.config.schema import Instance, Scenario
from jaxsim.mean_field import FleetField, mix_of
from jaxsim.simulate import run_many

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AT_ONCE = 4
_SEEDS = 16
_REQUESTS_PER_INSTANCE = 500
_MOST_INSTANCES = 4096
_ROUNDS = 6

Counts = tuple[int, ...]


@dataclass(frozen=True)
class FleetPoint:
    """One fleet that was simulated.

    Attributes:
        counts: instances of each group.
        cost_per_hour: of all.
        margins: of every promise.
        goodput_per_s: requests per second that met the SLO; None without thresholds.
        requests: how many were simulated.
    """

    counts: Counts
    cost_per_hour: float
    margins: tuple[Margin, ...]
    goodput_per_s: float | None
    requests: int

    @property
    def verdict(self) -> Literal["met", "missed", "unsure"]:
        """Whether it surely keeps every promise, or surely breaks one."""
        if all(margin.surely_met for margin in self.margins):
            return "met"
        return "missed" if any(margin.surely_missed for margin in self.margins) else "unsure"


@dataclass(frozen=True, eq=False)
class FleetAnswer(Answer):
    """The cheapest fleet that keeps the SLO.

    Attributes:
        counts: instances of each group; None if no fleet keeps it.
        cost_per_hour: what they cost; instances, where no group has a price.
        interval: least and greatest cost that the answer may have: below, every fleet tried surely breaks a promise; a
            fleet of the greatest surely keeps all (infinite if none does).
        names: of the groups.
        priced: whether costs are prices.
        rate_per_s: arrival rate; nan if there is no such number.
        points: every fleet that was simulated, by cost.
        simulated_requests: of all runs.
    """

    question: ClassVar[str] = "capacity"

    counts: Counts | None
    cost_per_hour: float | None
    interval: tuple[float, float] | None
    names: tuple[str, ...]
    priced: bool
    rate_per_s: float
    points: tuple[FleetPoint, ...]
    simulated_requests: int
    warnings: tuple[str, ...] = ()
    incomplete: bool = False

    @property
    def sentences(self) -> list[str]:
        """See `Answer`."""
        if self.counts is None or self.interval is None:
            last = self.points[-1]
            return [f"No fleet tried keeps the SLO: {self._named(last.counts)} breaks {worst(last.margins).label}."]
        what = f"Cheapest fleet: {self._named(self.counts)}" if self.priced else f"Fewest instances: {sum(self.counts)}"
        cost = f", {self.cost_per_hour:.4g} an hour" if self.priced else ""
        low, high = self.interval
        if low == high:
            sure = "surely: it keeps every promise, and every cheaper one tried breaks one"
        elif high < math.inf:
            sure = f"surely between {low:.4g} and {high:.4g}" + (" an hour" if self.priced else "")
        else:
            sure = f"surely not below {low:.4g}"
        said = [f"{what}{cost} ({sure})."]
        cheaper = [p for p in self.points if p.cost_per_hour < (self.cost_per_hour or 0) and not met(p.margins)]
        if cheaper:
            broken = worst(cheaper[-1].margins)
            said.append(f"{self._named(cheaper[-1].counts)} breaks {broken.label}: {broken.value:.4g}.")
        return said

    @property
    def facts(self) -> dict[str, Any]:
        """See `Answer`."""
        return {
            "counts": None if self.counts is None else dict(zip(self.names, self.counts, strict=True)),
            "cost_per_hour": self.cost_per_hour if self.priced else None,
            "instances": None if self.counts is None else sum(self.counts),
            "cost_interval": self.interval,
            "rate_per_s": self.rate_per_s,
            "simulated_requests": self.simulated_requests,
        }

    @property
    def rows(self) -> list[Row]:
        """A row per fleet that was simulated."""
        rows: list[Row] = []
        for point in self.points:
            row: dict[str, Any] = dict(zip(self.names, point.counts, strict=True))
            row |= {"cost_per_hour": point.cost_per_hour, "verdict": point.verdict}
            for margin in point.margins:
                row[margin.promise.name] = margin.value if math.isfinite(margin.value) else None
            rows.append(row | {"goodput_per_s": point.goodput_per_s, "requests": point.requests})
        return rows

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The worst promise of every fleet, by cost: value over limit (an attainment: limit over value)."""
        from matplotlib.ticker import MaxNLocator

        ax = new_axes(ax)
        looks = {"met": ("C2", "surely kept"), "missed": ("C3", "surely broken"), "unsure": ("0.5", "unsure")}
        for verdict, (colour, label) in looks.items():
            points = [p for p in self.points if p.verdict == verdict and math.isfinite(worst(p.margins).excess)]
            if not points:
                continue
            margins_of = [worst(point.margins) for point in points]
            ratio = np.exp([margin.excess for margin in margins_of])
            ends = np.exp(np.array([(margin.low, margin.high) for margin in margins_of], float).T)
            costs = [point.cost_per_hour for point in points]
            errors = np.nan_to_num(np.abs(ends - ratio))
            ax.errorbar(costs, ratio, errors, fmt="o", color=colour, label=label)
        ax.axhline(1, color="k", lw=0.8)
        if self.cost_per_hour is not None:
            ax.axvline(self.cost_per_hour, color="C2", lw=1, ls="--")
        ax.set(xlabel="cost per hour" if self.priced else "instances", ylabel="worst promise / limit", yscale="log")
        if not self.priced:
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend(frameon=False, fontsize=8)
        return ax

    def _named(self, counts: Counts) -> str:
        if len(counts) == 1:
            return f"{counts[0]} instance{'s' if counts[0] > 1 else ''}"
        return " + ".join(f"{count} x {name}" for count, name in zip(counts, self.names, strict=True) if count)


def cheapest_fleet(
    scenario: Scenario,
    horizon: Horizon | Literal["auto"],
    max_requests: int,
    progress: Callable[[float], None] | None = None,
) -> FleetAnswer:
    """See `capacity`."""
    search = _Search(scenario, horizon, max_requests)
    found = search.first_met(progress)
    if found is not None:
        found = search.make_sure(found)
    return search.answer(found)


class _Search:
    """The search; every fleet that was simulated is kept."""

    def __init__(self, scenario: Scenario, horizon: Horizon | Literal["auto"], max_requests: int) -> None:
        self._scenario, self._warnings = replicated(scenario)
        self._steady = horizon_of(scenario, horizon) == "steady"
        self._budget = max_requests
        self._groups: tuple[Instance, ...] = scenario.cluster.instances
        prices = [group.cost_per_hour for group in self._groups]
        self._priced = any(price is not None for price in prices)
        if self._priced and None in prices:
            place = prices.index(None)
            raise ScenarioError("is needed: other groups have a price", f"cluster.instances.{place}.cost_per_hour")
        self._prices = [1.0 if price is None else price for price in prices]
        self._rate = rate_of(scenario)
        self._seeds, self._longer = _SEEDS, 1.0
        self._spent, self._incomplete = 0, False
        self._points: dict[Counts, FleetPoint] = {}

    def first_met(self, progress: Callable[[float], None] | None) -> Counts | None:
        """The cheapest fleet that keeps every promise, as far as the first look tells."""
        best: Counts | None = None
        fleets = self._by_cost()
        if len(self._groups) == 1:
            return self._bisected()
        while best is None and self._spent < self._budget:
            batch = list(itertools.islice(fleets, _AT_ONCE))
            if not batch:
                break
            self._simulate(batch)
            best = next((counts for counts in batch if met(self._points[counts].margins)), None)
            if progress:
                progress(min(self._spent / self._budget, 0.9))
        return best

    def make_sure(self, found: Counts) -> Counts:
        """Simulate the cheapest fleet and its cheaper neighbours until their verdicts are sure, or the budget ends."""
        long_enough = not self._steady
        for _ in range(_ROUNDS):
            near = self._near(found)
            if long_enough:
                near = [counts for counts in near if self._points[counts].verdict == "unsure"]
            if not near or self._spent + 4 * sum(self._requests(counts) for counts in near) > self._budget:
                break
            if long_enough:
                self._seeds *= 4
            else:
                self._longer *= 4
            self._simulate(near)
            kept = [counts for counts in near if met(self._points[counts].margins)]
            before = found
            found = kept[0] if kept else self._larger(found)
            long_enough = long_enough or found == before
        return found

    def _larger(self, fleet: Counts) -> Counts:
        """The next fleet by cost that keeps every promise; one more of every group if none does that was tried."""
        cost = self._cost(fleet)
        dearer = sorted((c for c in self._points if self._cost(c) > cost), key=self._cost)
        self._simulate([*dearer[:2], tuple(count + 1 for count in fleet)])
        kept = [counts for counts in sorted(self._points, key=self._cost) if self._cost(counts) > cost]
        return next((c for c in kept if met(self._points[c].margins)), kept[-1])

    def answer(self, found: Counts | None) -> FleetAnswer:
        """Everything that was found."""
        points = sorted(self._points.values(), key=lambda point: (point.cost_per_hour, point.counts))
        interval = None
        if found is not None:
            unsure = [p.cost_per_hour for p in points if p.verdict != "missed"]
            sure = [p.cost_per_hour for p in points if p.verdict == "met"]
            interval = (min(unsure, default=math.inf), min(sure, default=math.inf))
        if any(
            a.verdict == "met"
            and b.verdict == "missed"
            and all(x <= y for x, y in zip(a.counts, b.counts, strict=True))
            for a, b in itertools.permutations(points, 2)
        ):
            self._warnings.append("not monotone: a fleet breaks a promise that part of it keeps")
        return FleetAnswer(
            counts=found,
            cost_per_hour=None if found is None else self._cost(found),
            interval=interval,
            names=tuple(group.name or f"group_{place}" for place, group in enumerate(self._groups)),
            priced=self._priced,
            rate_per_s=self._rate,
            points=tuple(points),
            simulated_requests=self._spent,
            warnings=tuple(self._warnings),
            incomplete=self._incomplete,
        )

    def _bisected(self) -> Counts | None:
        """The fewest instances of one group: a bracket that grows from what the mean field asks for, then halved."""
        low = 0  # too few, whether simulated or not
        first = max(math.floor(self._least()), 1)
        tries = sorted({max(first + step, 1) for step in (-1, 0, 1, 2)})
        while True:
            self._simulate([(count,) for count in tries])
            kept = [count for count in tries if met(self._points[(count,)].margins)]
            low = max([low, *(count for count in tries if count not in kept and count < min(kept, default=1 << 30))])
            if kept:
                break
            last = tries[-1]
            if last >= _MOST_INSTANCES or self._spent >= self._budget:
                return None
            tries = sorted({last + 1, math.ceil(last * 1.1) + 1, math.ceil(last * 1.3) + 1, math.ceil(last * 1.7) + 1})
        high = min(kept)
        while high - low > 1:
            inside = sorted({low + math.ceil((high - low) * part / 4) for part in (1, 2, 3)} - {low, high})
            self._simulate([(count,) for count in inside])
            kept = [count for count in inside if met(self._points[(count,)].margins)]
            high = min([high, *kept])
            low = max([low, *(count for count in inside if count not in kept and count < high)])
        return (high,)

    def _least(self) -> float:
        """Instances of one group that bear the rate in the mean."""
        if not math.isfinite(self._rate):
            return 1.0
        return self._rate / FleetField(self._of((1,)), mix_of(self._scenario)).limit_per_s

    def _by_cost(self) -> Iterator[Counts]:
        """Every fleet that bears the rate in the mean, the cheapest first."""
        mix = mix_of(self._scenario)
        alone = [
            self._rate / FleetField(self._of(tuple(int(i == place) for i in range(len(self._groups)))), mix).limit_per_s
            for place in range(len(self._groups))
        ]
        most = [math.ceil(1.5 * count) + 2 for count in alone]
        fleets = itertools.product(*(range(count + 1) for count in most))
        for counts in sorted((c for c in fleets if any(c)), key=lambda c: (self._cost(c), sum(c))):
            if sum(count / needed for count, needed in zip(counts, alone, strict=True)) < 1:
                continue
            if FleetField(self._of(counts), mix).limit_per_s >= self._rate:
                yield counts

    def _near(self, found: Counts) -> list[Counts]:
        """The fleet and the cheaper ones that were tried and are not far below."""
        cost = self._cost(found)
        cheaper = sorted((c for c in self._points if self._cost(c) < cost), key=self._cost)[-2:]
        return [*cheaper, found]

    def _simulate(self, fleets: Sequence[Counts]) -> None:
        scenarios = [self._sized(counts) for counts in fleets]
        for counts, result in zip(fleets, run_many(scenarios), strict=True):
            summary = result.summary
            self._spent += summary["num_requests"]
            self._incomplete |= bool(summary["seeds_incomplete"])
            goodput = summary["goodput_requests_per_s"]
            self._points[counts] = FleetPoint(
                counts, self._cost(counts), tuple(margins(result)), goodput, summary["num_requests"]
            )

    def _sized(self, counts: Counts) -> Scenario:
        scenario = resized(self._of(counts), seeds=self._seeds)
        if not self._steady:
            return scenario
        size = self._requests(counts) // self._seeds
        warmup = scenario.monte_carlo.warmup_requests or int(WARMUP * size)
        return resized(scenario, num_requests=size, warmup_requests=warmup)

    def _requests(self, counts: Counts) -> int:
        """Requests of all seeds of a fleet."""
        given = size_of(self._scenario)
        if self._steady:
            given = math.ceil(self._longer * max(given, _REQUESTS_PER_INSTANCE * sum(counts)))
        return given * self._seeds

    def _of(self, counts: Counts) -> Scenario:
        """The scenario with other numbers of instances."""
        groups = tuple(
            dataclasses.replace(group, count=count) for group, count in zip(self._groups, counts, strict=True) if count
        )
        return dataclasses.replace(
            self._scenario, cluster=dataclasses.replace(self._scenario.cluster, instances=groups)
        )

    def _cost(self, counts: Counts) -> float:
        return float(sum(count * price for count, price in zip(counts, self._prices, strict=True)))
