"""Dataclasses to plain JSON values and back, with every type checked on the way in.

Leaves to others: the bytes (tokcore.canonical) and the meaning (each class).
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from typing import Any, TypeVar

from tokcore.errors import FormatError

T = TypeVar("T")


def to_jsonable(value: Any) -> Any:
    """The plain JSON form of a dataclass of str, int, bool, None, tuples, dicts with str keys and dataclasses."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_jsonable(getattr(value, name)) for name in _fields(type(value))}
    if isinstance(value, (list, tuple)):
        return [to_jsonable(item) for item in value]
    if isinstance(value, dict):
        return {key: to_jsonable(item) for key, item in value.items()}
    assert value is None or isinstance(value, (bool, int, str)), f"{type(value)} has no JSON form here"
    return value


def from_jsonable(cls: type[T], value: Any, name: str) -> T:
    """An instance of dataclass cls; name says where the value came from.

    Raises FormatError for a missing, unknown or mistyped field; a field with a default may be missing.
    """
    return typing.cast(T, _decode(cls, value, name))


def _decode(kind: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise FormatError(f"{where}: expected an object, found {type(value).__name__}")
        fields = _fields(typing.cast(type, kind))
        if unknown := sorted(set(value) - set(fields)):
            raise FormatError(f"{where}: unknown field {unknown[0]!r}")
        missing = [n for n, (_, required) in fields.items() if required and n not in value]
        if missing:
            raise FormatError(f"{where}: field {missing[0]!r} is missing")
        return typing.cast(type, kind)(**{n: _decode(fields[n][0], item, f"{where}.{n}") for n, item in value.items()})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and isinstance(value, list):
        return tuple(_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return {key: _decode(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        rest = [a for a in arguments if a is not type(None)]
        if len(rest) == 1:
            return _decode(rest[0], value, where)
    if kind is Any:
        return value
    if kind in (int, str, bool) and type(value) is kind:
        return value
    raise FormatError(f"{where}: expected {getattr(kind, '__name__', kind)}, found {value!r:.80}")


@functools.cache
def _fields(cls: type) -> dict[str, tuple[Any, bool]]:
    """Field name -> (type, required)."""
    hints = typing.get_type_hints(cls)
    no_default = dataclasses.MISSING
    return {
        field.name: (hints[field.name], field.default is no_default and field.default_factory is no_default)
        for field in dataclasses.fields(cls)
    }
