"""What a run returns: the summary, the table of requests, how it was made; and their files."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxsim import tables
from jaxsim.metrics import vllm_names
from jaxsim.metrics.request_table import RequestTable
from jaxsim.plots import Plots

if TYPE_CHECKING:
    import pandas
    import xarray

UNFINISHED = "unfinished"
"""Folder beside the results in which a run under way keeps its finished chunks of seeds (`checkpoint`)."""


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of a run.

    Attributes:
        summary: every statistic with its confidence interval, as in `summary.json`.
        requests: what happened to each request; None if only the summary was asked for, or they went to files.
        manifest: the resolved scenario, versions, device, timings, as in `manifest.json`.
        gap_counts: int32 `[seeds, bins]`, gaps between tokens of each seed, warm-up included, by the bins of
            `jaxsim.engine.record.itl_bin_edges`; None without the table of requests, or if it was read from files.
    """

    summary: Mapping[str, Any]
    requests: RequestTable | None
    manifest: Mapping[str, Any]
    gap_counts: np.ndarray | None = None

    def to_pandas(self) -> "pandas.DataFrame":
        """The requests as a `pandas.DataFrame` with the columns of `requests.csv`; what never happened is missing.

        Raises:
            ValueError: the run kept no requests.
            ImportError: pandas is not installed (`pip install 'jaxsim-serving[tables]'`).
        """
        return tables.frame(self._table())

    def to_xarray(self) -> "xarray.Dataset":
        """The requests as an `xarray.Dataset` over `seed` and `request` (the place in order of arrival).

        Times are in seconds; `status` is a code whose meanings are its attributes; what never happened is nan (-1 for
        instances). The plain numbers of the summary are attributes of the dataset.

        Raises:
            ValueError: the run kept no requests.
            ImportError: xarray is not installed (`pip install 'jaxsim-serving[xarray]'`).
        """
        return tables.dataset(self._table(), self.summary)

    def to_prometheus(self) -> str:
        """The measured requests under the names of vLLM's metrics, in Prometheus' text format.

        See `jaxsim.metrics.vllm_names` for what each is.

        Raises:
            ValueError: the run kept no requests.
        """
        return vllm_names.prometheus_text(self.vllm_metrics())

    def vllm_metrics(self) -> list[vllm_names.Family]:
        """The same as data.

        Raises:
            ValueError: the run kept no requests.
        """
        warmup = self.manifest["scenario"]["monte_carlo"]["warmup_requests"]
        return vllm_names.families(self._table(), self.summary, self.manifest["scenario"], warmup)

    @property
    def plot(self) -> Plots:
        """Pictures with matplotlib: `result.plot.cdf()`, `.percentiles()`, `.breakdown()`, `.timeline()`, `.tail()`.

        Raises:
            ValueError: the run kept no requests.
        """
        return Plots(self._table(), self.summary, self.manifest["scenario"]["monte_carlo"]["warmup_requests"])

    def save(self, directory: str | os.PathLike[str], requests: tables.Format = "csv") -> None:
        """Write `summary.json`, `manifest.json` and the requests into a folder, which is made if need be.

        Each file is written under another name and moved into place when it is whole. Files of earlier results are
        replaced, a table of requests in another format too.

        Args:
            directory: the folder.
            requests: how to write the requests: `requests.csv`, `requests.parquet`, or not at all. A run that kept no
                requests writes none.

        Raises:
            ValueError: an unknown format, or the folder holds an unfinished run.
            ImportError: `parquet` without pandas and pyarrow.
        """
        tables.check_format(requests)
        folder = Path(directory)
        check_finished(folder)
        folder.mkdir(parents=True, exist_ok=True)
        table = folder / f"requests.{requests}"
        if self.requests is not None and requests != "none":
            with replacing(table) as path, path.open("wb") as file:
                tables.write(self.requests, requests, file)
            write_outcome(folder, self.summary, self.manifest, table)
        else:
            write_outcome(folder, self.summary, self.manifest, None)

    def _table(self) -> RequestTable:
        if self.requests is None:
            raise ValueError("this run kept only its summary; run it with requests to have their table")
        return self.requests


def load_result(directory: str | os.PathLike[str]) -> Result:
    """The result in a folder that `jaxsim run --out` or `Result.save` wrote.

    Args:
        directory: the folder; without a table of requests in it, the result has none.

    Raises:
        ValueError: the folder holds no finished run, or a file in it is not what it should be.
        ImportError: `requests.parquet` without pandas and pyarrow.
    """
    folder = Path(directory)
    check_finished(folder)
    content = {}
    for name in ("summary", "manifest"):
        file = folder / f"{name}.json"
        if not file.is_file():
            raise ValueError(f"{folder}: not a folder of results: it has no {file.name} (jaxsim run --out writes one)")
        try:
            content[name] = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{file}: not valid JSON: {error}") from None
    files = [folder / f"requests.{format}" for format in tables.FORMATS]
    requests = next((tables.read(file) for file in files if file.is_file()), None)
    return Result(content["summary"], requests, content["manifest"])


def write_outcome(folder: Path, summary: Mapping[str, Any], manifest: Mapping[str, Any], requests: Path | None) -> None:
    """Write the summary and, last, the manifest into a folder; of the tables of requests there, keep `requests`."""
    texts = {
        name: json.dumps(content, indent=2, allow_nan=False) + "\n"
        for name, content in (("summary.json", summary), ("manifest.json", manifest))
    }
    for format in tables.FORMATS:
        if (other := folder / f"requests.{format}") != requests:
            other.unlink(missing_ok=True)
    for name, text in texts.items():
        with replacing(folder / name) as path:
            path.write_text(text, encoding="utf-8")


def check_finished(folder: Path) -> None:
    """A ValueError if a folder holds a run that was not finished: other results would mix with it."""
    if (folder / UNFINISHED / "run.json").exists():
        raise ValueError(
            f"{folder} holds an unfinished run: continue it with --resume (resume=True in Python), choose another "
            f"folder, or give it up by removing {folder / UNFINISHED}"
        )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to, which takes its place if the block ends without an error."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
