"""Lengths drawn from observed ones."""

import os
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from jaxsim._component import component
from jaxsim.workload._checks import check_numbers
from jaxsim.workload.lengths.base import MAX_TOKENS, Lengths, check_range


@component
class Empirical(Lengths):
    """Every observed length is equally likely. Give either `values` or `path`.

    Attributes:
        path: text file with one length a line; blank lines are skipped.
        values: the lengths, tokens.
        min: lower clip, tokens.
        max: upper clip, tokens.
    """

    kind: Literal["empirical"] = "empirical"
    path: str | None = None
    values: tuple[float, ...] | None = None
    min: int = 1
    max: int = MAX_TOKENS

    def __post_init__(self) -> None:
        check_range(self)
        if (self.path is None) == (self.values is None):
            raise ValueError("give either path (a file with one length a line) or values (a list of lengths)")
        if self.path is not None:
            object.__setattr__(self, "path", os.fspath(self.path))
        if self.values is not None:
            check_numbers(self, "values", zero=False)

    def quantile(self) -> Partial:
        """The inverse CDF.

        Raises:
            ValueError: the file cannot be read, is empty or has a line that is not a finite number greater than 0.
        """
        values = self.values if self.path is None else _read(self.path)
        return Partial(_observed, np.sort(np.asarray(values, np.float64)))


def _observed(values: jax.Array, uniform: jax.Array) -> jax.Array:
    return values[jnp.floor(uniform * values.shape[0]).astype(jnp.int32)]


def _read(path: str) -> list[float]:
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ValueError(f"{path}: {reason}; it must be a text file with one length a line") from None
    values = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                value = float(line)
            except ValueError:
                value = np.nan
            if not 0 < value < np.inf:
                raise ValueError(f"{path}: line {number}: {line.strip()!r} must be a finite number greater than 0")
            values.append(value)
    if not values:
        raise ValueError(f"{path}: no lengths; it must have one a line")
    return values
