"""Tombstones: keyed hashes of what was removed from an output, so that no later commit brings it back.

A hash tells whether a name that is at hand was removed. It holds neither the name nor the text. Its key follows from
the root of the build, so tombstones of outputs with other content cannot be compared, and those of equal outputs in
two stores are equal. Who has the output can test names by guessing them.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable

from tokcore.shards.tombstones import Kind, spell_tombstone


@dataclasses.dataclass(frozen=True, slots=True)
class Tombstones:
    """What was removed from an output, sorted and distinct, as hexadecimal keyed hashes."""

    key: str  # hexadecimal
    hashes: tuple[str, ...]

    def __contains__(self, tombstone: str) -> bool:
        place = bisect.bisect_left(self.hashes, tombstone)
        return self.hashes[place : place + 1] == (tombstone,)

    def spell(self, kind: Kind, name: str) -> str:
        """The tombstone of a name, whether or not it is among these."""
        return spell_tombstone(self.key, kind, name)


def merge_tombstones(key: str, hashes: Iterable[str]) -> Tombstones | None:
    """These tombstones, sorted and each once; None if there are none, so that what was never touched stays equal."""
    distinct = tuple(sorted({*hashes}))
    return Tombstones(key, distinct) if distinct else None
