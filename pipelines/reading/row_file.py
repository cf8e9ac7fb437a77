"""A parquet or Arrow file as the decoders see it: a size, and bytes at a position."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from tokcore_pipelines.reading import limits
from tokcore_pipelines.reading.records import FileRejected, make_printable

# Limit of the rows decoded at once, and of a row group's column, which may have MAX_RATIO times its stored size more.
MAX_DECODED_BYTES = 1 << 28


def require_magic(file: RowFile, magic: bytes, name: str) -> None:
    """Raises FileRejected unless a file begins and ends with these bytes. name: of its format, with an article."""
    start = file.read_at(0, len(magic))
    if start != magic[: len(start)]:
        raise FileRejected("corrupt", f"not {name}: it starts with {make_printable(start)}")
    if file.size_bytes < 2 * len(magic) or file.read_at(file.size_bytes - len(magic), len(magic)) != magic:
        raise FileRejected("truncated", f"{name} ends with {make_printable(magic)}; this one does not")


class SeekableFile(Protocol):
    def seek(self, offset: int, whence: int = 0) -> int: ...
    def read(self, size: int = -1) -> bytes: ...
    def readinto(self, buffer: Any) -> int | None: ...
    def size(self) -> int: ...


class RowFile:
    """A file of rows. A small one is read at once, and then its bytes are data."""

    def __init__(self, file: SeekableFile, reads_at_once: bool = True) -> None:
        """reads_at_once: whether a small file is; it is not where others read other parts of it."""
        self._file = file
        self.size_bytes = file.size()
        self.data: bytearray | None = None
        if reads_at_once and self.size_bytes <= limits.IN_MEMORY_BYTES:
            self.data = bytearray(self.size_bytes)
            file.seek(0)
            file.readinto(self.data)

    def read_at(self, start: int, length: int) -> bytes:
        """Bytes from start on, fewer only at the end of the file. Raises ValueError for a negative position."""
        if start < 0 or length < 0:
            raise ValueError(f"{length} bytes at byte {start}")
        if self.data is not None:
            return bytes(memoryview(self.data)[start : start + length])
        self._file.seek(start)
        return self._file.read(length)

    def source(self) -> Any:
        """The file as the Arrow library reads it, from its start."""
        if self.data is not None:
            return pa.BufferReader(pa.py_buffer(self.data))
        self._file.seek(0)
        return pa.PythonFile(self._file, mode="r")
