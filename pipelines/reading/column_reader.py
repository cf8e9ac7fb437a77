"""Parquet and Arrow files, read where a crash is survived: in a process of its own, started once and used again.

Some files end the process that reads them, inside the library. A file that does so twice, the second time in a fresh
process, is rejected whole. A process that something else ends (the system, for want of memory; a person) says nothing
about the file: it is read again.
"""

from __future__ import annotations

import atexit
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from typing import BinaryIO, NoReturn

from tokcore.errors import StageError
from tokcore_pipelines.reading import column_reader_messages as messages
from tokcore_pipelines.reading import limits
from tokcore_pipelines.reading.records import Batch, FileRejected, make_printable
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.storage import FileId, ReadFile, open_pinned
from tokcore_schemas.plan import ReadSettings

# How a library ends its own process. Anything else came from outside.
_CRASHES = frozenset(
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP}
)
_CRASHED = "the Arrow library crashes when it reads this file, or asks for more memory than a reader may have"
_MAX_CRASHES = 2
_MAX_KILLS = 3
# Address space of a reader: what the libraries reserve, and a few copies of the longest document.
MEMORY_BYTES = 6 << 30
COPIES = 8

_idle: list[_Reader] = []


class _ReaderDied(Exception):  # noqa: N818 - an outcome, not a fault of ours
    """A reader process ended before it was done, by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}")
        self.number = number


def read_columns(file: FileId, settings: ReadSettings, start: int = 0, end: int = 0) -> Iterator[Batch]:
    """The rows of a parquet or Arrow file, in batches.

    start, end: of a parquet file, the rows of the row groups that begin in [start, end), which are given out as they
    come; end 0: all rows, once the file has proved its end. Raises FileRejected before the first batch (of some rows,
    at any place) if the file is damaged or cannot be read without a crash; StageError if the store fails, or if readers
    of this file are killed again and again.
    """
    num_given = num_crashes = num_kills = 0
    with open_pinned(file) as opened:
        while True:
            reader = _Reader() if num_crashes or num_kills else _take()
            try:
                with closing(reader.read(opened, settings, start, end)) as batches:
                    for number, batch in enumerate(batches):
                        if number >= num_given:  # those before were given out before a reader died
                            num_given += 1
                            yield batch
                return
            except _ReaderDied as death:
                if death.number in _CRASHES:
                    num_crashes += 1
                    if num_crashes == _MAX_CRASHES and (end or not num_given):
                        raise FileRejected("reader_crashed", _CRASHED) from death
                else:
                    num_kills += 1
                if num_kills == _MAX_KILLS or num_crashes == _MAX_CRASHES:
                    _give_up(file, death)


def _take() -> _Reader:
    """A reader that is idle, or a new one. Several threads may ask."""
    try:
        return _idle.pop()
    except IndexError:
        return _Reader()


def _give_up(file: FileId, death: _ReaderDied) -> NoReturn:
    hint = " (out of memory? try fewer --workers)" if death.number == signal.SIGKILL else ""
    raise StageError(
        f"{redact(file.url)}: the process that reads it was killed by {death} again and again{hint}. "
        f"Nothing half-done is visible; run the same command again and it resumes."
    ) from death


class _Reader:
    """A reader process. Reads one file at a time; one that did not come to its end is of no use afterwards."""

    def __init__(self) -> None:
        # It must be able to import what this process can import. It needs no linear algebra, whose library would start
        # a thread per core.
        modules = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "PYTHONPATH": modules, "OPENBLAS_NUM_THREADS": "1"}
        # A library that crashes may print any amount. A full pipe would block it, a file does not.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        file = messages.create_shared_file()
        # Ctrl-C and a scheduler's SIGTERM go to the whole process group; a reader ends when its parent does.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            self._shared = mmap.mmap(file, messages.SHARED_BYTES)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tokcore_pipelines.reading.column_reader_process", str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                pass_fds=(file,),
                env=environment,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(file)
        self._requests: BinaryIO = self._process.stdin  # type: ignore[assignment]
        self._replies: BinaryIO = self._process.stdout  # type: ignore[assignment]

    def read(self, opened: ReadFile, settings: ReadSettings, start: int, end: int) -> Generator[Batch, None, None]:
        """The batches of a file. Raises FileRejected, and _ReaderDied if the process is killed or crashes."""
        memory_bytes = MEMORY_BYTES + COPIES * settings.max_document_bytes
        limited = memory_bytes, limits.KEPT_BYTES, limits.IN_MEMORY_BYTES
        request = messages.Request(settings, opened.size(), *limited, start, end)
        is_done = False
        try:
            messages.send(self._requests, messages.REQUEST, messages.write_body(request))
            while not is_done:
                kind, body = messages.receive(self._replies)
                if kind == messages.READ:
                    self._serve(opened, *messages.PLACE.unpack(body))
                elif kind == messages.BATCH:
                    batch = messages.take_batch(body, self._shared)
                    messages.send(self._requests, messages.DONE)
                    yield batch
                elif kind == messages.REJECTED:
                    is_done = True
                    told = messages.read_body(messages.Rejected, body)
                    raise FileRejected(told.reason, told.detail)
                elif kind == messages.END:
                    is_done = True
                else:
                    raise StageError(f"{redact(opened.url)}: its reader failed:\n{body.decode(errors='replace')}")
        except (EOFError, BrokenPipeError) as error:
            code = self._process.wait()
            if code < 0:
                raise _ReaderDied(-code) from error
            raise StageError(f"a reader process ended with exit code {code}: {self._last_words()}") from error
        finally:
            if is_done:
                _idle.append(self)
            else:
                self.close()

    def _serve(self, opened: ReadFile, start: int, length: int) -> None:
        opened.seek(start)
        self._shared[:length] = opened.read(length)
        messages.send(self._requests, messages.DONE)

    def _last_words(self) -> str:
        self._stderr.seek(0)
        return " | ".join(make_printable(line) for line in self._stderr.read().splitlines()[-5:])

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        self._shared.close()
        for file in (self._requests, self._replies, self._stderr):
            with suppress(BrokenPipeError):  # a request that was not sent yet
                file.close()


def close_readers() -> None:
    """End the reader processes that are idle."""
    while _idle:
        _idle.pop().close()


# A copy of this process must not talk to its readers.
os.register_at_fork(after_in_child=_idle.clear)
atexit.register(close_readers)
