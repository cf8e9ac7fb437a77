"""Whether names have a tombstone, be these inline or in files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tokcore.shards.tombstone_files import HashFile
from tokcore.shards.tombstones import Kind, hash_names, spell_tombstone


class TombstoneLookup:
    """The tombstones of an output.

    >>> removed = TombstoneLookup("00" * 32, [spell_tombstone("00" * 32, "id", "page-1")])
    >>> removed.has("id", "page-1"), removed.mark("id", ["page-2", None, "page-1"]).tolist()
    (True, [False, False, True])
    """

    def __init__(self, key: str, hashes: Iterable[str], files: Sequence[HashFile] = ()) -> None:
        """key, hashes: hexadecimal."""
        self.key = key
        self._inline = frozenset(map(bytes.fromhex, hashes))
        self._files = files

    def __contains__(self, tombstone: str) -> bool:
        """Whether this tombstone, hexadecimal, is among these."""
        return self._has(bytes.fromhex(tombstone))

    def spell(self, kind: Kind, name: str) -> str:
        """The tombstone of a name, whether or not it is among these."""
        return spell_tombstone(self.key, kind, name)

    def has(self, kind: Kind, name: str) -> bool:
        """Whether a name has one."""
        return self.spell(kind, name) in self

    def mark(self, kind: Kind, names: Sequence[str | None]) -> npt.NDArray[np.bool_]:
        """Which of these names have one; None never has."""
        where = [number for number, name in enumerate(names) if name is not None]
        records = hash_names(self.key, kind, (name for name in names if name is not None))
        marked = np.zeros(len(names), bool)
        marked[where] = [*map(self._has, records)]
        return marked

    def _has(self, record: bytes) -> bool:
        return record in self._inline or any(record in file for file in self._files)
