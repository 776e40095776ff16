"""The table of batches."""

from typing import Any

import numpy as np
import pytest

from jaxsim.metrics.events import Events


def events(**columns: Any) -> Events:
    rows = {
        "instance": [0, 1, 0], "start_s": [0.0, 0.5, 1.0], "end_s": [1.0, 2.0, 4.0], "iterations": [1, 1, 30],
        "new_tokens": [512, 100, 60], "prefill_tokens": [512, 100, 0], "decodes": [0, 0, 2],
        "context_tokens": [0, 0, 514], "running": [1, 1, 2], "waiting": [1, 0, 0], "kv_blocks": [32, 7, 40],
    }  # fmt: skip
    return Events(**{name: np.asarray(values) for name, values in (rows | columns).items()})


def test_rows_of_an_instance() -> None:
    assert len(events()) == 3
    assert events().of(0).iterations.tolist() == [1, 30]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"decodes": [0, 0]}, r"decodes must have one value for each row, not shape \(2,\)"),
        ({"end_s": [1.0, 0.0, 4.0]}, "end_s must not be before start_s"),
        ({"end_s": [1.0, np.nan, 4.0]}, "end_s must not be before start_s"),
        ({"iterations": [1, 0, 4]}, "iterations must be 1 or greater"),
    ],
)
def test_bad_tables(columns: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        events(**columns)
