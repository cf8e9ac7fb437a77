"""Blocks of bytes, of which memory holds a few megabytes: more of them wait in a file without a name."""

from __future__ import annotations

import tempfile
import threading
import weakref
from array import array
from collections.abc import Sequence
from typing import overload

HELD_BYTES = 16 << 20  # in memory


class SpooledBlocks(Sequence[bytes]):
    """A sequence of blocks that only grows."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(HELD_BYTES)  # noqa: SIM115 - it goes with this object
        weakref.finalize(self, self._file.close)
        self._ends = array("q", [0])
        self._lock = threading.Lock()  # a file has one place where it is read

    def append(self, block: bytes) -> None:
        """Add one at the end."""
        with self._lock:
            self._file.seek(self._ends[-1])
            self._file.write(block)
            self._ends.append(self._ends[-1] + len(block))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        with self._lock:
            self._file.seek(self._ends[index])
            return self._file.read(self._ends[index + 1] - self._ends[index])
