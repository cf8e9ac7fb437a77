"""Reading: a file's bytes, all of them, or a StageError that names the URL."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, BinaryIO, Self, TypeVar, cast

from tokcore.errors import StageError
from tokcore_pipelines.store.pins import FetchedFile, FileId, find_pin, stat
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.retries import name_errors, retry
from tokcore_pipelines.store.urls import find_scheme, is_local, is_object_store, open_file_system

T = TypeVar("T")

BLOCK_BYTES = 1 << 23  # of one request to an object store
MOST_WHOLE_BYTES = 1 << 32  # of a file that is read into memory at once: of manifests and the like
_COPY_BYTES = 1 << 20


class ReadFile(io.RawIOBase):
    """A file opened for reading: seekable, and `read(n)` gives exactly n bytes unless the end of file is nearer.

    A transient error reopens the file where it stood. With a pin, the end of file is where the pin says it is, and the
    file's version is compared when it is opened (not that of an object), reopened and left: a difference is a
    StageError. Not thread-safe.
    """

    def __init__(self, url: str, pin: FileId | None = None, content: bytes | None = None) -> None:
        """content: all bytes of the pinned version, if they are known: then nothing is asked for."""
        super().__init__()
        self.url = url
        self.failure: Exception | None = None  # why reading stopped: a library between may swallow the exception
        self._pin = pin
        self._position = 0
        self._file: BinaryIO | None = None
        self._is_open_again = False
        self._inode: tuple[int, int] | None = None  # of a local file, once it is open
        self._is_known = content is not None
        if content is not None:
            self._file, self._size = io.BytesIO(content), len(content)
            return
        self._system, self._path = open_file_system(url)
        self._size = pin.size_bytes if pin is not None else stat(url).size_bytes
        try:
            with name_errors("read", url):
                retry("read", url, self._reopen)
        except StageError:
            self._check_pin()
            raise

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def size(self) -> int:
        return self._size

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = (0, self._position, self._size)[whence]
        if start + offset < 0:
            raise ValueError(f"seek to {start + offset}: negative")
        self._position = start + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        wanted = max(0, self._size - self._position)
        if size is not None and size >= 0:
            wanted = min(size, wanted)
        if not wanted:
            return b""
        first = self._attempt(wanted)
        if len(first) == wanted:
            return first
        pieces = [first]
        wanted -= len(first)
        while wanted:
            pieces.append(self._attempt(wanted))
            wanted -= len(pieces[-1])
        return b"".join(pieces)

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Also when something went wrong: a file that changed while it was read explains most other complaints about it.
        try:
            if kind is None or (issubclass(kind, Exception) and not issubclass(kind, StageError)):
                self._check_pin()
        finally:
            self.close()

    def _attempt(self, wanted: int) -> bytes:
        """Some of the bytes at the position, at least one, and the position after them."""

        def read_some() -> bytes:
            if self._file is None:
                self._reopen()
            assert self._file is not None
            try:
                if self._file.tell() != self._position:
                    self._file.seek(self._position)
                data = self._file.read(wanted)
                if not data:
                    self._check_pin()
                    raise OSError(f"the file ends at byte {self._position} of {self._size}")
                if len(data) > wanted:
                    raise OSError(f"asked for {wanted} bytes, got {len(data)}")
            except OSError:
                with contextlib.suppress(Exception):
                    self._file.close()
                self._file = None
                raise
            return data

        try:
            with name_errors("read", self.url):
                data = retry("read", self.url, read_some)
        except Exception as error:
            self.failure = error
            if isinstance(error.__cause__, FileNotFoundError):
                self._check_pin()
            raise
        self._position += len(data)
        return data

    def _reopen(self) -> None:
        # An object's version is asked for once, when it is left: that refuses what was read of another version, too.
        if self._is_open_again or not is_object_store(self._system):
            self._check_pin()
        self._is_open_again = True
        if is_local(self.url):
            self._file = cast(BinaryIO, open(self._path, "rb", 0, opener=_open_regular))  # noqa: SIM115 - closed by close()
            if self._inode is None:
                self._inode = _get_inode(self._file.fileno())
        elif find_scheme(self.url) == "memory":  # its file objects share one position
            self._file = io.BytesIO(self._system.cat_file(self._path))
        elif is_object_store(self._system):
            self._file = cast(BinaryIO, _Blocks(self._system, self._path, self._size))
        else:
            self._file = self._system.open(self._path, "rb", block_size=BLOCK_BYTES, cache_type="readahead")

    def _check_pin(self) -> None:
        if self._pin is None or self._is_known:
            return
        try:
            now = stat(self.url)
        except StageError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise self._changed("it is gone") from error
            raise
        if now.size_bytes != self._pin.size_bytes:
            raise self._changed(f"{self._pin.size_bytes} bytes then, {now.size_bytes} now")
        if now.version != self._pin.version:
            raise self._changed(f"{self._pin.version} then, {now.version} now")
        # Size and time can be kept when a file is replaced; a plan cannot hold inodes, which no copy of a corpus keeps.
        if self._inode is not None and _get_inode(self._path) != self._inode:
            raise self._changed("another file took its name while it was read")

    def _changed(self, how: str) -> StageError:
        self.failure = StageError(
            f"{redact(self.url)}: input changed since it was planned ({how}). "
            f"Restore it, or run again with a new output, which makes a new plan"
        )
        return self.failure


class _Blocks:
    """What ReadFile needs of an object: its bytes, a block at a time. Opened by a library it is asked for its size."""

    def __init__(self, system: Any, path: str, size: int) -> None:
        self._system, self._path, self._size = system, path, size
        self._position = self._start = 0
        self._block = b""

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int) -> None:
        self._position = offset

    def read(self, wanted: int) -> bytes:
        within = self._position - self._start
        if not 0 <= within < len(self._block):
            end = min(self._size, self._position + max(wanted, BLOCK_BYTES))
            self._block = b""  # not two at a time
            self._block = cast(bytes, self._system.cat_file(self._path, start=self._position, end=end))
            self._start, within = self._position, 0
        data = self._block[within : within + wanted]
        self._position += len(data)
        return data

    def close(self) -> None:
        self._block = b""


def _open_regular(path: str, flags: int) -> int:
    # Since it was looked at, a FIFO may have taken the file's name: without a writer it would be waited for.
    return os.open(path, flags | os.O_NONBLOCK)


def _get_inode(file: str | int) -> tuple[int, int]:
    facts = os.stat(file)  # noqa: PTH116 - of a path or a descriptor
    return facts.st_dev, facts.st_ino


def open_read(url: str) -> ReadFile:
    """The file opened for reading; raises StageError if it cannot be read."""
    return ReadFile(url)


def open_pinned(file: FileId) -> ReadFile:
    """The file opened for reading as it was when pinned; raises StageError as soon as it is found to have changed."""
    return ReadFile(file.url, file, file.content.result() if isinstance(file, FetchedFile) else None)


class RangeFile(io.RawIOBase):
    """Bytes [start, end) of an object, for reading from start to end; asks for them alone, a block at a time."""

    def __init__(self, url: str, start: int, end: int) -> None:
        super().__init__()
        self._url = url
        self._position, self._end = start, end
        self._block = b""
        self._used = 0  # of the block

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        if self._used == len(self._block):
            if self._position == self._end:
                return b""
            until = min(self._end, self._position + BLOCK_BYTES)
            self._block, self._used = read_part(self._url, self._position, until), 0
            if len(self._block) != until - self._position:
                raise StageError(f"{redact(self._url)}: ends at byte {self._position + len(self._block)}")
            self._position = until
        size = len(self._block) if size is None or size < 0 else size
        data = self._block[self._used : self._used + size]
        self._used += len(data)
        return data


def open_range(url: str, start: int, end: int) -> RangeFile:
    """Bytes [start, end) of an object of a store; reading raises StageError if it cannot be read, or is shorter."""
    return RangeFile(url, start, end)


def read_bytes(url: str) -> bytes:
    """The whole content of a file; raises StageError if it cannot be read, or is far too large for that."""
    system, path = open_file_system(url)
    if is_object_store(system):  # one request, instead of three that ask how long it is
        with name_errors("read", url):
            return retry("read", url, lambda: _get_object(system, path))
    with open_read(url) as file:
        if file.size() > MOST_WHOLE_BYTES:  # a sparse file costs nothing to make at any size
            raise _make_size_error(url, file.size())
        return file.read()


def _make_size_error(url: str, size_bytes: int) -> StageError:
    return StageError(f"{redact(url)}: {size_bytes:,} bytes, expected at most {MOST_WHOLE_BYTES:,}")


def _get_object(system: Any, path: str) -> bytes:
    """All bytes of an object. The library of S3 would first ask how long it is, to read parts of it at a time."""
    known = inspect.signature(type(system)._cat_file).parameters
    return cast(bytes, system.cat_file(path, **({"max_concurrency": 1} if "max_concurrency" in known else {})))


def read_if_there(url: str, wanted: int | None = None) -> bytes | None:
    """The whole content of a file, None if there is none; raises StageError if it cannot be read.

    wanted: the most bytes that it should have. Of a larger one on a disk, which may be sparse and of any size, one byte
    more is read.
    """
    return _ask(url, lambda: read_bytes(url) if wanted is None or not is_local(url) else read_part(url, 0, wanted + 1))


def open_if_there(url: str) -> ReadFile | None:
    """As open_read, None if there is no file. Raises StageError for one that is far too large for what is read."""
    file = _ask(url, lambda: open_read(url))
    if file is not None and file.size() > MOST_WHOLE_BYTES:
        file.close()
        raise _make_size_error(url, file.size())
    return file


def _ask(url: str, read: Callable[[], T]) -> T | None:
    # Most files that are asked for here are missing, and an error message, cleared of secrets, is slow to make.
    if is_local(url) and find_pin(url) is None:
        return None
    try:
        return read()
    except StageError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return None
        raise


def read_part(url: str, start: int, end: int) -> bytes:
    """The bytes [start, end) of a file, as far as it has them. Asks a store for no more than these."""
    system, path = open_file_system(url)
    if is_local(url):
        with open_read(url) as file:
            file.seek(start)
            return file.read(end - start)
    with name_errors("read", url):
        return cast(bytes, retry("read", url, lambda: system.cat_file(path, start=start, end=end)))


def compute_sha256(url: str) -> str:
    """sha256 of a file's bytes, lowercase hex; raises StageError if it cannot be read."""
    hasher = hashlib.sha256()
    with open_read(url) as file:
        while data := file.read(_COPY_BYTES):
            hasher.update(data)
    return hasher.hexdigest()


def require_sha256(url: str, expected: str) -> None:
    """Reads the file back; raises StageError unless its bytes have that sha256."""
    if (found := compute_sha256(url)) != expected:
        raise StageError(
            f"{redact(url)}: written with sha256 {expected}, read back with {found}: "
            f"the store does not keep what it is given. Check the disk, or choose another build.output"
        )


def require_same(source: str, target: str) -> None:
    """Raises StageError unless two files hold the same bytes."""
    if stat(source).size_bytes != stat(target).size_bytes or compute_sha256(source) != compute_sha256(target):
        raise StageError(
            f"{redact(target)} exists with other bytes than {redact(source)}: "
            f"two builds of different content share this output; give one of them its own"
        )
