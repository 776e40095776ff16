"""What every analysis returns: an answer in words, its facts, a tidy table and a picture."""

import abc
import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from jaxsim.plots import new_axes as new_axes
from jaxsim.result import replacing

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

SCHEMA_VERSION = 1

Row = Mapping[str, Any]
"""Plain values by column; None is unknown."""


class Answer(abc.ABC):
    """The answer to one question."""

    question: ClassVar[str]
    """Name of the analysis, and of the files it is saved in."""

    warnings: Sequence[str]
    """What to know before trusting it."""

    @property
    def incomplete(self) -> bool:
        """Some simulation behind it stopped early."""
        return False

    @property
    def interrupted(self) -> bool:
        """The user stopped it; it covers what had finished."""
        return False

    @property
    @abc.abstractmethod
    def sentences(self) -> Sequence[str]:
        """The answer in words, the most important first."""

    @property
    @abc.abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """The answer as plain data."""

    @property
    @abc.abstractmethod
    def rows(self) -> Sequence[Row]:
        """The evidence as a tidy table; every row has the same columns."""

    @abc.abstractmethod
    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the evidence with matplotlib (`pip install 'jaxsim-serving[plots]'`).

        Args:
            ax: where to; by default on a new figure (`ax.figure.savefig` writes it).
        """

    def to_pandas(self) -> "pandas.DataFrame":
        """The table as a `pandas.DataFrame`."""
        import pandas

        return pandas.DataFrame(list(self.rows))

    def to_json(self) -> str:
        """Answer, facts, table and warnings as JSON; what is not a finite number is null."""
        content = {
            "schema_version": SCHEMA_VERSION,
            "question": self.question,
            "answer": list(self.sentences),
            **self.facts,
            "table": list(self.rows),
            "warnings": list(self.warnings),
        }
        return json.dumps(_plain(content), indent=2, allow_nan=False) + "\n"

    def save(self, directory: str | os.PathLike[str], table: Literal["csv", "parquet"] = "csv") -> list[Path]:
        """Write `QUESTION.json`, the table, and `QUESTION.png` if matplotlib is there, into a folder, made if need be.

        Args:
            directory: the folder.
            table: format of the table; `parquet` needs pandas and pyarrow.

        Returns:
            The files written.
        """
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        stem = folder / self.question
        written = [stem.with_suffix(".json"), stem.with_suffix(f".{table}")]
        with replacing(written[0]) as path:
            path.write_text(self.to_json(), encoding="utf-8")
        with replacing(written[1]) as path:
            if table == "parquet":
                self.to_pandas().to_parquet(path, index=False)
            else:
                path.write_text(self.to_csv(), encoding="utf-8", newline="")
        if find_spec("matplotlib"):
            written.append(stem.with_suffix(".png"))
            with replacing(written[2]) as path:
                figure: Any = self.plot().figure
                figure.savefig(path, format="png", dpi=150, metadata={"Software": None})
        return written

    def to_csv(self) -> str:
        """The table as CSV: floats as the shortest text that reads back equal, what is unknown as an empty cell."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.rows[0]) if self.rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()

    def __str__(self) -> str:
        return "\n".join([*self.sentences, *(f"! {warning}" for warning in self.warnings)])


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
