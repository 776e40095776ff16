"""The answer of `jaxsim.ratio`: every fleet that the budget pays for, and which bears the most."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.analysis.promises import Margin
from jaxsim.analysis.saturation import Saturation
from jaxsim.analysis.splits import Part, Split
from jaxsim.metrics.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Look = Literal["fine", "rough", "bound"]

_COLOURS = {"prefill": "#3f74d1", "link": "#8e5bb5", "decode": "#3a9c85", "colocated": "#c65032"}
_STYLES: Mapping[Look, Mapping[str, Any]] = {
    "fine": {"fmt": "o", "ms": 8},
    "rough": {"fmt": "o", "ms": 8, "mfc": "white", "mew": 1.5},
    "bound": {"fmt": "v", "ms": 4, "alpha": 0.6},
}


@dataclass(frozen=True, eq=False)
class RatioPoint:
    """One fleet.

    Attributes:
        split: how the budget is spent.
        look: how closely it was looked at: `fine`; `rough`, at a few rates; `bound`, not simulated, because it bears
            less in the mean than another was found to bear.
        rate_per_s: highest rate that keeps the SLO; None if it is not known, or no rate does.
        interval: its 95 % interval.
        binding: the promise that breaks above it, or at every rate; None if none does.
        saturation: what gives way first; None if it was not simulated.
    """

    split: Split
    look: Look
    rate_per_s: float | None = None
    interval: Interval | None = None
    binding: Margin | None = None
    saturation: Saturation | None = None

    @property
    def order(self) -> float:
        """To sort by: the rate, 0 without one."""
        return self.rate_per_s or 0.0

    @property
    def height(self) -> float:
        """In the picture: the rate, or what it bears at most in the mean if it was not simulated."""
        return self.split.bound_per_s if self.look == "bound" else self.order

    @property
    def side(self) -> str:
        """Which side of a split gives way first: as was found, or the one that bears the least in the mean."""
        if self.saturation is None or self.saturation.bottleneck == "prefill memory":  # held up by what comes after it
            return self.split.bound_by
        return self.saturation.side

    @property
    def loads(self) -> dict[Part, float]:
        """The rate over what each part of the fleet bears in the mean; empty without a rate."""
        return {part: self.rate_per_s / limit for part, limit in self.split.limits_per_s.items() if self.rate_per_s}

    @property
    def figure(self) -> str:
        """`41.2 requests/s (40.1 to 42.3)`."""
        if self.rate_per_s is None:
            return "no rate"
        interval = f" ({self.interval.low:.4g} to {self.interval.high:.4g})" if self.interval else ""
        return f"{self.rate_per_s:.4g} requests/s{interval}"

    @property
    def sentence(self) -> str:
        """What it bears, what breaks then and why."""
        names = {"unified": "instances", "link": "links", "prefill": "prefill instances", "decode": "decode instances"}
        why = f": {self.saturation.sentence}" if self.saturation else ""
        if self.look == "bound":
            return f"{self.split.label} was not simulated; it bears {self.split.bound_per_s:.4g} requests/s at most."
        if self.binding is None:
            full = self.order >= self.split.stable_per_s
            why = f"{names[self.split.bound_by]} bear no more in the mean" if full else "no more was tried"
            return f"{self.split.label} keeps the SLO up to {self.figure}; {why}."
        if self.rate_per_s is None:
            return f"{self.split.label} keeps {self.binding.label} at no rate{why}."
        loads = ", ".join(f"{names[part]} {load:.0%}" for part, load in self.loads.items() if load >= 0.005)
        return (
            f"{self.split.label} bears {self.figure}; above it {self.binding.label} breaks{why}. "
            f"Loads, by the mean field: {loads}."
        )

    @property
    def row(self) -> Row:
        """As a row of the table."""
        split, loads = self.split, self.loads
        low, high = self.interval or (None, None)
        return {
            "prefill": split.count("prefill"),
            "decode": split.count("decode"),
            "colocated": split.count("unified"),
            "layout": ":".join(map(str, split.layouts)),
            "chunk_tokens": split.chunk_tokens,
            "look": self.look,
            "bound_per_s": split.bound_per_s,
            "rate_per_s": self.rate_per_s,
            "rate_per_s_low": low,
            "rate_per_s_high": high,
            "rate_per_accelerator": None if self.rate_per_s is None else self.rate_per_s / split.accelerators,
            "binding": self.binding.promise.name if self.binding else None,
            "gives_way": self.saturation.bottleneck if self.saturation else split.bound_by,
            "prefill_load_share": loads.get("prefill", loads.get("unified")),
            "link_load_share": loads.get("link"),
            "decode_load_share": loads.get("decode", loads.get("unified")),
        }


@dataclass(frozen=True, eq=False)
class RatioAnswer(Answer):
    """How to spend a budget of accelerators.

    Attributes:
        accelerators: the budget.
        points: every fleet, those that bear the most first; those that were not simulated at the end.
        precision: what was asked for.
        bias: largest correction of the rates of the best for the length of the seeds, relative to them; what is left
            is a fraction of it. None if terminating.
        num_requests: requests of each seed.
        simulated_requests: of all runs.
    """

    question: ClassVar[str] = "ratio"

    accelerators: int
    points: tuple[RatioPoint, ...]
    precision: float
    bias: float | None
    num_requests: int
    simulated_requests: int
    warnings: tuple[str, ...] = ()
    incomplete: bool = False

    @property
    def best(self) -> RatioPoint:
        """The best of the splits into prefill and decode instances."""
        return next(point for point in self.points if not point.split.is_colocated)

    @property
    def colocated(self) -> RatioPoint | None:
        """The best fleet of instances that do both; None if no such instance fits the budget."""
        return next((point for point in self.points if point.split.is_colocated), None)

    @property
    def gain(self) -> tuple[float, Interval | None] | None:
        """By which share the best split bears more than the best colocated fleet, with its 95 % interval.

        The interval takes both rates for independent. They are from the same requests, so it is rather too wide.
        """
        split, whole = self.best, self.colocated
        if whole is None or split.rate_per_s is None or whole.rate_per_s is None:
            return None
        ratio = split.rate_per_s / whole.rate_per_s
        if split.interval is None or whole.interval is None:
            return ratio - 1, None
        ends = ((point.interval, point.rate_per_s) for point in (split, whole))
        half = ratio * math.hypot(*((ci.high - ci.low) / 2 / rate for ci, rate in ends if ci and rate))
        return ratio - 1, Interval(ratio - 1 - half, ratio - 1 + half)

    @property
    def sentences(self) -> list[str]:
        """See `Answer`."""
        points = [point for point in (self.best, self.colocated) if point is not None]
        return [self._verdict, *(point.sentence for point in sorted(points, key=lambda point: -point.order))]

    @property
    def _verdict(self) -> str:
        split, whole = self.best, self.colocated
        if self.gain is None:
            if (untold := next((p for p in (split, whole) if p is not None and p.look == "bound"), None)) is not None:
                return f"No answer: {untold.split.label} was not simulated."
            if split.rate_per_s is not None:
                return f"{split.split.label} is best: {split.figure}."
            if whole is not None and whole.rate_per_s is not None:
                return f"Disaggregation does not pay: {whole.split.label} bears {whole.figure}, no split keeps the SLO."
            return f"No use of {self.accelerators} accelerators keeps the SLO."
        change, interval = self.gain
        than = f"{abs(change):.0%} {'more' if change > 0 else 'fewer'} requests than colocated instances"
        if interval is not None:
            than += f" ({interval.low:+.0%} to {interval.high:+.0%})"
            if interval.low <= 0 <= interval.high:
                return f"Disaggregation makes no sure difference: {split.split.label} bears {than}."
        if change > 0:
            return f"Disaggregation pays: {split.split.label} bears {than}."
        return f"Disaggregation does not pay: the best split, {split.split.label}, bears {than}."

    @property
    def facts(self) -> dict[str, Any]:
        """See `Answer`."""
        gain, interval = self.gain or (None, None)
        return {
            "accelerators": self.accelerators,
            "best": self.best.row,
            "colocated": self.colocated.row if self.colocated else None,
            "gain": gain,
            "gain_ci": interval,
            "precision": self.precision,
            "drift_bias": self.bias,
            "num_requests": self.num_requests,
            "simulated_requests": self.simulated_requests,
        }

    @property
    def rows(self) -> list[Row]:
        """A row per fleet."""
        return [point.row for point in self.points]

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The highest rate over the share of accelerators that prefill, coloured by the side that gives way first.

        Hollow points are from few rates; triangles are what fleets that were not simulated bear in the mean at most.
        The best colocated fleet is a line across.
        """
        ax = new_axes(ax)
        splits = [point for point in self.points if not point.split.is_colocated]
        layouts = list(dict.fromkeys(point.split.layouts for point in splits))
        for layout in layouts:
            line = sorted((p.split.prefill_share, p.height) for p in splits if p.split.layouts == layout)
            ax.plot(*zip(*line, strict=True), color="0.8", lw=1.2, zorder=1)
            if len(layouts) > 1:
                name = f"{layout[0]} prefill, {layout[1]} decode"
                where = max(line, key=lambda end: end[1])
                ax.annotate(name, where, (0, 8), textcoords="offset points", fontsize=7, color="0.4", ha="center")
        for point in splits:
            low, high = (point.interval if point.look == "fine" else None) or (point.height, point.height)
            errors = [[max(point.height - low, 0.0)], [max(high - point.height, 0.0)]]
            colour = _COLOURS[point.side]
            ax.errorbar(point.split.prefill_share, point.height, errors, color=colour, **_STYLES[point.look])
        for side in dict.fromkeys(point.side for point in splits):
            ax.plot([], [], "o", ms=6, color=_COLOURS[side], label=f"{side} gives way")
        if any(point.look == "bound" for point in splits):
            ax.plot([], [], "v", ms=4, color="0.6", label="not simulated: at most, in the mean")
        if (whole := self.colocated) is not None and whole.rate_per_s is not None:
            ax.axhline(whole.rate_per_s, color=_COLOURS["colocated"], ls="--", label=whole.split.label)
            if whole.interval is not None:
                ax.axhspan(*whole.interval, color=_COLOURS["colocated"], alpha=0.12, lw=0)
        ax.set(ylabel="highest rate under the SLO, requests/s", ylim=(0, None), xlim=(0, 1))
        ax.set_xlabel("share of the accelerators that prefill")
        if len(layouts) == 1 and len(splits) <= 12:
            names = [f"{p.split.count('prefill')}:{p.split.count('decode')}" for p in splits]
            ax.set_xticks([point.split.prefill_share for point in splits], names)
            ax.set_xlabel("prefill : decode instances")
        ax.legend(frameon=False, fontsize=8)
        return ax


def sorted_points(points: list[RatioPoint]) -> tuple[RatioPoint, ...]:
    """By rate; those that were not simulated last, by what they bear in the mean."""
    return tuple(sorted(points, key=lambda p: (p.look == "bound", -p.order, -p.split.bound_per_s)))
