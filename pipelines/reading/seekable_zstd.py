"""The frames of a zstd file that ends with a table of them.

Source: Zstandard Seekable Format 0.1.0, in contrib/seekable_format of zstd. The table is a skippable frame, so every
other reader passes over it. Its checksums are those that frames themselves may end with, so zstd itself compares them.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from tokcore_pipelines.reading.seekable_blocks import TAIL_BYTES, IndexedBlocks, Part, SeekableFile, read_at

_TABLE_MAGIC = 0x184D2A5E
_FOOTER_MAGIC = 0x8F92EAB1
_FOOTER = struct.Struct("<IBI")  # number of frames, flags, magic
_HEADER = struct.Struct("<II")  # of a skippable frame: magic, size
_HAS_CHECKSUMS = 0x80
_RESERVED = 0x7C
_MAX_TABLE_BYTES = 1 << 26  # of 5 million frames

_FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
_FRAME_HAS_CHECKSUM = 0x04
_CHECKSUM_BYTES = 4


def find_zstd_frames(file: SeekableFile, size_bytes: int) -> ZstdFrames | None:
    """The frames of a file; None unless a table that is sound tells where they are."""
    tail = read_at(file, max(0, size_bytes - TAIL_BYTES), size_bytes)
    if len(tail) < _FOOTER.size:
        return None
    num_frames, flags, magic = _FOOTER.unpack(tail[-_FOOTER.size :])
    columns = 3 if flags & _HAS_CHECKSUMS else 2
    table_bytes = _HEADER.size + 4 * columns * num_frames + _FOOTER.size
    if magic != _FOOTER_MAGIC or flags & _RESERVED or table_bytes > min(size_bytes, _MAX_TABLE_BYTES):
        return None
    table = tail[-table_bytes:] if table_bytes <= len(tail) else read_at(file, size_bytes - table_bytes, size_bytes)
    if _HEADER.unpack(table[: _HEADER.size]) != (_TABLE_MAGIC, table_bytes - _HEADER.size):
        return None
    entries = np.frombuffer(table, "<u4", columns * num_frames, _HEADER.size).reshape(num_frames, columns)
    stored = _add_up(entries[:, 0])
    if stored[-1] != size_bytes - table_bytes:
        return None
    return ZstdFrames(file, stored, _add_up(entries[:, 1]), entries[:, 2] if columns == 3 else None)


class ZstdFrames(IndexedBlocks):
    """Frames that lie one after the other; checksums: uint32[n] of what they unfold to, or None."""

    compression = "zst"

    def __init__(
        self,
        file: SeekableFile,
        stored: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        checksums: npt.NDArray[np.uint32] | None,
    ) -> None:
        super().__init__(starts, stored)
        self._file = file
        self._checksums = checksums

    def find_part(self, index: int) -> Part:
        start, end = int(self._stored[index]), int(self._stored[index + 1])
        if self._checksums is None:
            return Part(b"", start, end, b"")
        header = read_at(self._file, start, min(end, start + len(_FRAME_MAGIC) + 1))
        if len(header) <= len(_FRAME_MAGIC) or not header.startswith(_FRAME_MAGIC):
            return Part(b"", start, end, b"")  # a skippable frame: it holds nothing
        checksum = int(self._checksums[index]).to_bytes(_CHECKSUM_BYTES, "little")
        if header[-1] & _FRAME_HAS_CHECKSUM:
            return Part(b"", start, end, b"", last=checksum)
        header = header[:-1] + bytes([header[-1] | _FRAME_HAS_CHECKSUM])
        return Part(header, start + len(header), end, checksum)


def _add_up(sizes: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """int64[n + 1]: where each of n starts, and where the last one ends."""
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends
