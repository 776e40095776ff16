"""Lines: sums, multiples, maxima and minima are what they are iteration by iteration, for as long as they say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxsim.operators.lines import Line, larger, smaller

numbers = st.integers(0, 40).map(float)
growths = st.integers(-3, 5).map(float)
lines = st.builds(Line, numbers, growths)


def at(line: Line, j: int) -> float:
    return line.first + j * line.growth


@given(lines, lines, lines)
def test_a_maximum_holds_until_it_changes_hands(a: Line, b: Line, c: Line) -> None:
    for pick, best in ((larger, max), (smaller, min)):
        found = pick(a, b) + c
        until = 30 if math.isinf(found.iterations) else int(found.iterations)
        assert until >= 1
        for j in range(until):
            assert at(found, j) == best(at(a, j), at(b, j)) + at(c, j)
        if math.isfinite(found.iterations):
            assert at(found, until) != best(at(a, until), at(b, until)) + at(c, until), "it ends no sooner than it must"


@given(lines, st.integers(0, 8))
def test_multiples(line: Line, factor: int) -> None:
    for j in range(5):
        assert at(line * factor, j) == factor * at(line, j)


def test_what_is_known_not_to_grow_stays_so() -> None:
    constant = larger(Line(1.0), Line(2.0)) * 3.0 + Line(1.0)
    assert constant == Line(7.0, 0.0, math.inf)
    assert isinstance(constant.growth, float)


def test_iterations_are_those_of_the_part_that_ends_first() -> None:
    assert (larger(Line(5.0), Line(0.0, 1.0)) + larger(Line(3.0), Line(0.0, 1.0))).iterations == pytest.approx(4)
