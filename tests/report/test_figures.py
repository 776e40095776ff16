"""Numbers for people."""

import pytest

from jaxsim.report.figures import figure, percent, span, time_unit


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (1.0, "1.000"),
        (0.012345, "0.01235"),
        (99.999, "100.00"),
        (1234.5, "1,234"),
        (1234567.0, "1,234,567"),
    ],
)
def test_four_digits(value: float | None, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (None, ""),
        ([1.0, None], ""),
        ([233.345, 282.2], "233–282"),
        ([0.99, 1.01], "0.990–1.010"),
        ([5.4384, 5.4702], "5.438–5.470"),
        ([10.0, 10.0], "10.00–10.00"),
        ([0.0, 0.0], "0–0"),
    ],
)
def test_intervals_have_the_digits_that_tell_their_ends_apart(interval: list[float | None] | None, text: str) -> None:
    assert span(interval) == text


@pytest.mark.parametrize(
    ("seconds", "unit"), [(2.0, "s"), (0.999, "ms"), (0.00025, "µs"), (1e-9, "µs"), (None, "s"), (0.0, "s")]
)
def test_units_of_time(seconds: float | None, unit: str) -> None:
    assert time_unit(seconds)[1] == unit


def test_percent() -> None:
    assert percent(0.9759, [0.9491, 0.9888]) == "97.59 % (94.9–98.9)"
    assert percent(None) == "-"
