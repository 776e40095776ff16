"""The table of a sweep as an `xarray.Dataset` with the swept keys as dimensions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxsim.analysis.answer import Row

if TYPE_CHECKING:
    import xarray

SCHEMA_VERSION = 1


def dataset(rows: Sequence[Row], keys: Sequence[str]) -> "xarray.Dataset":
    """One variable for each column of numbers.

    Args:
        rows: the table, a row for each point.
        keys: the columns that say where a point is. Where the points are a whole grid these are its dimensions, named
            by the last part of the key where that is clear; else the points are in a row along `point`.
    """
    import xarray

    last = [key.rpartition(".")[2] for key in keys]
    names = [short if last.count(short) == 1 else key for key, short in zip(keys, last, strict=True)]
    axes = [list(dict.fromkeys(row[key] for row in rows)) for key in keys]
    shape = tuple(map(len, axes))
    places = [tuple(axis.index(row[key]) for axis, key in zip(axes, keys, strict=True)) for row in rows]
    is_grid = len(set(places)) == len(rows) == int(np.prod(shape))
    dims, size = (tuple(names), shape) if is_grid else (("point",), (len(rows),))
    variables: dict[str, Any] = {}
    for column in rows[0]:
        values = [row[column] for row in rows]
        if column in keys or any(isinstance(value, str) for value in values):
            continue
        whole = all(isinstance(value, bool) for value in values)
        filled = np.zeros(size, bool if whole else np.float64)
        for place, (at, value) in enumerate(zip(places, values, strict=True)):
            filled[at if is_grid else (place,)] = np.nan if value is None else value
        variables[column] = (dims, filled, {"units": _unit(column)} if _unit(column) else {})
    along = {name: (name, axis) for name, axis in zip(names, axes, strict=True)}
    beside = {name: ("point", [row[key] for row in rows]) for name, key in zip(names, keys, strict=True)}
    attributes = {"schema_version": SCHEMA_VERSION, "keys": list(keys)}
    return xarray.Dataset(variables, coords=along if is_grid else beside, attrs=attributes)


def _unit(column: str) -> str:
    if column.split(".")[0].endswith("_per_s"):
        return "1/s"
    return "s" if column.split(".")[0].endswith("_s") else ""
