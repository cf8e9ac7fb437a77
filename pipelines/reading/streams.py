"""The bytes of a file, either one range or all of it decompressed and checked to its end, and the lines in them.

A stream is an iterator over blocks of about BLOCK_BYTES bytes. Memory stays bounded, whatever the bytes are: the
decompressors give their output in steps, and a line is kept only up to its limit.

What the compressions are, and how each proves its end: tokcore_pipelines.reading.compressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore_pipelines.reading.compressed import decompress
from tokcore_pipelines.reading.limits import FREE_BYTES, MAX_RATIO, read_to_end_first
from tokcore_pipelines.reading.records import SAMPLE_BYTES, FileRejected
from tokcore_pipelines.reading.seekable import SeekableText
from tokcore_pipelines.reading.utf8 import MARK_BYTES, check_mark, convert_to_utf8
from tokcore_pipelines.store.storage import FileId, ReadFile, open_pinned
from tokcore_schemas.plan import ReadSettings

BLOCK_BYTES = 1 << 20

_IS_HEX_DIGIT = np.isin(np.arange(256), np.frombuffer(b"0123456789ABCDEFabcdef", np.uint8))


class Meter:
    """Counts the stored bytes that belong to a range: over all ranges of a file they add up to the file's size."""

    def __init__(self) -> None:
        self.stored_bytes = 0

    def count(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        for block in blocks:
            self.stored_bytes += len(block)
            yield block


def read_file_blocks(
    file: FileId, start: int, end: int, settings: ReadSettings, meter: Meter, extent: int = 0
) -> Iterator[bytes]:
    """The lines of an uncompressed file that start within [start, end), or all bytes of a compressed one, as UTF-8.

    Leaves out a byte order mark at the start of the file. Raises FileRejected before the first block if a compressed
    file does not end properly, or the file begins with the mark of another encoding. extent: of a compressed file of
    which some lines are read, those of the places [start, end) of its text (tokcore_pipelines.reading.seekable); then
    FileRejected may come after any block.
    """
    if extent:
        with open_pinned(file) as opened:
            text = SeekableText(opened, file.size_bytes, settings.compression)
            if start:
                check_mark(text.read_start(MARK_BYTES), settings)
            first, last = text.cut(start, end)
            lines = _limit(_read_line_blocks(text, first, last), file.size_bytes)  # places of BGZF say no size
            yield from convert_to_utf8(_join(lines), settings, start == 0)
            meter.stored_bytes = text.count_stored(start, end)
        return
    if settings.compression == "none":
        with open_pinned(file) as opened:
            if start:  # every range of a file comes to the same end
                check_mark(opened.read(MARK_BYTES), settings)
            yield from convert_to_utf8(meter.count(_read_line_blocks(opened, start, end)), settings, start == 0)
    else:
        blocks = read_to_end_first(lambda: read_stored_blocks(file, settings, meter), len)
        yield from convert_to_utf8(blocks, settings, True)


def read_whole_file(file: FileId, settings: ReadSettings, meter: Meter) -> Iterator[bytes]:
    """All bytes of a file as UTF-8, without its byte order mark. For formats with an end of their own to be proved.

    Raises FileRejected where the file turns out to be damaged, which may be after the last block.
    """
    return convert_to_utf8(read_stored_blocks(file, settings, meter), settings, True)


def read_stored_blocks(file: FileId, settings: ReadSettings, meter: Meter) -> Iterator[bytes]:
    """All bytes of a file, decompressed. Raises FileRejected as read_whole_file."""
    with open_pinned(file) as opened:
        if settings.compression == "none":
            while block := opened.read(BLOCK_BYTES):
                yield block
        else:
            yield from _join(_limit(decompress(opened, settings.compression), file.size_bytes))
        meter.stored_bytes = opened.tell()


def _read_line_blocks(file: ReadFile | SeekableText, start: int, end: int) -> Iterator[bytes]:
    """The bytes of all lines whose first byte is in [start, end).

    A line includes its line feed. So the first line begins after the first line feed at or after start - 1, and the
    last line ends with the first line feed at or after end - 1.
    """
    if start >= end:
        return
    file.seek(max(0, start - 1))
    is_before = start > 0
    while block := file.read(BLOCK_BYTES):
        position = file.tell()
        block_start = position - len(block)  # not where the last one ended: the places of a SeekableText have gaps
        low = 0
        if is_before:
            low = block.find(b"\n") + 1
            if not low:
                if position >= end:
                    return
                continue
            is_before = False
            if block_start + low >= end:
                return
        if position >= end:
            high = block.find(b"\n", max(low, end - 1 - block_start)) + 1
            if high:
                yield block[low:high]
                return
        yield block[low:]


def _limit(pieces: Iterable[bytes], stored_bytes: int) -> Iterator[bytes]:
    limit = FREE_BYTES + MAX_RATIO * stored_bytes
    size_bytes = 0
    for piece in pieces:
        size_bytes += len(piece)
        if size_bytes > limit:
            raise FileRejected("over_limit", f"more than {limit} bytes decompressed from {stored_bytes} stored")
        yield piece


def _join(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks of BLOCK_BYTES to 2 * BLOCK_BYTES; the last block may be smaller."""
    waiting: list[bytes] = []
    size_bytes = 0
    for piece in pieces:
        waiting.append(piece)
        size_bytes += len(piece)
        if size_bytes >= BLOCK_BYTES:
            block = b"".join(waiting)
            start = 0
            while size_bytes - start > 2 * BLOCK_BYTES:
                yield block[start : start + BLOCK_BYTES]
                start += BLOCK_BYTES
            yield block[start:] if start else block
            waiting.clear()
            size_bytes = 0
    if waiting:
        yield b"".join(waiting)


class LongPiece(NamedTuple):
    """A line, or another piece of a stream, that is too long to keep: only its start and its size."""

    start: bytes
    size_bytes: int
    is_blank: bool  # white space alone


class PieceLimit(NamedTuple):
    """How long a piece may be. Both limits are well above the size of a block.

    size_bytes: of the piece. unescaped_bytes: of the piece without its JSON escapes of the form \\uXXXX, which stand
    for one to three bytes each.
    """

    size_bytes: int
    unescaped_bytes: int


class Pending:
    """The piece of a stream that has not ended yet, kept only up to its limit.

    The result depends only on the piece, not on the parts in which it is added.
    """

    _bytes: bytearray
    _size_bytes: int
    _num_escapes: int
    _is_measured: bool  # whether the escapes before the next part were counted
    _is_blank: bool
    _is_long: bool

    def __init__(self, limit: PieceLimit) -> None:
        self._limit = limit
        self._start()

    def __bool__(self) -> bool:
        return self._size_bytes > 0

    def add(self, part: bytes | memoryview) -> None:
        self._size_bytes += len(part)
        if self._is_blank:
            self._is_blank = not bytes(part).strip()
        if self._is_long:
            self._bytes += part[: SAMPLE_BYTES - len(self._bytes)]
            return
        seen = len(self._bytes)
        self._bytes += part
        if self._size_bytes > 2 * BLOCK_BYTES:
            # An escape may lie across two parts. Five bytes hold no whole escape, so none is counted twice.
            fresh = memoryview(self._bytes)[max(0, seen - 5) if self._is_measured else 0 :]
            self._num_escapes += _count_escapes(np.frombuffer(fresh, np.uint8))
            fresh.release()
            self._is_measured = True
            # At most five of the bytes seen so far may yet prove to belong to an escape.
            self._stop_if_over(5)

    def add_long(self, part: LongPiece) -> None:
        """Add a part that is itself too long to keep."""
        self._size_bytes += part.size_bytes
        self._is_blank = self._is_blank and part.is_blank
        self._bytes += part.start
        self._stop()

    def take(self) -> bytes | LongPiece:
        """The piece, which ends here."""
        self._stop_if_over(0)
        start = bytes(self._bytes)
        piece = LongPiece(start, self._size_bytes, self._is_blank) if self._is_long else start
        self._start()
        return piece

    def _stop_if_over(self, slack: int) -> None:
        unescaped_bytes = self._size_bytes - 6 * self._num_escapes
        if self._size_bytes > self._limit.size_bytes or unescaped_bytes > self._limit.unescaped_bytes + slack:
            self._stop()

    def _stop(self) -> None:
        self._is_long = True
        self._bytes = self._bytes[:SAMPLE_BYTES]

    def _start(self) -> None:
        self._bytes = bytearray()
        self._size_bytes = 0
        self._num_escapes = 0
        self._is_measured = False
        self._is_blank = True
        self._is_long = False


def _count_escapes(data: npt.NDArray[np.uint8]) -> int:
    """The number of \\uXXXX escapes, which cannot overlap; X is a hexadecimal digit."""
    at = np.flatnonzero(data[:-5] == ord("\\"))
    at = at[data[at + 1] == ord("u")]
    for i in range(2, 6):
        at = at[_IS_HEX_DIGIT[data[at + i]]]
    return len(at)


class Lines(NamedTuple):
    """Whole lines: block[start:end], without the line feed of the last line."""

    block: bytes
    start: int
    end: int


def cut_into_whole_lines(blocks: Iterable[bytes], limit: PieceLimit) -> Iterator[Lines | LongPiece]:
    """The lines of a stream, all that a block holds at a time; lines over the limit as LongPiece.

    Copies only lines that lie across blocks. Linear in the size of the stream.
    """
    pending = Pending(limit)
    for block in blocks:
        first = block.find(b"\n")
        if first < 0:
            pending.add(block)
            continue
        view = memoryview(block)
        start = 0
        if pending:
            pending.add(view[:first])
            yield _end_line(pending)
            start = first + 1
        end = block.rfind(b"\n") + 1
        if end > start:
            yield Lines(block, start, end - 1)
        if end < len(block):
            pending.add(view[end:])
    if pending:
        yield _end_line(pending)


def _end_line(pending: Pending) -> Lines | LongPiece:
    line = pending.take()
    return line if isinstance(line, LongPiece) else Lines(line, 0, len(line))


def split_lines(blocks: Iterable[bytes], limit: PieceLimit) -> Iterator[list[bytes | LongPiece]]:
    """The lines of a stream without their line feeds, many at a time; lines over the limit as LongPiece."""
    for part in cut_into_whole_lines(blocks, limit):
        if isinstance(part, LongPiece):
            yield [part]
        else:
            yield [*part.block[part.start : part.end].split(b"\n")]
