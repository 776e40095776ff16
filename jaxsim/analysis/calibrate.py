"""Latency models fitted to measurements of one's own machine, with their errors on samples left out."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from jaxsim._version import __version__
from jaxsim.analysis.answer import Answer, Row, new_axes
from jaxsim.analysis.fit_latency import Fit, Fitted, LinearFit, ResidualFit, RooflineFit
from jaxsim.analysis.latency_file import latency_yaml, tabulated
from jaxsim.analysis.samples import Samples
from jaxsim.config.schema import READER
from jaxsim.latency import Roofline
from jaxsim.result import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDS = 10
ENOUGH = 12
"""Samples below which a fit is called daring."""

_COLUMNS = {"model": "model", "hardware": "hardware", "tensor_parallel": "tp", "dtype": "dtype"}
"""Where a file of samples says what a parameter of a roofline is."""

Model = Literal["auto", "linear", "roofline", "residual"]


@dataclass(frozen=True, eq=False)
class CalibrateAnswer(Answer):
    """A fitted latency model.

    Attributes:
        samples: what it was fitted to.
        fit: how.
        fitted: the clock and its parameters.
        errors: relative errors of the clock on the samples, `[M]`.
        left_out_errors: relative errors on each sample of a clock that was fitted without it and a tenth of the others.
    """

    question: ClassVar[str] = "calibrate"

    samples: Samples
    fit: Fit
    fitted: Fitted
    errors: np.ndarray
    left_out_errors: np.ndarray
    warnings: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """Mean absolute error on samples left out."""
        return float(np.abs(self.left_out_errors).mean())

    @property
    def sentences(self) -> Sequence[str]:
        worst = max(self.rows[1:] or self.rows, key=lambda row: row["left_out_absolute_error"])
        what = "requests" if self.samples.of == "requests" else "samples"
        return [
            f"A {self.fit.name} clock is {self.error:.1%} off on {what} it was not fitted to "
            f"({np.mean(self.left_out_errors):+.1%} on average), {np.abs(self.errors).mean():.1%} on its own.",
            f"Worst: {worst['region']}, {worst['left_out_absolute_error']:.1%} "
            f"({worst['left_out_mean_error']:+.1%} on average).",
        ]

    @property
    def facts(self) -> Mapping[str, Any]:
        return {
            "model": self.fit.name,
            "samples": len(self.samples),
            "source": self.samples.source,
            "sha256": self.samples.sha256,
            "parameters": dict(self.fitted.parameters),
            "left_out_absolute_error": self.error,
        }

    @property
    def rows(self) -> Sequence[Row]:
        regions = self.samples.regions
        everywhere = {"all": np.ones(len(regions), bool)}
        found: list[Row] = []
        for region, here in (everywhere | {name: regions == name for name in np.unique(regions)}).items():
            left_out, own = self.left_out_errors[here], self.errors[here]
            found.append(
                {
                    "region": str(region),
                    "samples": int(here.sum()),
                    "left_out_absolute_error": float(np.abs(left_out).mean()),
                    "left_out_mean_error": float(left_out.mean()),
                    "left_out_worst_error": float(left_out[np.argmax(np.abs(left_out))]),
                    "fitted_absolute_error": float(np.abs(own).mean()),
                }
            )
        return found

    def to_yaml(self) -> str:
        """The latency as a section of a scenario file, with where it comes from in comments.

        Raises:
            ValueError: it is a residual, which only `save` can write: it needs a table beside it.
        """
        if isinstance(self.fit, ResidualFit):
            raise ValueError("a residual is a table in a file of its own; save it (--out)")
        return latency_yaml(self.fitted.latency, self._provenance)

    @property
    def _provenance(self) -> list[str]:
        what = f"{len(self.samples)} {'requests' if self.samples.of == 'requests' else 'samples'}"
        checksum = f" (SHA-256 {self.samples.sha256})" if self.samples.sha256 else ""
        return [
            f"Fitted by jaxsim calibrate {__version__} to {what} of {self.samples.source}{checksum}.",
            *self.sentences[:2],
        ]

    def save(self, directory: str | os.PathLike[str], table: Literal["csv", "parquet"] = "csv") -> list[Path]:
        """Write `latency.yaml` (and for a residual its table, `step_times.csv`) beside the files of every answer.

        Args:
            directory: the folder.
            table: format of the table of errors.

        Returns:
            The files written.
        """
        written = super().save(directory, table)
        latency = self.fitted.latency
        if isinstance(self.fit, ResidualFit):
            written.insert(0, Path(directory) / "step_times.csv")
            latency = tabulated(self.fitted.seconds, self.samples, written[0], "\n".join(self._provenance))
        written.insert(0, Path(directory) / "latency.yaml")
        with replacing(written[0]) as path:
            path.write_text(latency_yaml(latency, self._provenance, beside=written[0].parent), encoding="utf-8")
        return written

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the error on each sample left out over its measured time."""
        ax = new_axes(ax)
        regions = np.array([region.split(",")[0] for region in self.samples.regions])
        for region in np.unique(regions):
            here = regions == region
            ax.plot(self.samples.time_s[here], 100 * self.left_out_errors[here], ".", label=str(region))
        ax.axhline(0, color="grey", linewidth=0.8)
        ax.set(xscale="log", xlabel="measured (s)", ylabel="error on samples left out (%)", title=self.sentences[0])
        ax.legend(frameon=False)
        return ax


def calibrate(samples: Samples, model: Model = "auto", clock: Roofline | None = None) -> CalibrateAnswer:
    """Fit a latency model to samples.

    `linear` is fitted by non-negative least squares of relative errors. Of a `roofline` the efficiencies and overheads
    are fitted that the samples show, held at what they were where they show little, so a dozen samples are enough. A
    `residual` corrects the roofline (or the linear clock, if there is no roofline) near the samples, and is saved as a
    table. Errors are measured on samples left out, a tenth at a time.

    Args:
        samples: of `jaxsim.analysis.sample_files.read_samples`.
        model: `auto` is `roofline` if there is one, else `linear`.
        clock: the roofline of what was measured, with its efficiencies before; by default `roofline_of(samples)`.

    Raises:
        ValueError: there are fewer than two samples, a roofline is asked for and not known, or a residual of requests.
    """
    if len(samples) < 2:
        raise ValueError(f"{samples.source}: one sample is not enough; a fit needs two or more, better {ENOUGH}")
    clock = clock or roofline_of(samples)
    if model == "roofline" and clock is None:
        raise ValueError(
            f"{samples.source}: a roofline needs to know what ran on which hardware: name them (--model, --hardware), "
            "or give the file such columns"
        )
    base: Fit = LinearFit() if model == "linear" or clock is None else RooflineFit(clock)
    fit = ResidualFit(base) if model == "residual" else base
    fitted = fit.fit(samples)
    folds = min(FOLDS, len(samples))
    fold = np.random.default_rng(0).permutation(len(samples)) % folds
    left_out = np.empty(len(samples))
    for place in range(folds):
        out = fold == place
        left_out[out] = samples[out].errors(fit.fit(samples[~out]).seconds)
    return CalibrateAnswer(
        samples=samples,
        fit=fit,
        fitted=fitted,
        errors=samples.errors(fitted.seconds),
        left_out_errors=left_out,
        warnings=tuple(_warnings(samples)),
    )


def roofline_of(samples: Samples, **given: Any) -> Roofline | None:
    """The roofline that parameters of a scenario describe, completed by what the samples say they are of.

    None if that leaves the model or the hardware open.

    Raises:
        ScenarioError: one of the parameters is not valid.
    """
    said = {name: samples.facts.get(column) for name, column in _COLUMNS.items()}
    found = {name: value for name, value in (said | given).items() if value is not None}
    return READER.read(Roofline, {"kind": "roofline"} | found) if {"model", "hardware"} <= set(found) else None


def _warnings(samples: Samples) -> list[str]:
    found = []
    if len(samples) < ENOUGH:
        found.append(
            f"{len(samples)} samples are few: {ENOUGH} spread over prompts, decodes and mixed iterations are enough"
        )
    if samples.of == "requests":
        found.append(
            "batches were worked out from the log, each request emitting evenly and each prompt computed evenly: check "
            "the clock with jaxsim validate"
        )
        return found
    kinds = {str(region).split(",")[0] for region in samples.regions}
    for kind, what in (("prefill", "prompts"), ("decode", "decodes")):
        if not kinds & {kind, "mixed"}:
            found.append(f"no sample has {what}: what they take is a guess")
    return found
