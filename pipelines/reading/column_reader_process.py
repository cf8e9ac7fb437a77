"""The loop of a reader process, which tokcore_pipelines.reading.column_reader starts and talks to.

It decodes parquet and Arrow files. It opens no file: the parent, which knows the store and the pins, hands it the bytes
that it asks for. If the library ends the process, the parent lives.
"""

from __future__ import annotations

import io
import os
import select
import threading


def _end_with_parent() -> None:
    """End at once when the parent has ended, even in the middle of a library call."""
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    os._exit(1)


# Before the slow imports.
if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()

import mmap  # noqa: E402
import resource  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402
from contextlib import suppress  # noqa: E402
from typing import Any  # noqa: E402

from tokcore_pipelines.reading import column_reader_messages as messages  # noqa: E402
from tokcore_pipelines.reading import limits  # noqa: E402
from tokcore_pipelines.reading.columns import decode_columns  # noqa: E402
from tokcore_pipelines.reading.records import Batch, FileRejected  # noqa: E402
from tokcore_pipelines.reading.row_file import RowFile  # noqa: E402


class _Parent:
    """The pipes and the memory that are shared with the parent."""

    def __init__(self, shared: int) -> None:
        self._requests = os.fdopen(os.dup(0), "rb")
        self._replies = os.fdopen(os.dup(1), "wb")
        self._shared = mmap.mmap(shared, messages.SHARED_BYTES)
        self._is_answered = True
        os.dup2(2, 1)  # a stray print must not be taken for an answer

    def next_request(self) -> bytes | None:
        """What the parent asks for next, a Request; None when it wants no more."""
        self._settle()
        try:
            kind, body = messages.receive(self._requests)
        except EOFError:
            return None
        assert kind == messages.REQUEST, "a file is done before the next is asked for"
        return body

    def send(self, kind: bytes, body: bytes = b"") -> None:
        messages.send(self._replies, kind, body)

    def give(self, batch: Batch) -> None:
        self._settle()
        messages.send_batch(self._replies, self._shared, batch)
        self._is_answered = False

    def read(self, start: int, buffer: memoryview) -> None:
        """Fill the buffer, of no more than SHARED_BYTES, with bytes of the file."""
        self._settle()
        self.send(messages.READ, messages.PLACE.pack(start, len(buffer)))
        self._is_answered = False
        self._settle()
        buffer[:] = memoryview(self._shared)[: len(buffer)]

    def _settle(self) -> None:
        """Wait until the shared memory is ours. Until the parent needs the batch in it, we work ahead."""
        if not self._is_answered:
            messages.receive(self._requests)
            self._is_answered = True


class _AskedFile(io.RawIOBase):
    """A file whose bytes the parent hands out."""

    def __init__(self, size_bytes: int, parent: _Parent) -> None:
        super().__init__()
        self._size_bytes = size_bytes
        self._parent = parent
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return self._size_bytes

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        position = (0, self._position, self._size_bytes)[whence] + offset
        if position < 0:
            raise ValueError(f"seek to {position}: negative")
        self._position = position
        return position

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size_bytes - self._position)
        data = bytearray(left if size is None or size < 0 else min(size, left))
        self.readinto(data)
        return bytes(data)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        length = min(len(view), max(0, self._size_bytes - self._position))
        for start in range(0, length, messages.SHARED_BYTES):
            piece = view[start : min(length, start + messages.SHARED_BYTES)]
            self._parent.read(self._position, piece)
            self._position += len(piece)
        return length


def main() -> None:
    """Serve requests until the parent closes the pipe."""
    parent = _Parent(int(sys.argv[1]))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while (request := parent.next_request()) is not None:
        try:
            _serve(messages.read_body(messages.Request, request), parent)
        except FileRejected as error:
            parent.send(messages.REJECTED, messages.write_body(messages.Rejected(error.reason, error.detail)))
        except EOFError:
            return
        except MemoryError:
            os.abort()  # as the library does where it cannot say so
        except Exception:  # a fault of ours, which says nothing about the file: the parent raises it
            parent.send(messages.FAILED, traceback.format_exc().encode())
        else:
            parent.send(messages.END)


def _serve(request: messages.Request, parent: _Parent) -> None:
    limits.KEPT_BYTES, limits.IN_MEMORY_BYTES = request.kept_bytes, request.in_memory_bytes
    with suppress(OSError, ValueError):  # not every system has this limit, and there may be a lower one already
        resource.setrlimit(resource.RLIMIT_AS, (request.memory_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))
    file = RowFile(_AskedFile(request.size_bytes, parent), reads_at_once=not request.end)
    for batch in decode_columns(file, request.settings, request.start, request.end):
        parent.give(batch)


if __name__ == "__main__":
    main()
