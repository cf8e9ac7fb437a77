"""Compressed files that several workers can read: text by place, without decompressing what comes before.

Seekable zstd, BGZF, and xz of several blocks. A **place** is where a byte of the text is: a whole number that grows
with the text. In zstd and xz it is the number of bytes before it. In BGZF, which has no index, it is the virtual
offset: 2^16 times where its block is stored, plus the byte within the block; so there places have gaps. What `read`
gives at once never has one.

A range of places is cut where blocks start, so that no block is decompressed for two ranges:

    text = SeekableText(file, size_bytes, compression)
    first, last = text.cut(start, end)      # for any start and end: ranges that meet are cut at the same block
    lines = _read_line_blocks(text, first, last)

The ranges of a file prove it together: when each has come to its end, every stored byte was checked, no less than by
tokcore_pipelines.reading.compressed; a range alone proves its own blocks only. The formats: seekable_zstd,
seekable_xz, seekable_bgzf. What they share: seekable_blocks.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from tokcore_pipelines.reading.limits import FREE_BYTES, MAX_RATIO
from tokcore_pipelines.reading.records import FileRejected
from tokcore_pipelines.reading.seekable_bgzf import find_bgzf_blocks
from tokcore_pipelines.reading.seekable_blocks import Blocks, IndexedBlocks, SeekableFile
from tokcore_pipelines.reading.seekable_xz import find_xz_blocks
from tokcore_pipelines.reading.seekable_zstd import find_zstd_frames
from tokcore_schemas.input_format import Compression


class SeekableText(io.RawIOBase):
    """The text of a compressed file: a raw file whose positions are places. Holds one block, or a piece of it.

    `read(n)` gives at least one byte and at most n, fewer where a piece of text ends; b"" at the end of the file, and
    not before its last block is proved. After a read, the place of the first byte that it gave is `tell()` less their
    number. `seek` to a place in a gap is to the first byte after it. Reading and `cut` raise FileRejected for what is
    damaged. Not thread-safe; closing it leaves the stored file open.
    """

    def __init__(self, file: SeekableFile, size_bytes: int, compression: Compression) -> None:
        """size_bytes: of the file as stored.

        Reads the end of the file, its index of at most 64 MiB, and the start of BGZF.
        Raises FileRejected for a file that can only be read from its start: one without several blocks that say where
        they are, or whose index is damaged or incredible. Raises StageError if the store does not answer.
        """
        super().__init__()
        blocks = _find_blocks(file, size_bytes, compression)
        if blocks is None:
            raise FileRejected("corrupt", "the file does not say where its blocks are, though it was planned so")
        self._blocks = blocks
        self._size_bytes = size_bytes
        self._met = 0
        self._position = 0
        self._pieces: Iterator[tuple[int, bytes]] | None = None
        self._piece = b""
        self._used = 0  # of the piece

    @property
    def extent(self) -> int:
        """The place after the last byte."""
        return self._blocks.extent

    def list_cuts(self, range_bytes: int) -> tuple[int, ...]:
        """The ends of ranges of about range_bytes of text or more, ascending; the last one is the extent.

        In zstd and xz they are where blocks start. In BGZF, of which only the stored size is known, they are near.
        """
        return tuple(self._blocks.list_cuts(range_bytes))

    def cut(self, start: int, end: int) -> tuple[int, int]:
        """(first, last) for a reader of lines, of those that belong to the places [start, end).

        A line belongs to them if the line feed before it is at `first - 1` or after, and none from `last - 1` on is;
        the first line of the file if start is 0. The lines of ranges that meet are each in one of them. Reading past
        the end then proves that a block starts there.
        """
        self._forget_piece()
        self._met = self._blocks.find_block(end)
        first = self._blocks.find_block(start) + 1 if start > 0 else 0
        return first, self._met + 1 if end > 0 else 0

    def count_stored(self, start: int, end: int) -> int:
        """The stored bytes that belong to the places [start, end): of ranges that cover a file, its size in all."""
        return self._find_stored(end) - self._find_stored(start)

    def read_start(self, size: int) -> bytes:
        """The first bytes of the text, fewer only if it has not as many. The position is after them."""
        self.seek(0)
        start = b""
        while len(start) < size and (piece := self.read(size - len(start))):
            start += piece
        return start

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        place = (0, self._position, self.extent)[whence] + offset
        if place < 0:
            raise ValueError(f"seek to {place}: negative")
        if place != self._position:
            self._position = place
            self._forget_piece()
        return place

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            return self.readall()
        if not size or not self._has_more():
            return b""
        data = self._piece[self._used : self._used + size]
        self._used += len(data)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(1 << 20), b""))

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def _forget_piece(self) -> None:
        self._pieces, self._piece, self._used = None, b"", 0

    def _has_more(self) -> bool:
        """Whether there is a byte of a piece to give; the position is then its place."""
        while self._used == len(self._piece):
            if self._pieces is None:
                if self._position >= self.extent:
                    return False
                self._pieces = self._blocks.read_from(self._position, self._met)
            found = next(self._pieces, None)
            if found is None:
                self._position = self.extent
                return False
            self._position, self._piece = found
            self._used = 0
        return True

    def _find_stored(self, place: int) -> int:
        if place <= 0:
            return 0
        block = self._blocks.find_block(place)
        return self._blocks.to_stored(block) if block < self.extent else self._size_bytes


def _find_blocks(file: SeekableFile, size_bytes: int, compression: Compression) -> Blocks | None:
    """Raises StageError if the store does not answer."""
    if compression == "gz":
        return find_bgzf_blocks(file, size_bytes)
    blocks: IndexedBlocks | None = None
    if compression == "zst":
        blocks = find_zstd_frames(file, size_bytes)
    elif compression == "xz":
        blocks = find_xz_blocks(file, size_bytes)
    if blocks is None or blocks.extent > FREE_BYTES + MAX_RATIO * size_bytes:
        return None
    return blocks if blocks.find_block(1) < blocks.extent else None
