"""A parquet or Arrow file as the decoders see it: a size, and bytes at a position."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from tokcore_pipelines.reading import limits

# Limit of the rows decoded at once, and of a row group's column, which may have MAX_RATIO times its stored size more.
MAX_DECODED_BYTES = 1 << 28


class SeekableFile(Protocol):
    def seek(self, offset: int, whence: int = 0) -> int: ...
    def read(self, size: int = -1) -> bytes: ...
    def readinto(self, buffer: Any) -> int | None: ...
    def size(self) -> int: ...


class RowFile:
    """A file of rows. A small one is read at once, and then its bytes are data."""

    def __init__(self, file: SeekableFile) -> None:
        self._file = file
        self.size_bytes = file.size()
        self.data: bytearray | None = None
        if self.size_bytes <= limits.IN_MEMORY_BYTES:
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
