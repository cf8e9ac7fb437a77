"""Ids as `--ids FILE` gives them, however many, and their tombstones.

Few are in memory. Of a file with more than MANY lines only tombstones are held, sorted, in a file of this machine.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tokcore.errors import ConfigError
from tokcore.shards.tombstone_files import Hashes, HashSorter, count, subtract, write_hashes
from tokcore.shards.tombstones import Kind, hash_names
from tokcore_pipelines.store.opened_tombstones import OpenedTombstones
from tokcore_schemas.tombstones import TombstoneFile, Tombstones

MANY = 10_000


class IdFile:
    """Many ids, a line each in a file of this machine. Each iteration reads it."""

    def __init__(self, path: str | Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[str]:
        """Raises ConfigError if the file is not in UTF-8."""
        number = 0
        try:
            with Path(self.path).open(encoding="utf-8-sig") as file:
                for line in file:
                    number += 1
                    if one := line.removesuffix("\n"):
                        yield one
        except UnicodeDecodeError as error:
            raise ConfigError(f"{self.path}: expected UTF-8, and what follows line {number} is not") from error


Ids = Sequence[str] | IdFile


def read_ids(path: str | Path) -> Ids:
    """The ids in a file. Raises ConfigError if it is not in UTF-8."""
    file = IdFile(path)
    first = tuple(itertools.islice(file, MANY + 1))
    return file if len(first) > MANY else first


def make_wanted(key: str, names: Iterable[tuple[Kind, str]], many: IdFile | None, folder: str) -> OpenedTombstones:
    """The tombstones of names. names: in memory. many: ids that are not. folder: a path; what is in it is read later.

    Takes less than 200 MB of memory, and 32 bytes of the folder's disk for each id, while it sorts them.
    """
    plain = Tombstones(key, ())
    hashes = tuple(sorted({plain.spell(*name) for name in names}))
    if many is None:
        return OpenedTombstones(Tombstones(key, hashes), folder)
    with contextlib.closing(HashSorter(folder)) as sorter:
        for record in hash_names(key, "id", many):
            sorter.add(record)
        file = write_here(sorter.blocks(), folder, "wanted")
    return OpenedTombstones(Tombstones(key, hashes, (file,)), folder)


def write_here(blocks: Iterable[Hashes], folder: str, name: str) -> TombstoneFile:
    """A file of tombstones that no output has. folder: a path."""
    with Path(folder, name).open("wb") as file:
        made = write_hashes(file, blocks)
    return TombstoneFile(name, made.sha256, made.num)


class FoundNames:
    """Which of the names that are wanted were found. Where these are many, so may those be."""

    def __init__(self, wanted: OpenedTombstones, folder: str) -> None:
        """folder: a path; what is in it is read later."""
        self._wanted = wanted
        self._folder = folder
        self._few: set[str] = set()
        self._sorter = HashSorter(folder) if wanted.plain.files else None

    def add(self, tombstones: Iterable[str]) -> None:
        """Take tombstones that were found."""
        if self._sorter is None:
            self._few.update(tombstones)
            return
        for one in tombstones:
            self._sorter.add(bytes.fromhex(one))

    def list_missing(
        self, before: OpenedTombstones | None, names: Iterable[tuple[Kind, str]], most: int
    ) -> tuple[list[tuple[Kind, str]], int]:
        """(the first of the names that were not found and have no tombstone yet, how many these are in all)."""
        missing = self._find_missing(before)
        if not missing.plain.num:
            return [], 0
        first = itertools.islice((one for one in names if missing.has(*one)), most)
        return [*dict.fromkeys(first)], missing.plain.num

    def count_unknown(self) -> int:
        """How many of the names that are wanted were not found."""
        if self._sorter is None:
            return self._find_missing(None).plain.num
        return count(subtract(self._wanted.blocks(), self._sorter.blocks()))

    def _find_missing(self, before: OpenedTombstones | None) -> OpenedTombstones:
        key = self._wanted.key
        if self._sorter is None:
            few = {one for one in self._wanted.plain.hashes if one not in self._few}
            few = {one for one in few if before is None or one not in before}
            return OpenedTombstones(Tombstones(key, tuple(sorted(few))), self._folder)
        known = [before.blocks()] if before is not None else []
        left = subtract(self._wanted.blocks(), self._sorter.blocks(), *known)
        file = write_here(left, self._folder, "missing")
        return OpenedTombstones(Tombstones(key, (), (file,)), self._folder)
