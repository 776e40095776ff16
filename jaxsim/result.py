"""What a run returns: the summary, the table of requests, how it was made; and their files."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import numpy as np

from jaxsim._status import RequestStatus
from jaxsim.metrics.request_table import RequestTable

if TYPE_CHECKING:
    import pandas

REQUESTS_FORMATS = ("csv", "parquet", "none")

_NONE_IS_MINUS_ONE = ("instance", "decode_instance")
_CSV_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of a run.

    Attributes:
        summary: every statistic with its confidence interval, as in `summary.json`.
        requests: what happened to each request; None if only the summary was asked for.
        manifest: the resolved scenario, versions, device, timings, as in `manifest.json`.
    """

    summary: Mapping[str, Any]
    requests: RequestTable | None
    manifest: Mapping[str, Any]

    def to_pandas(self) -> "pandas.DataFrame":
        """The requests as a `pandas.DataFrame` with the columns of `requests.csv`; what never happened is missing.

        Raises:
            ValueError: the run kept no requests.
            ImportError: pandas is not installed.
        """
        import pandas

        columns: dict[str, Any] = dict(self._table().columns())
        for name in _NONE_IS_MINUS_ONE:
            columns[name] = pandas.arrays.IntegerArray(columns[name], columns[name] < 0)
        names = [status.name.lower() for status in RequestStatus]
        columns["status"] = pandas.Categorical.from_codes(columns["status"], categories=names)
        return pandas.DataFrame(columns)

    def save(self, directory: str | os.PathLike[str], requests: Literal["csv", "parquet", "none"] = "csv") -> None:
        """Write `summary.json`, `manifest.json` and the requests into a folder, which is made if need be.

        Each file is written under another name and moved into place when it is whole.

        Args:
            directory: the folder.
            requests: how to write the requests: `requests.csv`, `requests.parquet`, or not at all. A run that kept no
                requests writes none.

        Raises:
            ValueError: an unknown format.
            ImportError: `parquet` without pandas and pyarrow.
        """
        if requests not in REQUESTS_FORMATS:
            raise ValueError(f"requests must be one of {', '.join(REQUESTS_FORMATS)}, not {requests!r}")
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        if self.requests is not None and requests == "csv":
            with replacing(folder / "requests.csv") as path, path.open("w", encoding="utf-8", newline="") as file:
                write_csv(self.requests, file)
        if self.requests is not None and requests == "parquet":
            with replacing(folder / "requests.parquet") as path:
                self.to_pandas().to_parquet(path, index=False)
        for name, content in (("summary.json", self.summary), ("manifest.json", self.manifest)):
            with replacing(folder / name) as path:
                path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")

    def _table(self) -> RequestTable:
        if self.requests is None:
            raise ValueError("this run kept only its summary; run it with requests to have their table")
        return self.requests


def write_csv(table: RequestTable, file: TextIO, header: bool = True) -> None:
    """Write requests as `requests.csv`, 3 microseconds a row.

    Times are the shortest text that reads back as the same float64; what never happened is an empty cell.
    """
    columns = table.columns()
    if header:
        file.write(",".join(columns) + "\n")
    for start in range(0, table.num_seeds * table.num_requests, _CSV_ROWS):
        texts = [_texts(name, values[start : start + _CSV_ROWS]) for name, values in columns.items()]
        file.write("\n".join(map(",".join, zip(*texts, strict=True))) + "\n")


def _texts(name: str, values: np.ndarray) -> list[str]:
    """The cells of a column."""
    if values.dtype.kind == "f":
        texts = list(map(repr, values.tolist()))
        for place in np.flatnonzero(np.isnan(values)):
            texts[place] = ""
        return texts
    lowest, highest = int(values.min()), int(values.max())
    if name == "status":
        known = [RequestStatus(code).name.lower() for code in range(lowest, highest + 1)]
    elif highest - lowest > len(values):
        return list(map(str, values.tolist()))
    else:  # far fewer numbers than cells: look their texts up, which takes a fifth of the time
        known = [str(number) for number in range(lowest, highest + 1)]
    if name in _NONE_IS_MINUS_ONE and lowest < 0:
        known[-1 - lowest] = ""
    return list(map(known.__getitem__, (values - lowest).tolist()))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to, which takes its place if the block ends without an error."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
