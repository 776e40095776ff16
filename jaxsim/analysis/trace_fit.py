"""A synthetic workload that behaves like a trace."""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.analysis.trace_fits import GOOD_KS, ArrivalFit, LengthFit, fit_arrivals, fit_lengths
from jaxsim.analysis.trace_stats import WINDOWS_S, dispersion, rank_correlation, telling
from jaxsim.config.reader import plain
from jaxsim.config.text import dump_yaml
from jaxsim.result import replacing
from jaxsim.workload import Synthetic, Trace
from jaxsim.workload.arrivals import Poisson
from jaxsim.workload.joint import Correlated, Pairs
from jaxsim.workload.trace import Rows
from jaxsim.workload.trace.jaxsim_csv import write_lengths

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INDEPENDENT = 0.05
"""Rank correlation below which lengths are drawn independently; below 2/sqrt(N) it may be noise, too."""

_MOST_DRAWN = 20_000
_SEEDS = 4


@dataclass(frozen=True, eq=False)
class TraceFitAnswer(Answer):
    """A synthetic workload and how it compares with the trace it was fitted to.

    Attributes:
        path: the trace.
        workload: the fitted workload, for a scenario.
        arrival_fits: arrival processes that were tried, the chosen one first; empty: the trace has no arrivals.
        length_fits: the closest textbook distribution of `prompt_tokens` and `output_tokens`.
        trace: the requests of the trace.
    """

    question: ClassVar[str] = "trace_fit"

    path: str
    workload: Synthetic
    arrival_fits: tuple[ArrivalFit, ...]
    length_fits: Mapping[str, LengthFit]
    trace: Rows = field(repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def sentences(self) -> Sequence[str]:
        found = []
        if self.arrival_fits:
            chosen = self.arrival_fits[0]
            found.append(
                f"Arrivals: {chosen.arrivals.kind}; gaps KS {chosen.gap_ks:.2f}, "
                f"index of dispersion off by {math.expm1(chosen.dispersion_error):.0%} on average."
            )
        names = {name: f"{fit.lengths.kind} (KS {fit.ks:.2f})" for name, fit in self.length_fits.items()}
        closest = f"prompt {names['prompt_tokens']}, output {names['output_tokens']}"
        if isinstance(self.workload.lengths, Pairs):
            found.append(
                f"Lengths: pairs resampled from the trace; the closest distributions are not close: {closest}."
            )
        elif isinstance(self.workload.lengths, Correlated):
            found.append(f"Lengths: {closest}, normal scores correlated by {self.workload.lengths.correlation:.2f}.")
        else:
            found.append(f"Lengths: {closest}, independent.")
        return found

    @property
    def facts(self) -> Mapping[str, Any]:
        return {
            "path": self.path,
            "arrivals": [
                {
                    "kind": fit.arrivals.kind,
                    "gap_ks": fit.gap_ks,
                    "dispersion_error": fit.dispersion_error,
                }
                for fit in self.arrival_fits
            ],
            "lengths": {name: {"kind": fit.lengths.kind, "ks": fit.ks} for name, fit in self.length_fits.items()},
        }

    @property
    def rows(self) -> Sequence[Row]:
        """Statistics of the trace beside those of draws from the workload."""
        count = min(self.workload.num_requests, _MOST_DRAWN)
        drawn = dataclasses.replace(self.workload, num_requests=count).draw(np.arange(_SEEDS))
        found: list[Row] = []

        def compare(name: str, recorded: float, fitted: float) -> None:
            change = fitted / recorded - 1 if recorded > 0 else None
            found.append({"statistic": name, "trace": float(recorded), "fit": float(fitted), "relative_change": change})

        if self.arrival_fits and self.trace.arrival_s is not None:
            recorded_s, lanes_s = self.trace.arrival_s, drawn.arrival_s
            gap_s, drawn_gap_s = np.diff(recorded_s), np.diff(lanes_s, axis=1)
            compare("rate (requests/s)", 1 / gap_s.mean(), 1 / drawn_gap_s.mean())
            compare("gap cv", gap_s.std() / gap_s.mean(), drawn_gap_s.std() / drawn_gap_s.mean())
            for window in telling(WINDOWS_S, len(recorded_s), float(recorded_s[-1] - recorded_s[0])):
                fitted = np.nanmean([dispersion(lane, window) for lane in lanes_s])
                compare(f"dispersion in {window:g} s", dispersion(recorded_s, window), float(fitted))
        for name in ("prompt_tokens", "output_tokens"):
            recorded, fitted = getattr(self.trace, name), getattr(drawn, name)
            compare(f"{name} mean", recorded.mean(), fitted.mean())
            for percent in (50, 90, 99):
                compare(f"{name} p{percent}", np.percentile(recorded, percent), np.percentile(fitted, percent))
        ranks = [rank_correlation(of.prompt_tokens.ravel(), of.output_tokens.ravel()) for of in (self.trace, drawn)]
        found.append({"statistic": "rank correlation", "trace": ranks[0], "fit": ranks[1], "relative_change": None})
        return found

    def to_yaml(self) -> str:
        """The workload as a section of a scenario file, with what was found in comments."""
        comments = [f"Fitted to {self.path} by jaxsim trace fit.", *self.sentences]
        given = {key: value for key, value in plain(self.workload).items() if value is not None}
        return "".join(f"# {line}\n" for line in comments) + dump_yaml({"workload": given})

    def save(self, directory: str | os.PathLike[str], table: Literal["csv", "parquet"] = "csv") -> list[Path]:
        """Write `workload.yaml` beside the files of every answer, and `lengths.csv` if lengths are resampled.

        Args:
            directory: the folder.
            table: format of the comparison.

        Returns:
            The files written.
        """
        written = super().save(directory, table)
        fitted, lengths = self, self.workload.lengths
        if isinstance(lengths, Pairs):
            written.insert(0, Path(directory) / "lengths.csv")
            with replacing(written[0]) as path, path.open("w", encoding="utf-8", newline="") as file:
                write_lengths(self.trace, file)
            workload = dataclasses.replace(self.workload, lengths=Pairs(path="lengths.csv"))
            fitted = dataclasses.replace(self, workload=workload)
        written.insert(0, Path(directory) / "workload.yaml")
        with replacing(written[0]) as path:
            path.write_text(fitted.to_yaml(), encoding="utf-8")
        return written

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the index of dispersion over windows, of the trace and of draws from the workload."""
        ax = new_axes(ax)
        rows = [row for row in self.rows if row["statistic"].startswith("dispersion")]
        windows_s = [float(row["statistic"].split()[-2]) for row in rows]
        for name in ("trace", "fit"):
            ax.plot(windows_s, [row[name] for row in rows], "o-", label=name)
        ax.axhline(1, color="grey", linewidth=0.8, label="Poisson")
        ax.set(xlabel="window (s)", ylabel="variance / mean of arrivals", title=self.sentences[0])
        if rows:
            ax.set(xscale="log", yscale="log")
        ax.legend(frameon=False)
        return ax


def fit_trace(trace: Trace) -> TraceFitAnswer:
    """A synthetic workload that reproduces the rate, burstiness, lengths and correlation of a trace.

    The arrival process is chosen by its draws (`trace_fits.fit_arrivals`). Lengths come from textbook distributions if
    both are within a Kolmogorov-Smirnov distance of 0.05 of the data, tied by a Gaussian copula if they are correlated;
    else pairs of prompt and output are resampled.

    Args:
        trace: what to fit; read with the options of the component.

    Raises:
        TraceError: the file cannot be used.
    """
    rows = trace.read(timeless=True)
    warnings = list(rows.notices)
    arrival_s = rows.arrival_s
    fits: tuple[ArrivalFit, ...] = ()
    if arrival_s is not None and arrival_s[-1] > arrival_s[0]:
        fits = tuple(fit_arrivals(arrival_s))
    else:
        why = "does not say when requests arrive" if arrival_s is None else "has all requests at one time"
        warnings.append(f"{trace.path} {why}: set the arrivals yourself; Poisson at 1 request/s stands in")
    closest = {name: fit_lengths(getattr(rows, name))[0] for name in ("prompt_tokens", "output_tokens")}
    return TraceFitAnswer(
        path=trace.path,
        workload=Synthetic(
            num_requests=len(rows.row),
            arrivals=fits[0].arrivals if fits else Poisson(rate=1.0),
            **_lengths(rows, closest, trace),
        ),
        arrival_fits=fits,
        length_fits=closest,
        trace=rows,
        warnings=tuple(warnings),
    )


def _lengths(rows: Rows, closest: Mapping[str, LengthFit], trace: Trace) -> dict[str, Any]:
    """The fields of `Synthetic` about lengths."""
    if max(fit.ks for fit in closest.values()) > GOOD_KS:
        return {"lengths": Pairs(path=trace.path, on_invalid=trace.on_invalid)}
    marginals: dict[str, Any] = {name: fit.lengths for name, fit in closest.items()}
    rank = rank_correlation(rows.prompt_tokens, rows.output_tokens)
    if abs(rank) < max(_INDEPENDENT, 2 / math.sqrt(len(rows.row))):
        return marginals
    correlation = round(2 * math.sin(math.pi / 6 * rank), 3)
    return {"lengths": Correlated(correlation=correlation, **marginals)}
