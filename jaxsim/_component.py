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

T = TypeVar("T")

_STATIC_TYPES = (bool, str)


@typing.dataclass_transform(frozen_default=True, kw_only_default=True)
def component(cls: type[T]) -> type[T]:
    """Make `cls` a frozen, keyword-only dataclass and a pytree whose static part is its `bool`, `str` and `Literal` fields.

    Every other field (numbers, optional numbers, tuples, nested components) is a subtree of leaves.
    """
    frozen = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    hints = typing.get_type_hints(frozen)
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


def registry(*classes: type[T]) -> Mapping[str, type[T]]:
    """The components of one folder by their `kind`: what the scenario schema, the docs and the contract tests read."""
    return types.MappingProxyType({cls.__dataclass_fields__["kind"].default: cls for cls in classes})  # type: ignore[attr-defined]


def check(owner: Any, field: str, holds: Callable[[Any], bool], must: str) -> None:
    """Raise a ValueError that names the field, what it must be and what it is, unless `holds(value)`.

    Values that are not plain numbers (traced or stacked arrays, None) pass: they were checked when they were plain.
    """
    value = getattr(owner, field)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
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
