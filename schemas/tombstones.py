"""Tombstones: keyed hashes of what was removed from an output, so that no later commit brings it back.

A hash tells whether a name that is at hand was removed. It holds neither the name nor the text. Its key follows from
the root of the build, so tombstones of outputs with other content cannot be compared, and those of equal outputs in
two stores are equal. Who has the output can test names by guessing them.
"""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
from collections.abc import Iterable
from typing import Literal

Kind = Literal["id", "lang", "source"]

_KEY_TAG = b"tokcore-removed-v1\0"
_HASH_BYTES = 16


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


def make_key(root: str) -> str:
    """The key of the tombstones of an output, hexadecimal. root: of the build that is its commit 0.

    In logs whose first removal is a commit of format_version 1, the sha256 of the build's manifest stands for root.
    """
    return hashlib.sha256(_KEY_TAG + bytes.fromhex(root)).hexdigest()


def spell_tombstone(key: str, kind: Kind, name: str) -> str:
    """The keyed hash of a document's id, of a language, or of the uri of an input file: 32 hexadecimal digits.

    >>> spell_tombstone("00" * 32, "id", "page-1") == spell_tombstone("00" * 32, "lang", "page-1")
    False
    """
    content = kind.encode() + b"\0" + name.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=_HASH_BYTES, key=bytes.fromhex(key)).hexdigest()


def merge_tombstones(key: str, hashes: Iterable[str]) -> Tombstones | None:
    """These tombstones, sorted and each once; None if there are none, so that what was never touched stays equal."""
    distinct = tuple(sorted({*hashes}))
    return Tombstones(key, distinct) if distinct else None
