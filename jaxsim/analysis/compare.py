"""Is B better than A? Both serve the same requests, so that only the difference is left to chance.

Seeds give the same requests under every configuration (common random numbers). What one seed does to A it does to B
too, so a difference of paired seeds varies far less than that of two independent runs: the variance reduction is shown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.analysis.scenarios import resized, size_of
from jaxsim.analysis.statistics import UNPAIRED, Sample, Statistic, is_one_run, seeds_per_cluster
from jaxsim.analysis.steadiness import relative_difference
from jaxsim.config.errors import ScenarioError
from jaxsim.config.schema import Scenario
from jaxsim.metrics.intervals import Estimate, Interval
from jaxsim.simulate import run_many

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STATISTICS = ("ttft_s.mean", "ttft_s.p99", "tpot_s.mean", "tpot_s.p99", "e2e_s.mean", "e2e_s.p99")
SEEDS = 64
MAX_REQUESTS = 20_000_000
_BLOCK_REQUESTS = 2_000_000
"""Requests of both scenarios whose tables are held at once."""


@dataclass(frozen=True)
class Difference:
    """A statistic of two scenarios.

    Attributes:
        statistic: which.
        a: its value in the first.
        b: its value in the second.
        interval: 95 % interval of b - a; None with fewer than two seeds.
        change: b / a - 1.
        change_interval: its 95 % interval.
        variance_reduction: variance of b - a from as many unpaired seeds over that of the pairs.
        seeds: pairs.
    """

    statistic: Statistic
    a: float
    b: float
    interval: Interval | None
    change: float
    change_interval: Interval | None
    variance_reduction: float
    seeds: int

    @classmethod
    def of(cls, statistic: Statistic, a: Sample, b: Sample, seeds: int) -> "Difference":
        """The difference between two samples of the same seeds, of which there are so many."""
        first, second = statistic.estimate(a), statistic.estimate(b)
        difference = Estimate(second.value - first.value, second.influence - first.influence)
        change = relative_difference(second, first)
        apart, paired = first.variance + second.variance, difference.variance
        return cls(
            statistic,
            first.value,
            second.value,
            difference.interval(0.95, low=-np.inf),
            change.value,
            change.interval(0.95, low=-np.inf),
            apart / paired if paired > 0 else np.inf,
            seeds,
        )

    @property
    def sure(self) -> bool:
        """Whether the interval leaves no doubt which is larger."""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high


@dataclass(frozen=True, eq=False)
class ComparisonAnswer(Answer):
    """How two scenarios differ.

    Attributes:
        names: of the scenarios.
        differences: by statistic.
    """

    question: ClassVar[str] = "compare"

    names: tuple[str, str]
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...] = ()
    incomplete: bool = False

    @property
    def sentences(self) -> list[str]:
        """See `Answer`."""
        said = []
        for found in self.differences:
            ci = found.change_interval
            sure = "" if found.sure else ", which may be chance"
            interval = "" if ci is None else f" ({ci.low:+.2%} to {ci.high:+.2%})"
            said.append(f"{found.statistic.label}: {self.names[1]} is {found.change:+.2%}{interval}{sure}.")
        reductions = sorted(found.variance_reduction for found in self.differences)
        said.append(
            f"{self.differences[0].seeds:,} seeds of the same requests; pairing them does the work of "
            f"{reductions[0]:,.1f} to {reductions[-1]:,.1f} times as many."
        )
        return said

    @property
    def facts(self) -> dict[str, Any]:
        """See `Answer`."""
        return {"a": self.names[0], "b": self.names[1], "seeds": self.differences[0].seeds}

    @property
    def rows(self) -> list[Row]:
        """A row per statistic."""
        return [
            {
                "statistic": found.statistic.name,
                "a": found.a,
                "b": found.b,
                "difference": found.b - found.a,
                "difference_low": found.interval.low if found.interval else None,
                "difference_high": found.interval.high if found.interval else None,
                "change": found.change,
                "low_change": found.change_interval.low if found.change_interval else None,
                "high_change": found.change_interval.high if found.change_interval else None,
                "sure": found.sure,
                "variance_reduction": found.variance_reduction,
            }
            for found in self.differences
        ]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The relative change of each statistic, with its interval."""
        ax = new_axes(ax, height=1.2 + 0.4 * len(self.differences))
        for place, found in enumerate(self.differences):
            ci = found.change_interval or (found.change, found.change)
            colour = "C0" if found.sure else "0.6"
            ax.plot([end * 100 for end in ci], [place, place], color=colour, lw=2)
            ax.plot(found.change * 100, place, "o", color=colour)
        ax.axvline(0, color="k", lw=0.8)
        ax.set_yticks(range(len(self.differences)), [found.statistic.label for found in self.differences])
        ax.invert_yaxis()
        ax.set_xlabel(f"{self.names[1]} against {self.names[0]}, % (95 % interval)")
        return ax


def compare(
    a: Scenario,
    b: Scenario,
    statistics: Sequence[str] = STATISTICS,
    *,
    precision: float | None = None,
    max_requests: int = MAX_REQUESTS,
    progress: Callable[[float], None] | None = None,
) -> ComparisonAnswer:
    """How a statistic differs between two scenarios that serve the same requests.

    Args:
        a: the first scenario; it says how many seeds, 64 if it has just one.
        b: the second, with the same seeds whatever it says itself.
        statistics: what to compare: latencies, `slo_attainment`, `goodput`.
        precision: go on adding seeds until the 95 % interval of each relative change is at most this wide to each side.
        max_requests: most requests to simulate.
        progress: as in `run`.

    Raises:
        ScenarioError: a scenario cannot be simulated, or its seeds would not differ.
        ValueError: a statistic that is unknown or cannot be paired.
    """
    wanted = [Statistic.parse(name) for name in statistics]
    for statistic in wanted:
        if not statistic.can_be_paired:
            raise ValueError(f"{statistic.name} {UNPAIRED}")
    seeds = a.monte_carlo.seeds if a.monte_carlo.seeds > 1 else SEEDS
    for scenario in (a, b):
        if is_one_run(resized(scenario, seeds=seeds)):
            raise ScenarioError(
                "none gives the same requests under every seed; use block_bootstrap", "workload.resample"
            )
    samples: list[list[Sample]] = [[], []]
    done = spent = 0
    incomplete = False
    while True:
        while done < seeds:
            first = a.monte_carlo.first_seed + done
            pair = [resized(scenario, first_seed=first, seeds=1) for scenario in (a, b)]
            each = sum(size_of(scenario) for scenario in pair)
            count = min(seeds - done, max(_BLOCK_REQUESTS // each, 1))
            pair = [resized(scenario, seeds=count) for scenario in pair]
            for held, result, scenario in zip(samples, run_many(pair, keep_requests=True), pair, strict=True):
                held.append(Sample.of(result, scenario, grouped=False))
                incomplete |= bool(result.summary["seeds_incomplete"])
            done += count
            spent += each * count
            if progress:
                progress(done / seeds)
        groups = seeds_per_cluster(resized(a, seeds=done))
        first_sample, second_sample = (Sample.concatenate(held).grouped(groups) for held in samples)
        found = [Difference.of(s, first_sample, second_sample, done) for s in wanted]
        more = _needed(found, precision, seeds)
        seeds = min(more, int((max_requests - spent) // (spent / done)) + done)
        if seeds <= done:
            break
    warnings = []
    if precision is not None and more > done:
        warnings.append(f"the budget of requests ended before every change was known to {precision:.2g}")
    return ComparisonAnswer(
        (a.name, b.name if b.name != a.name else "the second"), tuple(found), tuple(warnings), incomplete
    )


def _needed(found: Sequence[Difference], precision: float | None, seeds: int) -> int:
    if precision is None:
        return seeds
    halves = [(ci.high - ci.low) / 2 for difference in found if (ci := difference.change_interval)]
    widest = max(halves, default=0.0)
    return seeds if widest <= precision else int(np.ceil(seeds * max(1.1 * (widest / precision) ** 2, 1.25)))
