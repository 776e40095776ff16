"""Frozen dataclasses from plain data: the checks come from the classes' own fields, type hints and docstrings.

A component declares its parameters once, as a dataclass. `Reader` derives a pydantic model from those fields, checks
plain data (a parsed YAML file) against it, and calls the class itself, whose `__post_init__` checks ranges. The same
models give the JSON Schema.
"""

import dataclasses
import numbers
import re
import types
import typing
from collections.abc import Callable, Mapping
from functools import partial
from types import NoneType
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    PlainValidator,
    Strict,
    Tag,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from jaxsim.config.docstrings import field_docs, summary
from jaxsim.config.errors import ScenarioError, choices, shown
from jaxsim.config.explain import explain

T = TypeVar("T")

NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
"""A decimal number as YAML 1.2 writes it; YAML 1.1 reads `2e-05` as text."""

# "rate must be positive", "ttft_s: unknown statistic": a message that begins with the field it is about.
_FIELD_FIRST = re.compile(r"(?P<key>[\w.]+)(: | (?=must ))(?P<problem>.*)", re.DOTALL)

_CONFIG = ConfigDict(extra="forbid", frozen=True, validate_default=True, protected_namespaces=())


class Reader:
    """Reads dataclasses whose fields may be components, chosen by `kind` among those registered for their base class.

    Args:
        registries: For each abstract base class (or union of classes), its classes by `kind`.
        by_name: Classes (or bases of registered ones) in whose place a text may stand, each with what turns the text
            into one or into its keys.
    """

    def __init__(
        self,
        registries: Mapping[Any, Mapping[str, type]],
        by_name: Mapping[type, Callable[[str], Any]] = types.MappingProxyType({}),
    ):
        self._registries = registries
        self._by_name = by_name
        self._models: dict[type, type[BaseModel]] = {}
        self._types: dict[type, TypeAdapter[Any]] = {}

    def read(self, cls: type[T], data: Any, source: str = "") -> T:
        """`data` as a `cls`: a mapping of its fields, or a `cls` built in Python, which is checked the same way.

        Raises:
            ScenarioError: With the path of the first key at fault, and `source`.
        """
        try:
            return self.type_of(cls).validate_python(data)
        except ValidationError as error:
            raise explain(error, source) from None

    def fields(self, cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
        """The checked values of the fields of a `cls`, for its own `__post_init__`; raises as `read`."""
        try:
            return dict(self._model(cls).model_validate(data))
        except ValidationError as error:
            raise explain(error, "") from None

    def type_of(self, cls: type[T]) -> TypeAdapter[T]:
        """The pydantic type that reads a `cls`."""
        if cls not in self._types:
            self._types[cls] = TypeAdapter(self._section(cls))
        return self._types[cls]

    def _section(self, cls: type) -> Any:
        return Annotated[
            self._model(cls), BeforeValidator(partial(_keys_of, cls)), AfterValidator(partial(_construct, cls))
        ]

    def _model(self, cls: type) -> type[BaseModel]:
        """The pydantic model with the fields of the dataclass `cls`."""
        if cls not in self._models:
            hints, docs = typing.get_type_hints(cls), field_docs(cls)
            fields: dict[str, Any] = {
                field.name: (
                    self._annotation(hints[field.name], f"{cls.__name__}.{field.name}"),
                    FieldInfo(default=_default(field), description=docs.get(field.name)),
                )
                for field in dataclasses.fields(cls)
            }
            self._models[cls] = create_model(cls.__name__, __doc__=summary(cls), __config__=_CONFIG, **fields)
        return self._models[cls]

    def _annotation(self, hint: Any, where: str) -> Any:
        """The pydantic type that reads a field of type `hint`."""
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if hint in _LEAVES or hint is type(None) or origin is Literal:
            return _LEAVES.get(hint, hint)
        if hint in self._registries:
            kinds = self._registries[hint]
            by_name = (str,) if hint in self._by_name else ()
            described: Any = _either((*map(self._model, kinds.values()), *by_name))
            return Annotated[Any, PlainValidator(partial(self._component, hint), json_schema_input_type=described)]
        if dataclasses.is_dataclass(hint):
            return self._section(typing.cast(type, hint))
        for cls, read in self._by_name.items():
            if set(args) == {cls, str}:
                described = _either((self._model(cls), str))
                named = BeforeValidator(partial(_named, read), json_schema_input_type=described)
                return Annotated[self._section(cls), named]
        parts = tuple(arg if arg is Ellipsis else self._annotation(arg, where) for arg in args)
        if origin in (typing.Union, types.UnionType):
            return _either(parts)
        if origin is tuple:
            return Annotated[types.GenericAlias(tuple, parts), BeforeValidator(_unwrapped)]
        if origin is Mapping:
            return types.GenericAlias(dict, parts)
        raise TypeError(f"{where}: a scenario cannot hold {hint}; is its base class missing from the registries?")

    def _component(self, base: Any, value: Any) -> Any:
        """A component of the kind that `value` names; one built in Python may be of a class that is not registered."""
        kinds = self._registries[base]
        if isinstance(value, base):
            return self.type_of(type(value)).validate_python(value)
        if isinstance(value, str) and base in self._by_name:
            value = _named(self._by_name[base], value)
        known = f"valid kinds: {', '.join(kinds)}"
        if not isinstance(value, Mapping):
            _fail(f"must be a section with a kind, not {shown(value)}; {known}")
        if "kind" not in value:
            _fail(f"needs a kind; {known}")
        kind = value["kind"]
        if not isinstance(kind, str) or kind not in kinds:
            _fail(f"unknown kind {shown(kind)}; {choices(str(kind), kinds)}", "kind")
        return self.type_of(kinds[kind]).validate_python(value)


def _either(arms: tuple[Any, ...]) -> Any:
    """A union, in which null, a mapping (if one of its types is one) and everything else are told apart beforehand."""
    tagged: dict[str, list[Any]] = {}
    for arm in arms:
        tag = "[null]" if arm is NoneType else "[section]" if typing.get_origin(arm) is dict else "[value]"
        tagged.setdefault(tag, []).append(arm)

    def tag_of(value: Any) -> str:
        tag = "[null]" if value is None else "[section]" if isinstance(value, Mapping) else "[value]"
        return tag if tag in tagged else "[value]"

    if len(tagged) == 1:
        return typing.Union[arms]  # noqa: UP007 - a union of unknown length
    unions = [Annotated[typing.Union[tuple(of)], Tag(tag)] for tag, of in tagged.items()]  # noqa: UP007
    return Annotated[typing.Union[tuple(unions)], Discriminator(tag_of)]  # noqa: UP007


def plain(value: Any) -> Any:
    """A dataclass (nested, with tuples and mappings) as plain data: what a scenario file would say."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def _default(field: dataclasses.Field[Any]) -> Any:
    """The default of a field as plain data. A `kind` has none: a file must say which one it means."""
    if field.name == "kind":
        return ...
    if field.default_factory is not dataclasses.MISSING:
        kind = getattr(field.default_factory, "kind", None)
        return {"kind": kind} if kind else plain(field.default_factory())
    return ... if field.default is dataclasses.MISSING else plain(field.default)


def _named(read: Callable[[str], Any], value: Any) -> Any:
    """What a text names; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return read(value)
    except ValueError as error:
        _fail(str(error))


def _keys_of(cls: type, value: Any) -> Mapping[str, Any]:
    names = [field.name for field in dataclasses.fields(cls)]
    if isinstance(value, cls):
        return {name: getattr(value, name) for name in names}
    if not isinstance(value, Mapping):
        _fail(f"must be a section of keys, not {shown(value)}; valid keys: {', '.join(names)}")
    for key in value:
        if key not in names:
            _fail(f"unknown key; {choices(str(key), names)}", str(key))
    for field in dataclasses.fields(cls):
        if field.name not in value and _default(field) is ...:
            _fail(f"is required ({field_docs(cls).get(field.name, 'no default').rstrip('.')})", field.name)
    return value


def _construct(cls: type[T], model: BaseModel) -> T:
    try:
        return cls(**dict(model))
    except ScenarioError as error:
        _fail(error.problem, error.key)
    except ValueError as error:
        named = _FIELD_FIRST.fullmatch(str(error))
        if named and named["key"].split(".")[0] in type(model).model_fields:
            _fail(named["problem"], named["key"])
        _fail(str(error))


def _fail(problem: str, key: str = "") -> NoReturn:
    raise PydanticCustomError("problem", "{problem}", {"problem": problem, "key": key})


def _unquoted(value: Any) -> Any:
    """Numbers written as text, and NumPy's, as Python's own."""
    if isinstance(value, str) and NUMBER.fullmatch(value):
        return float(value)
    return int(value) if isinstance(value, numbers.Integral) and not isinstance(value, bool) else value


def _whole(value: Any) -> Any:
    """1e6 is a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _unwrapped(value: Any) -> Any:
    """NumPy arrays as lists."""
    return value.tolist() if hasattr(value, "tolist") else value


_LEAVES: Mapping[Any, Any] = {
    bool: Annotated[bool, Strict()],
    str: Annotated[str, Strict()],
    float: Annotated[float, Strict(), AllowInfNan(False), BeforeValidator(_unquoted)],
    int: Annotated[int, Strict(), BeforeValidator(_whole), BeforeValidator(_unquoted)],
}
