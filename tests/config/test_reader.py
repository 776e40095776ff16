"""The mechanism: any frozen dataclass is a section, any registry of them a choice by `kind`."""

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from jaxsim._component import check_positive, component, registry
from jaxsim.config.docstrings import field_docs, summary
from jaxsim.config.errors import ScenarioError
from jaxsim.config.reader import Reader, plain


class Shape(abc.ABC):  # noqa: B024 - only its name matters here
    """A base class."""


@component
class Disc(Shape):
    """A disc.

    Attributes:
        radius_m: metres from the middle
            to the edge.
        holes: radii of holes in it.
    """

    kind: Literal["disc"] = "disc"
    radius_m: float
    holes: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_positive(self, "radius_m")
        if any(hole > self.radius_m for hole in self.holes):
            raise ValueError("holes: one is larger than the disc")


@component
class Square(Shape):
    kind: Literal["square"] = "square"
    side_m: float = 1.0


@dataclass(frozen=True)
class Drawing:
    shapes: tuple[Shape, ...] = ()
    frame: Shape | None = None
    size: tuple[int, int] = (10, 10)
    scale: float | Mapping[str, float] | None = None
    unit: Literal["m", "mm"] = "m"


READER = Reader({Shape: registry(Square, Disc)})


def test_components_nest_and_read_back() -> None:
    data = {"shapes": [{"kind": "square"}, {"kind": "disc", "radius_m": 3}], "frame": {"kind": "square"}}
    drawing = READER.read(Drawing, data)
    assert drawing == Drawing(shapes=(Square(), Disc(radius_m=3.0)), frame=Square())
    assert READER.read(Drawing, plain(drawing)) == drawing


def test_a_class_that_is_not_registered_can_be_used_from_python() -> None:
    @component
    class Line(Shape):
        kind: Literal["line"] = "line"
        length_m: float

    assert READER.read(Drawing, {"frame": Line(length_m=2)}).frame == Line(length_m=2.0)
    with pytest.raises(ScenarioError, match=r"^frame\.length_m: must be a number, not 'long'$"):
        READER.read(Drawing, {"frame": Line(length_m="long")})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [2, 2.5, "2.5", {"x": 2.5}, None])
def test_a_number_or_a_section(value: Any) -> None:
    expected = value if value is None or isinstance(value, dict) else float(value)
    assert READER.read(Drawing, {"scale": value}).scale == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"scale": "big"}, "scale: must be a number, not 'big'"),
        ({"scale": {"x": "big"}}, "scale.x: must be a number, not 'big'"),
        ({"frame": {"kind": "square", "side": 1}}, "frame.side: unknown key; did you mean side_m? valid: kind, side_m"),
        ({"shapes": [{"kind": "square", "side_m": "1m"}]}, "shapes.0.side_m: must be a number, not '1m'"),
        ({"shapes": [{"kind": "disc"}]}, "shapes.0.radius_m: is required (metres from the middle to the edge)"),
        ({"frame": {"kind": "disc", "radius_m": 0}}, "frame.radius_m: must be a finite number greater than 0, not 0.0"),
        ({"frame": {"kind": "disc", "radius_m": 1, "holes": [2]}}, "frame.holes: one is larger than the disc"),
        ({"frame": "x" * 100}, f"frame: must be a section with a kind, not '{'x' * 55}...'; valid kinds: square, disc"),
        ({"size": [1]}, "size.1: is required"),
        ({"size": [1, 2, 3]}, "size: must have no more than 2 entries"),
        ({"unit": "cm"}, "unit: cannot be 'cm'; did you mean m? valid: m, mm"),
    ],
)  # fmt: skip
def test_message(data: Any, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        READER.read(Drawing, data)
    assert str(caught.value) == message


def test_source_comes_first() -> None:
    with pytest.raises(ScenarioError, match=r"^a\.yaml: unit: cannot be 3; valid: m, mm$"):
        READER.read(Drawing, {"unit": 3}, "a.yaml")


def test_a_field_of_a_type_that_files_cannot_hold_is_the_developers_mistake() -> None:
    @dataclass(frozen=True)
    class Bad:
        thing: set[int]

    with pytest.raises(TypeError, match=r"^Bad\.thing: a scenario cannot hold set\[int\]"):
        READER.read(Bad, {})


def test_docstrings() -> None:
    assert summary(Disc) == "A disc."
    assert field_docs(Disc) == {"radius_m": "metres from the middle to the edge.", "holes": "radii of holes in it."}
    assert field_docs(Square) == {}
