"""A setting of the build file, declared as one row: NAME: TYPE = key(DEFAULT, MEANING, LIMIT=...).

A field without key() is not a key of the file.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

from tokcore.plugins.plugin_table import PluginTable

REQUIRED: Any = dataclasses.MISSING  # in place of a default
MAX_INTEGER = 2**63 - 1  # TOML's largest integer, and the limit of a number without a limit of its own
Number = int | Decimal


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a setting beyond its type. For a list, least limits its length and options its values."""

    least: Number | None = None
    most: Number | None = None
    above: Number | None = None
    below: Number | None = None
    options: tuple[str, ...] = ()
    others: PluginTable[Any] | None = None  # whose names are options, too, if another distribution has them
    instead: str = ""  # advice if no option fits
    may_be_empty: bool = False  # for a string
    distinct: bool = False  # for a list: no value twice
    or_one: bool = False  # for a list: a string stands for a list of one
    keys: tuple[str, ...] = ()  # for a table of strings and booleans: its keys
    is_path: bool = False  # `~` and environment variables are replaced
    meant: tuple[tuple[str, str], ...] = ()  # (what others call it, the option that it is)
    strategies: tuple[str, ...] = ()  # the values of `strategy` beside it that use it; () if all do


def key(default: Any, text: str, **limits: Any) -> Any:
    """A field that is a key of the build file. text: what it means; limits: those of Limits.

    >>> @dataclasses.dataclass
    ... class PlanTable:
    ...     range_bytes: int = key(1024, "size of an input range", least=1)
    >>> list_settings(PlanTable)["range_bytes"].text, PlanTable().range_bytes
    ('size of an input range', 1024)
    """
    told = {"text": text, "limits": Limits(**limits)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=told)
    return dataclasses.field(default=default, metadata=told)


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One key of a table, as its class declares it."""

    attribute: str
    # str, int, bool, Decimal, object (any of these), Literal[...], tuple[..., ...], Mapping[str, Decimal | str | bool],
    # Mapping[str, tuple[Decimal | str, ...]], Mapping[str, a class of settings]
    kind: Any  # without None
    text: str
    limits: Limits
    default: Any  # dataclasses.MISSING if the key is required

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def options(self) -> tuple[str, ...]:
        """The allowed strings of the setting, or of each value of a list; () for any string."""
        kind = typing.get_args(self.kind)[0] if typing.get_origin(self.kind) is tuple else self.kind
        return typing.get_args(kind) if typing.get_origin(kind) is Literal else self.limits.options


def list_settings(table: type) -> Mapping[str, Setting]:
    """Key in the file -> its setting, in the order of the table's class."""
    return _list_settings(table)


def find_inner_table(kind: Any) -> Any:
    """The class of the tables that a setting has by name; None if it has none."""
    inside = typing.get_args(kind)[-1] if typing.get_origin(kind) is Mapping else None
    return inside if dataclasses.is_dataclass(inside) else None


@functools.cache  # each look at a class takes a millisecond, and a build file has many tables
def _list_settings(table: type) -> Mapping[str, Setting]:
    hints = typing.get_type_hints(table)
    return {
        field.name.rstrip("_"): _get_setting(field, hints[field.name])
        for field in dataclasses.fields(table)
        if field.metadata
    }


def _get_setting(field: dataclasses.Field[Any], kind: Any) -> Setting:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kind = next(one for one in typing.get_args(kind) if one is not type(None))
    made = field.default_factory
    default = field.default if made is dataclasses.MISSING else made()
    return Setting(field.name, kind, default=default, **field.metadata)
