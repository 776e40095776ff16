"""The one constant that kernels do not tell: what the host adds to an iteration, from the requests of a server."""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from jaxsim._version import __version__
from jaxsim.analysis.answer import Answer, Row
from jaxsim.analysis.latency_file import latency_yaml
from jaxsim.analysis.validate import ValidationAnswer, validate
from jaxsim.config.schema import Scenario
from jaxsim.latency import AbstractLatency
from jaxsim.result import replacing
from jaxsim.workload import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TOLERANCE = 1e-3
"""Error of the mean TPOT at which the search ends."""
MOST_TRIES = 12


@dataclass(frozen=True, eq=False)
class CalibrateHostAnswer(Answer):
    """The host's time per iteration on a measured server.

    Attributes:
        latency: the scenario's latency with the fitted constant.
        host_s: that constant, the seconds that the host adds to an iteration.
        source: the measured requests.
        before: measured against simulated without it.
        after: measured against simulated with it.
    """

    question: ClassVar[str] = "calibrate"

    latency: AbstractLatency
    host_s: float
    source: str
    before: ValidationAnswer
    after: ValidationAnswer
    warnings: tuple[str, ...] = ()

    @property
    def sentences(self) -> Sequence[str]:
        before, after = (f"{of.error('ttft_s', 'mean'):+.1%}" for of in (self.before, self.after))
        return [
            f"The host adds {1e3 * self.host_s:.2f} ms to an iteration: with that the mean TPOT of "
            f"{self.after.requests:,} requests is as measured ({self.after.error('tpot_s', 'mean'):+.2%}).",
            f"The mean TTFT, which was not fitted, is {after} off ({before} without).",
        ]

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"host_s": self.host_s, "source": self.source, "requests": self.after.requests}

    @property
    def rows(self) -> Sequence[Row]:
        return [
            {**after, "without_error": before["relative_error"]}
            for before, after in zip(self.before.rows, self.after.rows, strict=True)
        ]

    def to_yaml(self) -> str:
        """The latency as a section of a scenario file."""
        return latency_yaml(self.latency, self._provenance)

    @property
    def _provenance(self) -> list[str]:
        return [f"host_s fitted by jaxsim calibrate {__version__} to the requests of {self.source}.", *self.sentences]

    def save(self, directory: str | os.PathLike[str], table: Literal["csv", "parquet"] = "csv") -> list[Path]:
        """Write `latency.yaml` beside the files of every answer.

        Args:
            directory: the folder.
            table: format of the table of errors.

        Returns:
            The files written.
        """
        written = super().save(directory, table)
        written.insert(0, Path(directory) / "latency.yaml")
        with replacing(written[0]) as path:
            path.write_text(latency_yaml(self.latency, self._provenance, beside=written[0].parent), encoding="utf-8")
        return written

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the distributions of TTFT, TPOT and E2E, measured and simulated."""
        return self.after.plot(ax)


def calibrate_host(
    scenario: Scenario,
    measured: Trace,
    *,
    warmup_requests: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> CalibrateHostAnswer:
    """Fit `host_s` of a scenario's latency so that the mean TPOT of measured requests comes out.

    The requests are replayed on the scenario's fleet, by the secant method a handful of times.

    Args:
        scenario: the server; its instances form one group, with a latency that has a `host_s`.
        measured: its requests, with the times it recorded.
        warmup_requests: requests at the start that do not count; by default those of the scenario.
        progress: called with the share of the work that is done.

    Raises:
        ValueError: the latency has no `host_s`, or is slower than the server even without.
        ScenarioError: the scenario cannot be simulated.
    """
    groups = scenario.cluster.instances
    if len(groups) != 1 or not hasattr(groups[0].latency, "host_s"):
        raise ValueError(
            "cluster.instances must be one group whose latency has a host_s: roofline, table or kernel_profile"
        )

    def at(host_s: float) -> tuple[AbstractLatency, ValidationAnswer]:
        latency = groups[0].latency
        assert dataclasses.is_dataclass(latency)
        latency = dataclasses.replace(latency, host_s=host_s)
        cluster = dataclasses.replace(scenario.cluster, instances=(dataclasses.replace(groups[0], latency=latency),))
        answer = validate(dataclasses.replace(scenario, cluster=cluster), measured, warmup_requests=warmup_requests)
        return latency, answer

    _, before = at(0.0)
    error = before.error("tpot_s", "mean")
    if not error < 0:
        raise ValueError(
            f"{measured.path}: the simulated mean TPOT is {error:+.1%} off without any time of the host, which can "
            "only add to it: is the clock that of this server?"
        )
    last, host_s = (0.0, error), -error * before.measured["tpot_s"]["mean"]
    for tries in range(MOST_TRIES):
        if progress:
            progress((tries + 1) / MOST_TRIES)
        tried, (latency, after) = host_s, at(host_s)
        error = after.error("tpot_s", "mean")
        if abs(error) < TOLERANCE or error == last[1]:
            break
        last, host_s = (host_s, error), max(0.0, host_s - error * (host_s - last[0]) / (error - last[1]))
    return CalibrateHostAnswer(latency, tried, measured.path, before, after, tuple(after.warnings))
