"""What the readers of seekable files share: blocks, and how a part of a file is decompressed by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tokcore_pipelines.reading.compressed import decompress
from tokcore_pipelines.reading.records import FileRejected
from tokcore_schemas.input_format import Compression

# The end of a file that is read first. Most indexes lie in it.
TAIL_BYTES = 1 << 16


class SeekableFile(Protocol):
    """The file as stored, opened. A read gives fewer bytes than asked for only at the end of the file."""

    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def read(self, size: int = -1, /) -> bytes: ...


class Blocks(Protocol):
    """The blocks of a file, by place: see tokcore_pipelines.reading.seekable."""

    extent: int  # the place after the last byte

    def find_block(self, place: int) -> int:
        """The first place at or after this one at which a block starts, or the extent."""

    def list_cuts(self, range_bytes: int) -> list[int]:
        """The ends of ranges of about range_bytes of text or more, ascending, up to the extent. Reads nothing."""

    def to_stored(self, block: int) -> int:
        """Where the block that starts at this place is stored: bytes from the start of the file."""

    def read_from(self, place: int, meets: int) -> Iterator[tuple[int, bytes]]:
        """(place of its first byte, piece of text) from the first byte at or after a place to the end of the file.

        meets: a place at which a block must start or the file end, if it is passed. A block is proved before anything
        of the next one is given out. Raises FileRejected.
        """


class Part(NamedTuple):
    """A block as it is decompressed by itself: stored bytes [start, end) between others, which may be none."""

    before: bytes
    start: int
    end: int
    after: bytes
    last: bytes = b""  # what the stored bytes end with


class IndexedBlocks:
    """Blocks whose sizes an index tells, before and after decompression. A place is a byte of the text.

    starts: int64[n + 1], where the text of each block starts; the last one is the extent.
    stored: int64[n] or more, where each block is stored.
    """

    compression: Compression
    _file: SeekableFile

    def __init__(self, starts: npt.NDArray[np.int64], stored: npt.NDArray[np.int64] | Sequence[int]) -> None:
        self._starts = starts
        self._stored = stored
        self.extent = int(starts[-1])

    def find_block(self, place: int) -> int:
        return int(self._starts[np.searchsorted(self._starts, min(place, self.extent))])

    def list_cuts(self, range_bytes: int) -> list[int]:
        cuts = [self.find_block(max(1, range_bytes))]
        while cuts[-1] < self.extent:
            cuts.append(self.find_block(cuts[-1] + max(1, range_bytes)))
        return cuts

    def to_stored(self, block: int) -> int:
        return int(self._stored[int(np.searchsorted(self._starts, block))])

    def read_from(self, place: int, meets: int) -> Iterator[tuple[int, bytes]]:
        index = int(np.searchsorted(self._starts, place))
        if index == len(self._starts) or self._starts[index] > place:
            index -= 1
        for i in range(index, len(self._starts) - 1):
            at = int(self._starts[i])
            for piece in self._read_block(i):
                skipped = max(0, place - at)
                if skipped < len(piece):
                    yield at + skipped, piece[skipped:] if skipped else piece
                at += len(piece)

    def find_part(self, index: int) -> Part:
        """How to decompress a block. Raises FileRejected."""
        raise NotImplementedError  # each format has its own

    def _read_block(self, index: int) -> Iterator[bytes]:
        """The pieces of a block, of the size that the index says. Raises FileRejected."""
        expected = int(self._starts[index + 1] - self._starts[index])
        part = self.find_part(index)
        where = f"the block in bytes {part.start} to {part.end}"
        opened = _PartFile(self._file, part)
        size_bytes = 0
        try:
            for piece in decompress(opened, self.compression):
                size_bytes += len(piece)
                if size_bytes > expected:
                    break
                yield piece
        except FileRejected as error:
            reason = "corrupt" if error.reason == "truncated" else error.reason
            raise FileRejected(reason, f"{where}, read by the index of the file: {error.detail}") from error
        if size_bytes != expected:
            raise FileRejected("corrupt", f"{where} does not hold the {expected} bytes that the index says")
        if not opened.tail.endswith(part.last):
            raise FileRejected("corrupt", f"{where} has another checksum than the index says")


class _PartFile:
    """The bytes of a part, one after the other, as if it were a file. Others may read of the file in between."""

    def __init__(self, file: SeekableFile, part: Part) -> None:
        self._file = file
        self._part = part
        self._position = 0
        self.tail = b""  # of what was read of the stored bytes

    def size(self) -> int:
        before, start, end, after, _ = self._part
        return len(before) + end - start + len(after)

    def tell(self) -> int:
        return self._position

    def read(self, size: int) -> bytes:
        before, start, end, after, _ = self._part
        at = self._position
        if at < len(before):
            data = before[at : at + size]
        elif (stored := start + at - len(before)) < end:
            data = read_at(self._file, stored, min(end, stored + size))
            self.tail = (self.tail + data[-len(self._part.last) :])[-len(self._part.last) :] if self._part.last else b""
        else:
            data = after[stored - end : stored - end + size]
        self._position += len(data)
        return data


def read_at(file: SeekableFile, start: int, end: int) -> bytes:
    """The stored bytes [start, end). Raises FileRejected if the file has not as many."""
    file.seek(start)
    data = file.read(end - start)
    while len(data) < end - start:
        more = file.read(end - start - len(data))
        if not more:
            raise FileRejected("truncated", f"the file ends at byte {start + len(data)}")
        data += more
    return data
