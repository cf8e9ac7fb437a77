"""Files at URLs, of which only the blocks that are needed are read. The blocks used last stay in memory.

Readers of shards ask find_ranged() whether a path that they were given is such a file. Leaves to others: other machines
(tokcore.files.url_files) and what the bytes mean. Only the size of a file is compared with what its manifest says.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from tokcore.errors import ChecksumError, FormatError
from tokcore.files.url_files import read_range

BLOCK_BYTES = 1 << 17  # the least that is asked for; a quarter of it is no faster
MOST_KEPT_BYTES = 1 << 26  # of the blocks that a process keeps, of all files together
MOST_AHEAD_BYTES = 1 << 22  # read ahead of what is needed, while a file is read from front to back


class _Blocks:
    """The blocks that were used last; the one unused for longest goes first. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, int], bytes] = OrderedDict()
        self.size_bytes = 0

    def find(self, key: tuple[str, str, int]) -> bytes | None:
        with self._lock:
            if (found := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
            return found

    def keep(self, key: tuple[str, str, int], block: bytes) -> None:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = block
                self.size_bytes += len(block)
            while self.size_bytes > MOST_KEPT_BYTES:
                _, gone = self._kept.popitem(last=False)
                self.size_bytes -= len(gone)

    def renew_lock(self) -> None:
        """A forked process may find the lock held by a thread that it does not have."""
        self._lock = threading.Lock()


kept_blocks = _Blocks()
os.register_at_fork(after_in_child=kept_blocks.renew_lock)


class RangedFile(io.RawIOBase):
    """A file at a URL, opened for reading. read_range() is safe to call from several threads."""

    def __init__(self, url: str, size_bytes: int, sha256: str) -> None:
        """size_bytes, sha256: of the file as a manifest names it, so that blocks of another build are never taken."""
        super().__init__()
        self.url, self.size_bytes, self._sha256 = url, size_bytes, sha256
        self._position = 0
        self._next = 0  # the block after the last one asked for
        self._ahead = 0  # blocks

    def read_range(self, start: int, end: int) -> bytes:
        """Bytes start to end, end excluded, or to the end of the file if it comes first.

        Raises ChecksumError if the file is shorter than that, FormatError if it cannot be read.
        """
        if start >= (end := min(end, self.size_bytes)):
            return b""
        first, last = start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        parts = {number: kept_blocks.find(self._key(number)) for number in range(first, last + 1)}
        missing = [number for number, block in parts.items() if block is None]
        while missing:
            run = [number for i, number in enumerate(missing) if number == missing[0] + i]
            missing = missing[len(run) :]
            parts.update(self._fetch(run[0], run[-1]))
        data = b"".join(block for number, block in sorted(parts.items()) if number <= last and block is not None)
        return data[start - first * BLOCK_BYTES : end - first * BLOCK_BYTES]

    def _fetch(self, first: int, last: int) -> dict[int, bytes]:
        """Blocks first to last with one request, and some after them if the file is read from front to back."""
        self._ahead = min(2 * self._ahead + 1, MOST_AHEAD_BYTES // BLOCK_BYTES) if first == self._next and first else 0
        self._next = last + self._ahead + 1
        start, end = first * BLOCK_BYTES, min(self._next * BLOCK_BYTES, self.size_bytes)
        data = read_range(self.url, start, end)
        if len(data) != end - start:
            raise ChecksumError(
                f"{self.url}: ends at byte {start + len(data)}, the manifest says {self.size_bytes}. The file was "
                f"changed, or the answer was cut off: try again, then run `tokcore verify` on the output."
            )
        blocks = {first + i // BLOCK_BYTES: data[i : i + BLOCK_BYTES] for i in range(0, len(data), BLOCK_BYTES)}
        for number, block in blocks.items():
            kept_blocks.keep(self._key(number), block)
        return blocks

    def _key(self, number: int) -> tuple[str, str, int]:
        return self.url, self._sha256, number

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = (0, self._position, self.size_bytes)[whence] + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self.size_bytes - self._position)
        data = self.read_range(self._position, self._position + (left if size is None or size < 0 else min(size, left)))
        self._position += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)


class RangedIds:
    """Integers of a file at a URL: a slice of them asks for its bytes. Safe to read from several threads."""

    def __init__(self, file: RangedFile, dtype: npt.DTypeLike, offset: int, count: int) -> None:
        self._file, self._dtype, self._offset, self._count = file, np.dtype(dtype), offset, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, part: slice) -> npt.NDArray[Any]:
        start, end, _ = part.indices(self._count)
        width = self._dtype.itemsize
        data = self._file.read_range(self._offset + start * width, self._offset + max(start, end) * width)
        return np.frombuffer(data, self._dtype)


_open: ContextVar[dict[str, RangedFile] | None] = ContextVar("files that are read by ranges", default=None)


@contextlib.contextmanager
def read_by_ranges(files: Iterable[RangedFile]) -> Iterator[None]:
    """While the block runs, the URLs of these files are paths that readers of shards may open."""
    token = _open.set({file.url: file for file in files})
    try:
        yield
    finally:
        _open.reset(token)


def find_ranged(path: str) -> RangedFile | None:
    """The file that is to be read by ranges; None for a path on this machine.

    Raises FormatError for the URL of a file that the manifest does not name.
    """
    named = _open.get()
    if named is None:
        return None
    if (file := named.get(path)) is None:
        raise FormatError(f"{path}: the manifest of its folder does not name it")
    return file
