"""How a component (policy, latency model, router, arrival process ...) declares its parameters.

A component is one frozen dataclass that is its own configuration, behaviour and documentation. Its numbers are pytree
leaves and everything else (its kind, its switches) is structure, so components of equal structure stack over lanes and
compile once. `config/` derives the scenario schema from the same fields and from the folder's registry.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import jax
import numpy as np

T = TypeVar("T")

_STATIC_TYPES = (bool, str)


@typing.dataclass_transform(frozen_default=True, kw_only_default=True)
def component(cls: type[T]) -> type[T]:
    """Make `cls` a frozen, keyword-only dataclass and a pytree, static in its `bool`, `str` and `Literal` fields.

    Every other field (numbers, optional numbers, tuples, nested components) is a subtree of leaves.
    """
    frozen = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    hints = typing.get_type_hints(frozen)
    assert dataclasses.is_dataclass(frozen)
    names = [field.name for field in dataclasses.fields(frozen)]
    static = [name for name in names if _is_static(hints[name])]
    leaves = [name for name in names if name not in static]

    def flatten(owner: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        keyed = [(jax.tree_util.GetAttrKey(name), getattr(owner, name)) for name in leaves]
        return keyed, tuple(getattr(owner, name) for name in static)

    def unflatten(structure: tuple[Any, ...], children: Iterable[Any]) -> Any:
        # not through __init__: values were validated when they were numbers, and may be traced or stacked now
        owner = object.__new__(frozen)
        for name, value in zip([*static, *leaves], [*structure, *children], strict=True):
            object.__setattr__(owner, name, value)
        return owner

    jax.tree_util.register_pytree_with_keys(frozen, flatten, unflatten)
    return frozen


def _is_static(hint: Any) -> bool:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return all(_is_static(arm) for arm in typing.get_args(hint) if arm is not type(None))
    return typing.get_origin(hint) is typing.Literal or hint in _STATIC_TYPES


def as_arrays(owner: T) -> T:
    """The same component with its numbers as 0-d NumPy arrays: float64 where its field says `float`, else int32.

    A component with a `prepared` form, which holds what is worked out once from its parameters, gives that: a component
    that behaves the same and whose numbers are arrays already.
    """
    if (prepared := getattr(owner, "prepared", None)) is not None:
        return typing.cast(T, prepared)

    def array(hint: Any, value: Any) -> Any:
        if dataclasses.is_dataclass(value):
            return as_arrays(value)
        if isinstance(value, tuple):
            return tuple(array(typing.get_args(hint)[0], item) for item in value)
        is_float = hint is float or float in typing.get_args(hint)
        return np.asarray(value, np.float64 if is_float else np.int32) if _is_number(value) else value

    assert dataclasses.is_dataclass(owner)
    hints = typing.get_type_hints(type(owner))
    leaves = [f.name for f in dataclasses.fields(owner) if not _is_static(hints[f.name])]
    copy = object.__new__(type(owner))
    for field in dataclasses.fields(owner):
        value = getattr(owner, field.name)
        object.__setattr__(copy, field.name, array(hints[field.name], value) if field.name in leaves else value)
    return copy


def as_leaves(*counts: int) -> list[Any]:
    """Whole numbers as 0-d int32 NumPy arrays."""
    return [np.asarray(count, np.int32) for count in counts]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def registry(*classes: type[T]) -> Mapping[str, type[T]]:
    """The components of one folder by their `kind`: what the scenario schema, the docs and the contract tests read."""
    return types.MappingProxyType({_kind_of(cls): cls for cls in classes})


def _kind_of(cls: type) -> str:
    assert dataclasses.is_dataclass(cls)
    return next(str(field.default) for field in dataclasses.fields(cls) if field.name == "kind")


def check(owner: Any, field: str, holds: Callable[[Any], bool], must: str) -> None:
    """Raise a ValueError that names the field, what it must be and what it is, unless `holds(value)`.

    Values that are not plain numbers (traced or stacked arrays, None) pass: they were checked when they were plain.
    """
    value = getattr(owner, field)
    if _is_number(value):
        if isinstance(value, float) and math.isnan(value) or not holds(value):
            raise ValueError(f"{field} must be {must}, not {value!r}")


def check_positive(owner: Any, *fields: str) -> None:
    """Each field is a finite number greater than zero."""
    for field in fields:
        check(owner, field, lambda value: 0 < value < math.inf, "a finite number greater than 0")


def check_not_negative(owner: Any, *fields: str) -> None:
    """Each field is a finite number, zero or greater."""
    for field in fields:
        check(owner, field, lambda value: 0 <= value < math.inf, "a finite number, 0 or greater")
