"""What is in a trace: how requests arrive, how long they are, what they share."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.analysis.trace_fits import GOOD_KS, GapFit, LengthFit, fit_gaps, fit_lengths
from jaxsim.analysis.trace_stats import (
    WINDOWS_S,
    PrefixSharing,
    counts_per_window,
    dispersion,
    prefix_sharing,
    rank_correlation,
    telling,
)
from jaxsim.workload import Trace
from jaxsim.workload.trace import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PERCENTILES = (1, 25, 50, 75, 90, 95, 99)
_LIKE_POISSON = 1.3
"""Index of dispersion up to which arrivals are called Poisson; 20 windows of Poisson arrivals pass 4 times in 5."""


@dataclass(frozen=True, eq=False)
class TraceAnswer(Answer):
    """The statistics of a trace.

    Attributes:
        path: the file.
        requests: valid requests.
        span_s: seconds from the first arrival to the last; None if the file has no arrivals, as in the following.
        rate_per_s: requests per second.
        gap_cv: coefficient of variation of the gaps between arrivals.
        simultaneous_share: share of requests that arrive together with the one before.
        dispersion: index of dispersion of arrivals by window in seconds.
        peak_per_s: highest rate by window in seconds.
        correlation: rank (Spearman) correlation of prompt and output.
        gap_fits: renewal processes and their distance from the gaps, the closest first.
        length_fits: distributions and their distance, the closest first, by `prompt_tokens` and `output_tokens`.
        prefixes: shared prefixes, where the trace names them.
        classes: requests by class, if the trace has classes.
        sessions: how many there are, if the trace has sessions.
        trace: the requests themselves.
    """

    question: ClassVar[str] = "trace"

    path: str
    requests: int
    span_s: float | None
    rate_per_s: float | None
    gap_cv: float | None
    simultaneous_share: float | None
    dispersion: Mapping[float, float]
    peak_per_s: Mapping[float, float]
    correlation: float
    gap_fits: tuple[GapFit, ...]
    length_fits: Mapping[str, tuple[LengthFit, ...]]
    prefixes: PrefixSharing | None
    classes: Mapping[str, int]
    sessions: int | None
    trace: Rows = field(repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def sentences(self) -> Sequence[str]:
        found = [self._arrivals()]
        if self.dispersion:
            shown = ", ".join(f"{index:.3g} in {window:g} s" for window, index in self.dispersion.items())
            poisson = max(self.dispersion.values()) <= _LIKE_POISSON
            found.append(
                f"{'Like Poisson' if poisson else 'Bursty'}: variance/mean of arrivals is {shown} (Poisson: 1)."
            )
        found.append(f"Prompt and output lengths have a rank correlation of {self.correlation:.2f}.")
        poor = [name.removesuffix("_tokens") for name, fits in self.length_fits.items() if fits[0].ks > GOOD_KS]
        if poor:
            found.append(
                f"No textbook distribution is close to the {' and '.join(poor)} lengths (KS over {GOOD_KS:g}): "
                "resample them, as `jaxsim trace fit` does."
            )
        if self.prefixes:
            found.append(
                f"{self.prefixes.shared_token_share:.1%} of prompt tokens are in a prefix that an earlier request had."
            )
        if self.classes:
            shown = ", ".join(f"{name} {count / self.requests:.1%}" for name, count in self.classes.items())
            found.append(f"Classes: {shown}.")
        if self.sessions:
            found.append(f"{self.sessions:,} sessions, {self.requests / self.sessions:.3g} requests each.")
        return found

    def _arrivals(self) -> str:
        if self.span_s is None:
            return f"{self.requests:,} requests; the file does not say when they arrive."
        if not self.span_s:
            return f"{self.requests:,} requests, all at the same time."
        return (
            f"{self.requests:,} requests in {_duration(self.span_s)}: {self.rate_per_s:.4g} requests/s, "
            f"gaps with a coefficient of variation of {self.gap_cv:.3g}."
        )

    @property
    def facts(self) -> Mapping[str, Any]:
        return {
            "path": self.path,
            "requests": self.requests,
            "span_s": self.span_s,
            "rate_per_s": self.rate_per_s,
            "gap_cv": self.gap_cv,
            "simultaneous_share": self.simultaneous_share,
            "dispersion": {f"{window:g}": index for window, index in self.dispersion.items()},
            "peak_per_s": {f"{window:g}": rate for window, rate in self.peak_per_s.items()},
            "correlation": self.correlation,
            "gap_ks": {fit.arrivals.kind: fit.ks for fit in self.gap_fits},
            "length_ks": {name: {fit.lengths.kind: fit.ks for fit in fits} for name, fits in self.length_fits.items()},
            "prefixes": dataclasses.asdict(self.prefixes) if self.prefixes else None,
            "classes": dict(self.classes),
            "sessions": self.sessions,
        }

    @property
    def rows(self) -> Sequence[Row]:
        found = []
        if self.span_s and self.trace.arrival_s is not None:
            gap = self.gap_fits[0]
            found.append(_row("gap (s)", np.diff(self.trace.arrival_s), gap.arrivals.kind, gap.ks))
        for name, fits in self.length_fits.items():
            label = f"{name.removesuffix('_tokens')} (tokens)"
            found.append(_row(label, getattr(self.trace, name), fits[0].lengths.kind, fits[0].ks))
        return found

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the distribution functions of the lengths, as recorded and as the closest textbook distribution."""
        from jaxsim.workload.random import quantiles

        ax = new_axes(ax)
        for (name, fits), colour in zip(self.length_fits.items(), ("C0", "C1"), strict=True):
            label = name.removesuffix("_tokens")
            tokens = np.sort(getattr(self.trace, name))
            ax.step(tokens, np.arange(1, len(tokens) + 1) / len(tokens), where="post", color=colour, label=label)
            kind = fits[0].lengths.kind
            fitted = quantiles(fits[0].lengths.tokens(), 1000)
            share = np.arange(1, 1001) / 1000
            ax.plot(fitted, share, "--", color=colour, label=f"{kind}, KS {fits[0].ks:.2f}")
        ax.set(xscale="log", xlabel="tokens", ylabel="share of requests", title=self.sentences[0])
        ax.legend(frameon=False)
        return ax


def describe_trace(trace: Trace) -> TraceAnswer:
    """The statistics of a trace, read with the options of the component.

    Raises:
        TraceError: the file cannot be used.
    """
    rows = trace.read(timeless=True)
    counts = np.bincount(rows.class_index, minlength=len(rows.class_names))
    sessions = {rows.session[row] for row in rows.row} - {""} if rows.session else set()
    return TraceAnswer(
        path=trace.path,
        requests=len(rows.row),
        **_arrival_facts(rows.arrival_s),
        correlation=rank_correlation(rows.prompt_tokens, rows.output_tokens),
        length_fits={name: tuple(fit_lengths(getattr(rows, name))) for name in ("prompt_tokens", "output_tokens")},
        prefixes=prefix_sharing(rows.prefix_blocks, rows.prompt_tokens, rows.prefix_block_tokens)
        if rows.prefix_blocks is not None
        else None,
        classes={name: int(counts[place]) for place, name in enumerate(rows.class_names)},
        sessions=len(sessions) or None,
        trace=rows,
        warnings=rows.notices,
    )


def _arrival_facts(arrival_s: np.ndarray | None) -> dict[str, Any]:
    """The fields of `TraceAnswer` about arrivals."""
    span_s = None if arrival_s is None else float(arrival_s[-1] - arrival_s[0])
    facts: dict[str, Any] = dict.fromkeys(("rate_per_s", "gap_cv", "simultaneous_share"))
    facts |= {"span_s": span_s, "dispersion": {}, "peak_per_s": {}, "gap_fits": ()}
    if arrival_s is None or not span_s:
        return facts
    gap_s = np.diff(arrival_s)
    windows_s = telling(WINDOWS_S, len(arrival_s), span_s)
    return facts | {
        "rate_per_s": len(gap_s) / span_s,
        "gap_cv": float(gap_s.std() / gap_s.mean()),
        "simultaneous_share": float(np.mean(gap_s == 0)),
        "dispersion": {window: dispersion(arrival_s, window) for window in windows_s},
        "peak_per_s": {window: float(counts_per_window(arrival_s, window).max() / window) for window in windows_s},
        "gap_fits": tuple(sorted(fit_gaps(arrival_s), key=lambda fit: fit.ks)),
    }


def _row(quantity: str, values: np.ndarray, kind: str, ks: float) -> Row:
    percentiles = zip(_PERCENTILES, np.percentile(values, _PERCENTILES).tolist(), strict=True)
    return {
        "quantity": quantity,
        "mean": float(values.mean()),
        "cv": float(values.std() / values.mean()),
        "min": values.min().item(),
        **{f"p{percent}": value for percent, value in percentiles},
        "max": values.max().item(),
        "closest": kind,
        "ks": ks,
    }


def _duration(seconds: float) -> str:
    """`58 min 22 s`, in at most two units."""
    for unit, (size, smaller, name) in {"h": (3600, 60, "min"), "min": (60, 1, "s")}.items():
        if seconds >= size:
            whole, rest = divmod(round(seconds / smaller), size // smaller)
            return f"{whole} {unit} {rest} {name}"
    return f"{seconds:.3g} s"
