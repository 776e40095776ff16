"""Pictures of a run with matplotlib (`pip install 'jaxsim-serving[plots]'`), which is loaded when one is drawn."""

import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jaxsim.metrics.breakdown import PHASES, breakdown
from jaxsim.metrics.occupancy import occupancy
from jaxsim.metrics.per_request import latencies
from jaxsim.metrics.percentile_curve import PercentileCurve, percentile_curve
from jaxsim.metrics.request_table import RequestTable
from jaxsim.metrics.tail import CAUSES, TailMetric, tail

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "E2E", "queue_s": "queue"}

Metric = Literal["ttft_s", "tpot_s", "e2e_s", "queue_s"]
Phase = Literal["ttft_s", "e2e_s"]

_COLOURS = {
    "queue": "#dc8a1e",
    "prefill": "#3f74d1",
    "handover": "#8e5bb5",
    "decode": "#3a9c85",
    "slow": "#c65032",
    "all": "#b7b3aa",
}
_NINES = {0.5: "P50", 0.9: "P90", 0.99: "P99", 0.999: "P99.9", 0.9999: "P99.99"}


class Plots:
    """What `Result.plot` offers: each method draws on `ax`, or on a new figure, and returns the axes.

    Args:
        table: the requests.
        summary: as in `summary.json`.
        warmup: requests at the start of each seed that are not measured.
    """

    def __init__(self, table: RequestTable, summary: Mapping[str, Any], warmup: int) -> None:
        self._table = table
        self._summary = summary
        self._warmup = warmup

    def cdf(self, metrics: Sequence[Metric] = ("ttft_s", "tpot_s", "e2e_s"), ax: "Axes | None" = None) -> "Axes":
        """Share of the requests by latency in seconds, with confidence bands.

        Args:
            metrics: what to draw.
            ax: where to.

        Raises:
            ValueError: an unknown metric.
            ImportError: matplotlib is not installed.
        """
        ax = new_axes(ax)
        for place, metric in enumerate(metrics):
            curve = self._curve(metric)
            ax.plot(curve.value, curve.share, color=f"C{place}", label=LABELS[metric])
            ax.fill_betweenx(curve.share, curve.low, curve.high, color=f"C{place}", alpha=0.2, lw=0)
        ax.set(xscale="log", xlabel="seconds", ylabel="share of requests", ylim=(0, 1))
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)
        return ax

    def percentiles(self, metric: Metric = "ttft_s", ax: "Axes | None" = None) -> "Axes":
        """Latency by percentile, in nines, so that the tail is wide; limits of the SLO as dashed lines.

        Args:
            metric: what to draw.
            ax: where to.

        Raises:
            ValueError: an unknown metric.
            ImportError: matplotlib is not installed.
        """
        ax = new_axes(ax)
        curve = self._curve(metric)
        nines = -np.log10(1 - curve.share)
        ax.plot(nines, curve.value, color="C0")
        ax.fill_between(nines, curve.low, curve.high, color="C0", alpha=0.2, lw=0)
        for verdict in self._summary["slo_verdicts"]:
            if verdict["metric"] == metric:
                ax.axhline(verdict["limit"], color="C3", ls="--", lw=1)
                label = f"{verdict['statistic']} ≤ {verdict['limit']:g} s"
                ax.annotate(label, (0, verdict["limit"]), xytext=(2, 3), textcoords="offset points", color="C3")
        last = nines[-1] if len(nines) else 1.0
        marks = [(share, name) for share, name in _NINES.items() if -np.log10(1 - share) <= last + 1e-9]
        ax.set_xticks([-np.log10(1 - share) for share, _ in marks], [name for _, name in marks])
        ax.set(yscale="log", ylabel=f"{LABELS[metric]}, seconds", xlim=(0, max(last, 1e-3)))
        ax.grid(alpha=0.3)
        return ax

    def breakdown(self, metric: Phase = "ttft_s", ax: "Axes | None" = None) -> "Axes":
        """Mean seconds in queue, prefill and (for `e2e_s`) hand-over and decode of fast and slow requests.

        Args:
            metric: the latency that tells fast from slow.
            ax: where to.

        Raises:
            ValueError: another metric than `ttft_s` and `e2e_s`.
            ImportError: matplotlib is not installed.
        """
        groups = breakdown(self._table, metric, self._warmup)
        ax = new_axes(ax, height=3.2)
        left = np.zeros(len(groups))
        names = [f"P{group.low * 100:g} to P{group.high * 100:g}" for group in groups]
        for phase in PHASES[: 2 if metric == "ttft_s" else 4]:
            widths = np.array([getattr(group, f"{phase}_s") for group in groups])
            if phase == "handover" and not widths.any():
                continue
            ax.barh(names, widths, left=left, color=_COLOURS[phase], label=phase)
            left += widths
        ax.invert_yaxis()
        ax.set(xlabel=f"mean {LABELS[metric]}, seconds")
        ax.legend(frameon=False)
        return ax

    def timeline(self, seed_index: int = 0, instance: int | None = None, ax: "Axes | None" = None) -> "Axes":
        """Running and waiting requests over the time of one seed.

        Args:
            seed_index: which of the seeds, from 0.
            instance: only this instance; the whole fleet by default.
            ax: where to.

        Raises:
            IndexError: there are fewer seeds.
            ImportError: matplotlib is not installed.
        """
        found = occupancy(self._table, seed_index, instance)
        ax = new_axes(ax, height=3.2)
        for values, name, colour in ((found.running, "running", "prefill"), (found.waiting, "waiting", "queue")):
            ax.fill_between(found.time_s, values, step="post", color=_COLOURS[colour], alpha=0.25, lw=0)
            ax.step(found.time_s, values, where="post", color=_COLOURS[colour], lw=1, label=name)
        ax.set(xlabel="seconds", ylabel="requests", ylim=(0, None))
        ax.margins(x=0)
        ax.legend(frameon=False)
        return ax

    def tail(self, metric: TailMetric = "ttft_s", ax: "Axes | None" = None) -> "Axes":
        """What the slowest 1 % of the requests have more often than all.

        Args:
            metric: by which they are slow: `ttft_s`, `tpot_s` or `e2e_s`.
            ax: where to.

        Raises:
            ValueError: an unknown metric.
            ImportError: matplotlib is not installed.
        """
        found = tail(self._table, metric, self._warmup)
        ax = new_axes(ax, width=9.0)
        causes = [cause for cause in found.causes if cause.slow_share or cause.share]
        places = np.arange(len(causes))
        ax.barh(
            places - 0.2, [cause.slow_share for cause in causes], 0.4, color=_COLOURS["slow"], label="slow requests"
        )
        ax.barh(places + 0.2, [cause.share for cause in causes], 0.4, color=_COLOURS["all"], label="all requests")
        ax.set_yticks(places, [textwrap.fill(CAUSES[cause.name], 42) for cause in causes])
        ax.invert_yaxis()
        slow = f"{found.count:,} of {found.measured:,} requests with {LABELS[metric]} of {found.limit_s:.3g} s or more"
        ax.set(xlim=(0, 1), xlabel=f"share; slow are {slow}")
        ax.legend(frameon=False)
        return ax

    def save(self, directory: str | os.PathLike[str], format: Literal["png", "svg", "pdf"] = "png") -> list[Path]:
        """Write every picture into a folder, made if need be.

        Args:
            directory: the folder.
            format: of the files.

        Returns:
            The files.

        Raises:
            ImportError: matplotlib is not installed.
        """
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        drawn = {
            "cdf": self.cdf(),
            "percentiles_ttft": self.percentiles("ttft_s"),
            "percentiles_tpot": self.percentiles("tpot_s"),
            "percentiles_e2e": self.percentiles("e2e_s"),
            "breakdown_ttft": self.breakdown("ttft_s"),
            "breakdown_e2e": self.breakdown("e2e_s"),
            "timeline": self.timeline(),
            "tail_ttft": self.tail("ttft_s"),
            "tail_tpot": self.tail("tpot_s"),
        }
        written = []
        for name, ax in drawn.items():
            written.append(folder / f"{name}.{format}")
            figure: Any = ax.figure
            metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[format]
            figure.savefig(written[-1], dpi=150, metadata=metadata)
        return written

    def _curve(self, metric: Metric) -> PercentileCurve:
        if metric not in LABELS:
            raise ValueError(f"metric must be one of {', '.join(LABELS)}, not {metric!r}")
        values = latencies(self._table.block(requests=slice(self._warmup, None)))[metric]
        batches = self._summary["ci_method"] != "replications"
        return percentile_curve(values, batches=batches, confidence=self._summary["ci_confidence"])


def new_axes(ax: "Axes | None", width: float = 7.0, height: float = 4.2) -> "Axes":
    """`ax`, or the axes of a new figure in the house style."""
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=(width, height), layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax
