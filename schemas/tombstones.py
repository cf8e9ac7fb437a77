"""Tombstones: keyed hashes of what was removed from an output, so that no later commit brings it back.

A hash tells whether a name that is at hand was removed. It holds neither the name nor the text. Its key follows from
the root of the build, so tombstones of outputs with other content cannot be compared, and those of equal outputs in
two stores are equal. Who has the output can test names by guessing them.

Few stand inline, in commits and in the read settings of plans. Many are in files (tokcore.shards.tombstone_files),
which commits and read settings name; looking those up takes the output that has them
(tokcore_pipelines.store.opened_tombstones).
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Sequence

from tokcore.files.jsonable import written_unless
from tokcore.shards.tombstones import Kind, spell_tombstone

REMOVED = "removed"  # the folder of the files, below the output

_NAME_DIGITS = 16


@dataclasses.dataclass(frozen=True, slots=True)
class TombstoneFile:
    """A file of tombstones, as commits and read settings name it."""

    path: str  # below the output
    sha256: str
    num: int  # tombstones in it
    # sha256 of files all of whose tombstones it has, too, since it was made from them.
    holds: tuple[str, ...] = written_unless(())
    final: bool = written_unless(False)  # no later commit may take one back


@dataclasses.dataclass(frozen=True, slots=True)
class Tombstones:
    """What was removed from an output: inline, and in files."""

    key: str  # hexadecimal
    hashes: tuple[str, ...]  # inline: sorted and distinct, hexadecimal
    files: tuple[TombstoneFile, ...] = written_unless(())

    def __contains__(self, tombstone: str) -> bool:
        """Whether a tombstone is inline. Asking that of some that are in files is a mistake of the caller."""
        assert not self.files, "open the files: tokcore_pipelines.store.opened_tombstones"
        place = bisect.bisect_left(self.hashes, tombstone)
        return self.hashes[place : place + 1] == (tombstone,)

    @property
    def num(self) -> int:
        """How many there are, at most: a name may be inline and in a file, or in two."""
        return len(self.hashes) + sum(file.num for file in self.files)

    def spell(self, kind: Kind, name: str) -> str:
        """The tombstone of a name, whether or not it is among these."""
        return spell_tombstone(self.key, kind, name)

    def holds(self, other: Tombstones) -> bool:
        """Whether all of other tombstones of the output are surely among these. Reads no file."""
        return frozenset(self.hashes).issuperset(other.hashes) and not leave_out_held(other.files, self.files)


def name_file(sha256: str) -> str:
    """The path of a file of tombstones, below the output.

    >>> name_file("0123456789abcdef" * 4)
    'removed/0123456789abcdef.tombs'
    """
    return f"{REMOVED}/{sha256[:_NAME_DIGITS]}.tombs"


def merge_tombstones(key: str, hashes: Iterable[str], files: Iterable[TombstoneFile] = ()) -> Tombstones | None:
    """These tombstones, sorted and each once; None if there are none, so that what was never touched stays equal."""
    distinct, named = tuple(sorted({*hashes})), tuple(sorted(files, key=lambda file: file.path))
    return Tombstones(key, distinct, named) if distinct or named else None


def unite_tombstones(one: Tombstones | None, other: Tombstones | None) -> Tombstones | None:
    """What one of the two has, of one output. Of files that hold each other's tombstones, the largest are kept."""
    if one is None or other is None:
        return one or other
    files = dict.fromkeys([*other.files, *leave_out_held(one.files, other.files)])
    kept = [file for file in files if leave_out_held([file], [*(beside for beside in files if beside != file)])]
    return merge_tombstones(one.key, [*one.hashes, *other.hashes], kept)


def leave_out_held(files: Iterable[TombstoneFile], by: Sequence[TombstoneFile]) -> list[TombstoneFile]:
    """Those of these files that are none of others, and whose tombstones no other one says to hold."""
    held = {sha256 for file in by for sha256 in (file.sha256, *file.holds)}
    return [file for file in files if file.sha256 not in held]
