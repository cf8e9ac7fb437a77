"""Tombstones: keyed hashes of what was removed from an output.

A tombstone is a keyed hash of a name: it tells whether a name that is at hand was removed, and holds neither the name
nor the text. Its key follows from the root of the build, so tombstones of outputs with other content cannot be
compared, and those of equal outputs in two stores are equal.

Where a build drops duplicates, one of the kind equal beside that of the same id says that all equal documents go, too.
The tombstone of a digest keeps these away even when the document that was named is gone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Literal

Kind = Literal["id", "lang", "source", "equal", "digest"]

_KEY_TAG = b"tokcore-removed-v1\0"
_HASH_BYTES = 16


def make_key(root: str) -> str:
    """The key of the tombstones of an output, hexadecimal. root: of the build that is its commit 0.

    In logs whose first removal is a commit of format_version 1, the sha256 of the build's manifest stands for root.
    """
    return hashlib.sha256(_KEY_TAG + bytes.fromhex(root)).hexdigest()


def spell_tombstone(key: str, kind: Kind, name: str) -> str:
    """The keyed hash of a name, 32 hexadecimal digits: of a document's id, a language, an input file's uri, a digest.

    >>> spell_tombstone("00" * 32, "id", "page-1") == spell_tombstone("00" * 32, "lang", "page-1")
    False
    """
    content = kind.encode() + b"\0" + name.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=_HASH_BYTES, key=bytes.fromhex(key)).hexdigest()


def hash_names(key: str, kind: Kind, names: Iterable[str]) -> Iterator[bytes]:
    """The tombstones of names of one kind, as files have them.

    >>> [one.hex() for one in hash_names("00" * 32, "id", ["page-1"])] == [spell_tombstone("00" * 32, "id", "page-1")]
    True
    """
    begun = hashlib.blake2b(kind.encode() + b"\0", digest_size=_HASH_BYTES, key=bytes.fromhex(key))
    for name in names:
        hasher = begun.copy()
        hasher.update(name.encode("utf-8", "surrogatepass"))
        yield hasher.digest()
