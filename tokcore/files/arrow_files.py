"""Open binary files for pyarrow to write to or read from, which pyarrow must not close."""

from __future__ import annotations

from typing import Any


class Sink:
    """The methods that pyarrow needs to write to a file; close() leaves the file open."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self._position = 0

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._file.write(view)
        self._position += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Does nothing: write() passes everything on at once."""

    def close(self) -> None:
        """Does nothing: the caller closes the file."""


class Source:
    """The methods that pyarrow needs to read from a file; close() leaves the file open."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        data: bytes = self._file.read(size)
        return data

    def close(self) -> None:
        """Does nothing: the caller closes the file."""
