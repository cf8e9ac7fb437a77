"""A table of formats, models, readers or steps that also finds those of other distributions, by their entry points.

    [project.entry-points."tokcore.formats"]     # or tokcore.models, tokcore.readers, tokcore.maps
    toy = "toy_package:ToyFormat"                # a class that is made without arguments

Nothing of another distribution is looked for, let alone imported, before a name is asked for that is not ours.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from tokcore.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Row = TypeVar("Row")


class PluginTable(Mapping[str, Row], Generic[Row]):
    """Name -> row. Iterating gives ours; asking for another name finds that of an installed distribution, too.

    group: of the entry points. kind: the class that rows derive from. own: the rows of this
    library, which no other distribution can replace.

    >>> table = PluginTable("tokcore.examples", str, {"ours": "a row"})
    >>> table["ours"], table.find_version("ours"), "theirs" in table, [*table]
    ('a row', '', False, ['ours'])
    """

    def __init__(self, group: str, kind: type[Row], own: Mapping[str, Row]) -> None:
        self._group, self._kind, self._own = group, kind, own

    def __getitem__(self, name: str) -> Row:
        """Raises KeyError for an unknown name, ConfigError for an entry point that is not of the expected class."""
        if (own := self._own.get(name)) is not None:
            return own
        row: Row = _load(self._group, cast(Any, self._kind), name)
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def list_others(self) -> list[str]:
        """The names that installed distributions add, sorted."""
        return sorted(name for name in _find_entries(self._group) if name not in self._own)

    def find_version(self, name: str) -> str:
        """Distribution and version of a row that is not ours: "tokcore-toy 1.2". Empty for one of ours."""
        if name in self._own or name not in self:
            return ""
        return _describe(_find_entries(self._group)[name][0])

    def find_module(self, name: str) -> tuple[str, str]:
        """(module, distribution and version) of a row of others, which is not imported. Raises ConfigError for none."""
        if not (entries := _find_entries(self._group).get(name, ())):
            raise ConfigError(f"no distribution that is installed has an entry point {name!r} of {self._group}")
        return entries[0].module, _describe(entries[0])

    def find_versions(self, names: Iterable[str]) -> dict[str, str] | None:
        """Name -> distribution and version, of those that are not ours; None if all are."""
        return {name: version for name in sorted(names) if (version := self.find_version(name))} or None


@functools.cache
def _load(group: str, kind: type, name: str) -> Any:
    if not (entries := _find_entries(group).get(name, ())):
        raise KeyError(name)
    entry, *others = entries
    told = f"{name!r} of {_describe(entry)}, an entry point of {group} ({entry.value})"
    if others:
        raise ConfigError(f"{told}: {_describe(others[0])} has that name, too. Uninstall one of the two distributions.")
    try:
        row = entry.load()()
    except Exception as error:
        raise ConfigError(f"{told}: cannot be loaded: {error!r:.200}. Update or uninstall it.") from error
    if not isinstance(row, kind):
        raise ConfigError(
            f"{told}: expected a class that derives from {kind.__module__}.{kind.__name__}, found {type(row).__name__}."
        )
    if (own_name := getattr(row, "name", name)) != name:
        raise ConfigError(f"{told}: calls itself {own_name!r}. Its entry point must have that name.")
    return row


@functools.cache  # to look through a hundred distributions takes 15 ms
def _find_entries(group: str) -> Mapping[str, list[EntryPoint]]:
    """Name -> the entry points that have it."""
    from importlib.metadata import entry_points  # takes 50 ms, and most processes ask for no name but ours

    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, []).append(entry)
    return found


def forget_entries() -> None:
    """Look for distributions again when the next name is asked for: some were installed meanwhile."""
    _find_entries.cache_clear()
    _load.cache_clear()


def _describe(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "a distribution without a name"
