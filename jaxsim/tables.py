"""The table of requests as a file: CSV or Parquet, whole or put together from parts."""

import csv
import dataclasses
import io
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TextIO

import numpy as np

from jaxsim._status import RequestStatus
from jaxsim.metrics.request_table import STAMPS, RequestTable

if TYPE_CHECKING:
    import pandas
    import pyarrow
    import xarray

SCHEMA_VERSION = 1
"""Of the columns of tables of requests: columns may be added to a version, never renamed."""

Format = Literal["csv", "parquet", "none"]
FORMATS: tuple[Format, ...] = ("csv", "parquet", "none")

_NONE_IS_MINUS_ONE = ("instance", "decode_instance")
_TIMES = ("arrival_s", "first_scheduled_s", "first_token_s", "finish_s", *STAMPS)
_CSV_ROWS = 1 << 16


def check_format(format: str) -> None:
    """A ValueError unless there is such a format, an ImportError unless it can be written here."""
    if format not in FORMATS:
        raise ValueError(f"requests must be one of {', '.join(FORMATS)}, not {format!r}")
    if format == "parquet":
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401


def frame(table: RequestTable, classes: bool | None = None) -> "pandas.DataFrame":
    """The requests with the columns of `requests.csv`; what never happened is missing.

    Args:
        table: the requests.
        classes: as in `RequestTable.columns`.
    """
    import pandas

    columns: dict[str, Any] = dict(table.columns(classes))
    for name in _NONE_IS_MINUS_ONE:
        columns[name] = pandas.arrays.IntegerArray(columns[name], columns[name] < 0)
    names = [status.name.lower() for status in RequestStatus]
    columns["status"] = pandas.Categorical.from_codes(columns["status"], categories=names)
    return pandas.DataFrame(columns)


def dataset(table: RequestTable, summary: Mapping[str, Any]) -> "xarray.Dataset":
    """The requests as an `xarray.Dataset` over `seed` and `request`, with the units of `requests.csv` as attributes.

    Args:
        table: the requests.
        summary: its plain numbers become attributes of the dataset.
    """
    import xarray

    units = {**dict.fromkeys((*_TIMES, "ttft_s", "tpot_s", "e2e_s", "queue_s"), "s")}
    units |= dict.fromkeys(("prompt_tokens", "output_tokens", "cached_tokens"), "tokens")
    names = [name for name in table.columns(classes=True) if name not in ("seed", "request")]
    variables: dict[str, tuple[tuple[str, str], np.ndarray, dict[str, Any]]] = {
        name: (("seed", "request"), getattr(table, name), {"units": units[name]} if name in units else {})
        for name in (*names, "ttft_s", "tpot_s", "e2e_s", "queue_s")
    }
    variables["status"][2].update({status.name.lower(): int(status) for status in RequestStatus})
    rows = ("seed", "request"), table.request, {"long_name": "place in the workload, or row of the trace"}
    return xarray.Dataset(
        {**variables, "row": rows},
        coords={"seed": table.seed, "request": np.arange(table.num_requests)},
        attrs={
            "schema_version": SCHEMA_VERSION,
            **{name: value for name, value in summary.items() if isinstance(value, int | float)},
        },
    )


def write(table: RequestTable, format: str, file: BinaryIO, classes: bool | None = None) -> None:
    """Write requests as `csv` or `parquet`; the arguments are those of `frame`."""
    if format == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(_arrow(table, classes), file)
        return
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    write_csv(table, text, classes)
    text.detach()


def read(path: Path) -> RequestTable:
    """The table of requests in a file that `write` or `join` wrote.

    Raises:
        ValueError: it is not such a file.
        ImportError: `requests.parquet` without pyarrow.
        OSError: it cannot be read.
    """
    columns = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    optional = ("class_index", *STAMPS)
    fields = [field.name for field in dataclasses.fields(RequestTable) if field.name not in optional]
    missing = [name for name in fields if name not in columns]
    if missing:
        raise ValueError(f"{path}: not a table of requests: the column {missing[0]} is missing")
    seeds, counts = _runs(np.asarray(columns.pop("seed")))
    if len(set(counts)) != 1:
        raise ValueError(f"{path}: not a whole table of requests: seeds have different numbers of rows")
    shape = (len(seeds), counts[0])
    types = {"status": np.int8, **dict.fromkeys(_TIMES, np.float64)}
    given = {name: columns[name] for name in (*fields[1:], *optional) if name in columns}
    return RequestTable(
        seed=seeds, **{name: of.astype(types.get(name, np.int32)).reshape(shape) for name, of in given.items()}
    )


def _read_csv(path: Path) -> dict[str, np.ndarray]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        names = next(rows, [])
        cells = list(zip(*rows, strict=False)) or [()] * len(names)
    codes = {status.name.lower(): str(int(status)) for status in RequestStatus}
    columns = {}
    for name, texts in zip(names, cells, strict=False):
        if name == "status":
            texts = tuple(codes.get(text, text) for text in texts)
        empty = "nan" if name in _TIMES else "-1"
        try:
            columns[name] = np.array([text or empty for text in texts], dtype="U32").astype(
                np.float64 if name in _TIMES else np.int64
            )
        except ValueError as error:
            raise ValueError(f"{path}: not a table of requests: {name}: {error}") from None
    return columns


def _read_parquet(path: Path) -> dict[str, np.ndarray]:
    import pyarrow
    import pyarrow.parquet

    try:
        frame = pyarrow.parquet.read_table(path).to_pandas()
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path}: not a Parquet file: {str(error).splitlines()[0]}") from None
    codes = {status.name.lower(): int(status) for status in RequestStatus}
    if "status" in frame:
        frame["status"] = frame["status"].astype(str).map(codes)
    for name in _NONE_IS_MINUS_ONE:
        if name in frame:
            frame[name] = frame[name].fillna(-1)
    return {name: frame[name].to_numpy() for name in frame}


def _runs(seeds: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """The seeds in order of their first row, and how many rows each has; the rows of a seed are together."""
    starts = np.flatnonzero(np.diff(seeds, prepend=seeds[:1] - 1))
    return seeds[starts].astype(np.int64), np.diff(starts, append=len(seeds)).tolist()


def join(parts: Sequence[Path], format: str, whole: Path) -> None:
    """Put parts that `write` wrote together to one file, in bounded memory."""
    if format == "parquet":
        _join_parquet(parts, whole)
        return
    with whole.open("wb") as file:
        for place, part in enumerate(parts):
            with part.open("rb") as rows:
                header = rows.readline()
                if place == 0:
                    file.write(header)
                shutil.copyfileobj(rows, file, 1 << 20)


def _arrow(table: RequestTable, classes: bool | None) -> "pyarrow.Table":
    import pyarrow

    return pyarrow.Table.from_pandas(frame(table, classes), preserve_index=False)


def _join_parquet(parts: Sequence[Path], whole: Path) -> None:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetWriter(whole, pyarrow.parquet.read_schema(parts[0])) as writer:
        for part in parts:
            writer.write_table(pyarrow.parquet.read_table(part))


def write_csv(table: RequestTable, file: TextIO, classes: bool | None = None) -> None:
    """Write requests as `requests.csv`, 3 microseconds a row.

    Times are the shortest text that reads back as the same float64; what never happened is an empty cell.

    Args:
        table: the requests.
        file: where to.
        classes: as in `RequestTable.columns`.
    """
    columns = table.columns(classes)
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
