"""Dataclasses to plain JSON values and back: every type is checked on the way in, every error names the field.

Leaves to others: the bytes (tokcore.files.canonical_json) and what values mean (each class).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tokcore.errors import FormatError, VersionError

T = TypeVar("T")

LEFT_OUT: Mapping[str, bool] = {"left out": True}  # metadata of a dataclass field, see written_unless


def written_unless(default: Any) -> Any:
    """A dataclass field that the JSON form leaves out while it holds its default, which can then never change.

    >>> @dataclasses.dataclass
    ... class Counted:
    ...     rows: int
    ...     masked: int = written_unless(0)
    >>> to_jsonable(Counted(5)), to_jsonable(Counted(5, 2))
    ({'rows': 5}, {'rows': 5, 'masked': 2})
    """
    return dataclasses.field(default=default, metadata=LEFT_OUT)


class Place(NamedTuple):
    """Where a value stands: the name of its file, and the path of fields to it."""

    name: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.path}" if self.path else self.name

    def field(self, key: str) -> Place:
        """The place of a field of the object here."""
        return Place(self.name, f"{self.path}.{key}" if self.path else key)

    def item(self, index: int) -> Place:
        """The place of an item of the list here."""
        return Place(self.name, f"{self.path}[{index}]")

    def error(self, expected: str, found: object) -> FormatError:
        """The error for a value that is not what is expected here."""
        return FormatError(f"{self}: expected {expected}, found {found!r:.80}")


class Read(NamedTuple):
    """Annotated[T, Read(function)]: the type of a field that has a reader of its own, such as a long list.

    function: (JSON value, its place) -> T, or FormatError.
    """

    function: Callable[[Any, Place], Any]


def to_jsonable(value: Any) -> Any:
    """The plain JSON form of a dataclass of str, int, bool, None, tuples, dicts with str keys and dataclasses."""
    if type(value) in _SCALARS:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            name: held if type(held) in _SCALARS else to_jsonable(held)
            for name, left_out_at in _list_left_out(type(value)).items()
            if (held := getattr(value, name)) != left_out_at
        }
    if isinstance(value, dict):
        return {key: to_jsonable(item) for key, item in value.items()}
    if isinstance(value, Sequence):  # text and bytes are not: the one is a scalar, the other has no JSON form
        assert not isinstance(value, bytes), f"{type(value)} has no JSON form here"
        return [to_jsonable(item) for item in value]
    assert value is None or isinstance(value, (bool, int, str)), f"{type(value)} has no JSON form here"
    return value


def from_jsonable(cls: type[T], value: Any, place: str | Place, *, partial: bool = False) -> T:
    """An instance of dataclass cls. place: the file that the value comes from, for errors.

    A field with a default may be missing. A union of dataclasses is read as the one whose fields fit best.
    Raises FormatError for a missing, unknown or mistyped field. partial: cls names the fields that the caller needs,
    unknown ones are passed over.
    """
    place = Place(place) if isinstance(place, str) else place
    if not partial:
        with contextlib.suppress(_MisfitError):
            return typing.cast(T, _make_reader(typing.cast(Any, cls))(value))
    return typing.cast(T, _decode(cls, value, place, partial))


def require_version(value: Any, name: str, format_name: str, *versions: int) -> None:
    """Raise FormatError unless value says that it is of this format, VersionError unless of a version."""
    if not isinstance(value, dict):
        raise Place(name).error("an object", value)
    if value.get("format") != format_name:
        raise Place(name, "format").error(repr(format_name), value.get("format"))
    if (found := value.get("format_version")) not in versions or type(found) is not int:
        raise VersionError(
            f"{name}: format_version {found!r:.80}, this release reads {' and '.join(map(str, versions))}. "
            f"Read it with the tokcore release that wrote it, or upgrade tokcore."
        )


def _decode(kind: Any, value: Any, place: Place, partial: bool) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        (read,) = (one for one in arguments[1:] if isinstance(one, Read))
        return read.function(value, place)
    if dataclasses.is_dataclass(origin or kind):
        return _decode_object(kind, value, place, partial)
    if origin in (typing.Union, types.UnionType):
        return _decode(_choose_fitting(arguments, value), value, place, partial)
    if origin is tuple and type(value) is list:
        if arguments[-1] is ...:
            return tuple(_decode(arguments[0], item, place.item(i), partial) for i, item in enumerate(value))
        if len(value) == len(arguments):
            return tuple(
                _decode(one, item, place.item(i), partial)
                for i, (one, item) in enumerate(zip(arguments, value, strict=True))
            )
        raise place.error(f"a list of {len(arguments)}", value)
    if origin is dict and type(value) is dict:
        return {key: _decode(arguments[1], item, place.field(key), partial) for key, item in value.items()}
    if origin is typing.Literal:
        if any(value == one and type(value) is type(one) for one in arguments):
            return value
        raise place.error(" or ".join(map(repr, arguments)), value)
    if kind is Any:
        return value
    if kind in _SCALARS and type(value) is kind:
        return value
    raise place.error(_NAMES.get(origin or kind, str(kind)), value)


_SCALARS = (int, str, bool, types.NoneType)
_NAMES = {int: "int", str: "str", bool: "bool", types.NoneType: "null", tuple: "a list", dict: "an object"}


def _decode_object(kind: Any, value: Any, place: Place, partial: bool) -> Any:
    if type(value) is not dict:
        raise place.error("an object", value)
    fields = _list_fields(kind)
    if not partial and (unknown := sorted(set(value) - set(fields))):
        raise FormatError(f"{place}: unknown field {unknown[0]!r:.80}")
    for name, field in fields.items():
        if field.is_required and name not in value:
            raise FormatError(f"{place.field(name)} is missing")
    cls = typing.get_origin(kind) or kind
    return cls(
        **{
            name: _decode(field.kind, value[name], place.field(name), partial)
            for name, field in fields.items()
            if name in value
        }
    )


# ------------------------------------------------------------------------------- the same, a type looked at only once


class _MisfitError(Exception):
    """A value is not of its type; _decode says where and why."""


_Reader = Callable[[Any], Any]


@functools.cache
def _make_reader(kind: Any) -> _Reader:
    """What gives the same as _decode, several times as fast, or raises _MisfitError."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(origin or kind):
        return _make_object_reader(kind)
    if origin in (typing.Union, types.UnionType):
        return _make_union_reader(arguments)
    if origin is tuple and arguments[-1] is ...:
        return _make_list_reader(_make_reader(arguments[0]))
    if origin is dict:
        return _make_dict_reader(_make_reader(arguments[1]))
    if kind in _SCALARS:
        return _make_scalar_reader(kind)
    return lambda value: _decode_or_misfit(kind, value)  # rare ones


def _decode_or_misfit(kind: Any, value: Any) -> Any:
    try:
        return _decode(kind, value, Place(""), False)
    except FormatError as error:
        raise _MisfitError from error


def _make_scalar_reader(kind: type) -> _Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise _MisfitError
        return value

    return read


def _make_list_reader(of_item: _Reader) -> _Reader:
    def read(value: Any) -> Any:
        if type(value) is not list:
            raise _MisfitError
        return tuple([of_item(item) for item in value])

    return read


def _make_dict_reader(of_item: _Reader) -> _Reader:
    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _MisfitError
        return {key: of_item(item) for key, item in value.items()}

    return read


def _make_union_reader(kinds: tuple[Any, ...]) -> _Reader:
    @functools.lru_cache(maxsize=64)
    def choose(names: tuple[str, ...]) -> _Reader:
        return _make_reader(_choose_fitting(kinds, dict.fromkeys(names)))

    def read(value: Any) -> Any:
        if type(value) is dict:  # which object fits follows from the names of its fields alone
            return choose(tuple(value))(value)
        return _make_reader(_choose_fitting(kinds, value))(value)

    return read


def _make_object_reader(kind: Any) -> _Reader:
    cls, fields = typing.get_origin(kind) or kind, _list_fields(kind)
    scalars = {name: field.kind for name, field in fields.items() if field.kind in _SCALARS}
    readers = {name: _make_reader(field.kind) for name, field in fields.items() if name not in scalars}

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _MisfitError
        found = {}
        for name, item in value.items():
            if (scalar := scalars.get(name)) is not None:
                if type(item) is not scalar:
                    raise _MisfitError
                found[name] = item
            elif (reader := readers.get(name)) is not None:
                found[name] = reader(item)
            else:
                raise _MisfitError
        try:
            return cls(**found)
        except TypeError as error:  # a field is missing
            raise _MisfitError from error

    return read


# ---------------------------------------------------------------------------------------------------- fields and unions


def _choose_fitting(kinds: tuple[Any, ...], value: Any) -> Any:
    """The type of a union that a value is to be read as: of several objects the one with the fewest fields amiss."""
    alike = [kind for kind in kinds if _find_json_type(kind) is type(value)]
    if len(alike) < 2 or type(value) is not dict:
        return (alike or [kind for kind in kinds if kind is not types.NoneType])[0]

    def num_amiss(kind: Any) -> int:
        fields = _list_fields(kind)
        missing = sum(field.is_required and name not in value for name, field in fields.items())
        return missing + len(set(value) - set(fields))

    return min(alike, key=num_amiss)


def _find_json_type(kind: Any) -> type:
    origin = typing.get_origin(kind) or kind
    return dict if dataclasses.is_dataclass(origin) else list if origin is tuple else origin


@functools.cache
def _list_left_out(kind: Any) -> dict[str, Any]:
    """Name of a field -> the value at which the JSON form leaves it out."""
    return {name: field.left_out_at for name, field in _list_fields(kind).items()}


class _Field(NamedTuple):
    kind: Any
    is_required: bool
    left_out_at: Any  # the JSON form leaves the field out while it holds this


_NEVER = object()


@functools.cache
def _list_fields(kind: Any) -> dict[str, _Field]:
    """The fields of a dataclass by name; kind may be generic, with types in place of its type variables."""
    cls = typing.get_origin(kind) or kind
    chosen = dict(zip(getattr(cls, "__parameters__", ()), typing.get_args(kind), strict=False))
    hints = typing.get_type_hints(cls, include_extras=True)
    no_default = dataclasses.MISSING
    return {
        field.name: _Field(
            _substitute(hints[field.name], chosen),
            field.default is no_default and field.default_factory is no_default,
            field.default if "left out" in field.metadata else _NEVER,
        )
        for field in dataclasses.fields(cls)
    }


def _substitute(hint: Any, chosen: dict[Any, Any]) -> Any:
    """A type with the chosen types in place of its type variables."""
    if isinstance(hint, TypeVar):
        return chosen.get(hint, hint)
    if variables := getattr(hint, "__parameters__", ()):
        return hint[tuple(chosen.get(variable, variable) for variable in variables)]
    return hint
