"""Open binary files as pyarrow wants them: ours to write to or read from, never pyarrow's to close."""

from __future__ import annotations

from typing import Any


class Sink:
    """What pyarrow needs of a file to write to, and no more: it must not close it."""

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
        """What is written goes to the file at once."""

    def close(self) -> None:
        """The file is the caller's."""


class Source:
    """What pyarrow needs of a file to read from, and no more: it must not close it."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        data: bytes = self._file.read(size)
        return data

    def close(self) -> None:
        """The file is the caller's."""
