"""The same workload under every combination of some keys' values.

All points serve the same requests (common random numbers), so differences between points are the configuration's.
Points of equal structure (other numbers, the same kinds) share a compiled program and run side by side.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.analysis.scenarios import changed, size_of
from jaxsim.analysis.statistics import Statistic, percentiles_of
from jaxsim.analysis.swept import dataset
from jaxsim.config.io import dump_scenario, parse_scenario
from jaxsim.config.schema import Scenario
from jaxsim.metrics.summary import Percentiles
from jaxsim.simulate import run_each, run_many

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes

STATISTICS = (
    "ttft_s.mean",
    "ttft_s.p50",
    "ttft_s.p99",
    "tpot_s.mean",
    "tpot_s.p99",
    "e2e_s.mean",
    "e2e_s.p99",
)
_TOTALS = ("throughput_requests_per_s", "throughput_tokens_per_s", "slo_attainment", "goodput_requests_per_s")
_COUNTS = ("preemptions", "kv_utilisation", "seeds_incomplete")
_BLOCK_REQUESTS = 1_000_000
"""Requests of a task on a cluster: what Ctrl-C may lose."""

_LOG_RANGE = 8.0
"""Latencies that differ by more than this factor are drawn on a logarithmic axis."""

Summary = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class SweepAnswer(Answer):
    """A summary for every combination of values.

    Attributes:
        keys: the keys that were varied.
        values: of each point, by key.
        summaries: of each point, as in `summary.json`.
        accelerators: of the fleet of each point.
        latency: the statistic that the Pareto front sets against output per accelerator.
        statistics: the columns of the table.
        points: how many were asked for; more than there are summaries if interrupted.
    """

    question: ClassVar[str] = "sweep"

    keys: tuple[str, ...]
    values: tuple[Mapping[str, Any], ...]
    summaries: tuple[Summary, ...]
    accelerators: tuple[int, ...]
    latency: Statistic
    statistics: tuple[Statistic, ...]
    points: int
    warnings: tuple[str, ...] = ()

    @property
    def incomplete(self) -> bool:
        """See `Answer`."""
        return any(summary["seeds_incomplete"] for summary in self.summaries)

    @property
    def interrupted(self) -> bool:
        """See `Answer`."""
        return len(self.summaries) < self.points

    @property
    def output(self) -> str:
        """What the Pareto front counts: goodput, or throughput without thresholds."""
        with_slo = all(summary["goodput_requests_per_s"] is not None for summary in self.summaries)
        return "goodput" if with_slo else "throughput"

    @property
    def front(self) -> list[int]:
        """Places of the points that no other beats in both output per accelerator and latency, by latency."""
        pairs = [(self._latency(place), self._output(place)) for place in range(len(self.summaries))]
        best, front = -math.inf, []
        for place in sorted(range(len(pairs)), key=lambda i: (pairs[i][0], -pairs[i][1])):
            if math.isfinite(pairs[place][0]) and pairs[place][1] > best:
                best = pairs[place][1]
                front.append(place)
        return front

    @property
    def sentences(self) -> list[str]:
        """See `Answer`."""
        said = [f"{len(self.summaries):,} of {self.points:,} points; {len(self.front):,} on the Pareto front."]
        for name, place in (
            ("lowest", min(self.front, key=self._latency)),
            ("highest", max(self.front, key=self._output)),
        ):
            what = self.latency.label if name == "lowest" else f"{self.output} per accelerator"
            said.append(
                f"The {name} {what}: {self._named(place)} with {self._latency(place):.4g} s and "
                f"{self._output(place):.4g} requests/s."
            )
        return said

    @property
    def facts(self) -> dict[str, Any]:
        """See `Answer`."""
        return {"keys": list(self.keys), "points": self.points, "finished": len(self.summaries), "front": self.front}

    @property
    def rows(self) -> list[Row]:
        """A row per point: the swept keys, then statistics with their intervals."""
        front = set(self.front)
        rows: list[Row] = []
        for place, summary in enumerate(self.summaries):
            row: dict[str, Any] = {key: _cell(self.values[place][key]) for key in self.keys}
            for statistic in self.statistics:
                name, part = statistic.name, statistic.part or statistic.metric
                of = summary[statistic.metric] if statistic.part else summary
                row[name] = of[part]
                row[f"{name}_low"], row[f"{name}_high"] = of[f"{part}_ci"] or (None, None)
            row |= {name: summary[name] for name in (*_TOTALS, *_COUNTS)}
            per = self._output(place)
            rows.append(row | {f"{self.output}_per_accelerator": per, "pareto": place in front})
        return rows

    def to_xarray(self) -> "xarray.Dataset":
        """The table with the swept keys as dimensions (`rate`, `max_num_seqs` ...), or along `point` after `zip`.

        Raises:
            ImportError: xarray is not installed (`pip install 'jaxsim-serving[xarray]'`).
        """
        return dataset(self.rows, self.keys)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Output per accelerator against latency, with the Pareto front."""
        ax = new_axes(ax)
        latency = np.array([self._latency(place) for place in range(len(self.summaries))])
        output = np.array([self._output(place) for place in range(len(self.summaries))])
        ax.plot(latency, output, "o", color="0.7", ms=5, label="points")
        front = self.front
        ax.plot(latency[front], output[front], "o-", color="C0", ms=6, label="Pareto front")
        for place in front[:12]:
            ax.annotate(
                self._named(place),
                (latency[place], output[place]),
                xytext=(4, 4),
                textcoords="offset points",
                fontsize=7,
            )
        ax.set(xlabel=f"{self.latency.label}, s", ylabel=f"{self.output} per accelerator, requests/s")
        if np.nanmax(latency) > _LOG_RANGE * np.nanmin(latency):
            ax.set_xscale("log")
        ax.margins(x=0.15, y=0.1)
        ax.legend(frameon=False, fontsize=8)
        return ax

    def _latency(self, place: int) -> float:
        value = self.summaries[place][self.latency.metric][self.latency.part]
        return math.inf if value is None else value

    def _output(self, place: int) -> float:
        value = self.summaries[place][f"{self.output}_requests_per_s"]
        return (value or 0.0) / self.accelerators[place]

    def _named(self, place: int) -> str:
        values = self.values[place]
        return ", ".join(f"{key.rpartition('.')[2]}={_cell(values[key])}" for key in self.keys)


def sweep(
    scenario: Scenario,
    vary: Mapping[str, Sequence[Any]],
    *,
    how: Literal["grid", "zip"] = "grid",
    latency: str = "ttft_s.p99",
    statistics: Sequence[str] = (),
    ray: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> SweepAnswer:
    """Simulate a scenario under all combinations of values of some keys.

    Args:
        scenario: the base; it says how many seeds each point has.
        vary: plain data by key, such as `{"scheduler.max_num_batched_tokens": [512, 1024]}`; a value may be a whole
            section (`{"workload.arrivals": [{"kind": "poisson", "rate": 4.0}, ...]}`).
        how: `grid` takes every combination; `zip` the first values together, then the second ones, and so on.
        latency: the latency of the Pareto front; the other axis is goodput per accelerator (throughput without an SLO).
        statistics: columns of the table beside the usual ones, such as `ttft_s.p99.9`.
        ray: run the points on a Ray cluster (`pip install 'jaxsim-serving[ray]'`): its address, or `local`.
        progress: as in `run`.

    Returns:
        The summaries. After Ctrl-C those of the points that had finished.

    Raises:
        ScenarioError: a key or value that is not valid, before anything is simulated.
        ValueError: nothing to vary, or lists of different length to zip.
        KeyboardInterrupt: interrupted before any point had finished.
    """
    front_latency = Statistic.parse(latency)
    if not front_latency.is_latency:
        raise ValueError(f"latency must be a statistic of a latency, such as ttft_s.p99, not {latency!r}")
    columns = list(dict.fromkeys([*map(Statistic.parse, (*STATISTICS, *statistics)), front_latency]))
    percentiles = percentiles_of(columns)
    points = _points(vary, how)
    scenarios = [changed(scenario, values) for values in points]
    simulate = _on_ray(ray) if ray else _here
    finished: dict[int, Summary] = {}
    try:
        for block, summaries in simulate(scenarios, percentiles):
            finished |= dict(zip(block, summaries, strict=True))
            if progress:
                progress(len(finished) / len(scenarios))
    except KeyboardInterrupt:
        if not finished:
            raise
    done = sorted(finished)
    return SweepAnswer(
        keys=tuple(vary),
        values=tuple(points[place] for place in done),
        summaries=tuple(finished[place] for place in done),
        accelerators=tuple(accelerators_of(scenarios[place]) for place in done),
        latency=front_latency,
        statistics=tuple(columns),
        points=len(points),
    )


def accelerators_of(scenario: Scenario) -> int:
    """Accelerators of the fleet."""
    return sum(group.count * ranks_of(group.latency) for group in scenario.cluster.instances)


def ranks_of(latency: Any) -> int:
    """Accelerators that an instance runs on, as its latency model says."""
    names = ("tensor_parallel", "pipeline_parallel")
    return math.prod(int(getattr(latency, name, 1) or 1) for name in names)


def _points(vary: Mapping[str, Sequence[Any]], how: str) -> list[dict[str, Any]]:
    if not vary or not all(len(values) for values in vary.values()):
        raise ValueError("vary must name at least one key with values, such as {'scheduler.max_num_seqs': [64, 128]}")
    if how not in ("grid", "zip"):
        raise ValueError(f"how must be grid or zip, not {how!r}")
    lengths = {key: len(values) for key, values in vary.items()}
    if how == "zip" and len(set(lengths.values())) > 1:
        raise ValueError(f"to be zipped, all keys must have equally many values, not {lengths}")
    combinations = itertools.product(*vary.values()) if how == "grid" else zip(*vary.values(), strict=True)
    return [dict(zip(vary, values, strict=True)) for values in combinations]


def _blocks(scenarios: Sequence[Scenario]) -> list[list[int]]:
    """Places of the points of each task."""
    blocks: list[list[int]] = [[]]
    held = 0
    for place, scenario in enumerate(scenarios):
        size = size_of(scenario) * scenario.monte_carlo.seeds
        if held and held + size > _BLOCK_REQUESTS:
            blocks.append([])
            held = 0
        blocks[-1].append(place)
        held += size
    return blocks


Simulate = Callable[[Sequence[Scenario], Percentiles], Iterator[tuple[Sequence[int], Sequence[Summary]]]]
"""Summaries of some of the scenarios at a time, with their places."""


def _here(scenarios: Sequence[Scenario], percentiles: Percentiles) -> Iterator[tuple[Sequence[int], Sequence[Summary]]]:
    for place, result in enumerate(run_each(scenarios, percentiles=percentiles)):
        yield [place], [result.summary]


def _on_ray(address: str) -> Simulate:
    """Blocks as tasks of a Ray cluster, each on one core; they come as they finish."""
    try:
        import ray
    except ImportError:
        raise ValueError("sweeps on Ray need it: pip install 'jaxsim-serving[ray]'") from None

    def simulate(
        scenarios: Sequence[Scenario], percentiles: Percentiles
    ) -> Iterator[tuple[Sequence[int], Sequence[Summary]]]:
        blocks = _blocks(scenarios)
        started = not ray.is_initialized()
        if started:
            ray.init(address=None if address == "local" else address, include_dashboard=False, log_to_driver=False)
        try:
            task = ray.remote(num_cpus=1)(_summaries)
            waiting = {
                task.remote([dump_scenario(scenarios[place]) for place in block], dict(percentiles)): block
                for block in blocks
            }
            while waiting:
                (done, *_), _ = ray.wait(list(waiting))
                yield waiting.pop(done), ray.get(done)
        finally:
            if started:
                ray.shutdown()

    return simulate


def _summaries(scenarios: Sequence[Mapping[str, Any]], percentiles: Percentiles) -> list[Summary]:
    """What one task simulates: plain data in and out."""
    parsed = [parse_scenario(data) for data in scenarios]
    return [result.summary for result in run_many(parsed, devices=1, percentiles=percentiles)]


def _cell(value: Any) -> Any:
    """A value as a cell of a table: sections and lists as JSON."""
    return json.dumps(value) if isinstance(value, Mapping | list | tuple) else value
