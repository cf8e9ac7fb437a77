"""The blocks of an xz file, which the index of each stream tells.

Source: The .xz File Format, version 1.1.0. A block is decompressed as a stream of its own, with an index of this one
block: so liblzma compares its checks and both sizes, as in the stream that holds it.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np

from tokcore_pipelines.reading.seekable_blocks import TAIL_BYTES, IndexedBlocks, Part, SeekableFile, read_at

_MAGIC = b"\xfd7zXZ\0"
_END_MAGIC = b"YZ"
_HEADER_BYTES = 12  # of a stream; its footer has as many
_UNIT = 4  # sizes of everything are multiples of it
_MAX_STREAMS = 100
_MAX_INDEX_BYTES = 1 << 22  # of a million blocks, all indexes of a file together
_MAX_NUMBER_BYTES = 9
_MAX_TEXT_BYTES = 1 << 62  # a place is an int64


class _Block(NamedTuple):
    flags: bytes  # of its stream
    start: int
    unpadded_bytes: int  # as stored, without the zeros that fill it up to the next unit
    text_bytes: int


def find_xz_blocks(file: SeekableFile, size_bytes: int) -> XzBlocks | None:
    """The blocks of a file, of all its streams; None unless sound indexes tell where they are."""
    streams: list[list[_Block]] = []
    end = size_bytes
    room = _MAX_INDEX_BYTES
    while end:
        tail = read_at(file, max(0, end - TAIL_BYTES), end)
        end -= len(tail) - len(tail.rstrip(b"\0"))  # padding, which is no part of a footer: that ends with letters
        stream = _read_stream(file, tail.rstrip(b"\0"), end, room) if (size_bytes - end) % _UNIT == 0 else None
        if stream is None or len(streams) == _MAX_STREAMS:
            return None
        blocks, end, index_bytes = stream
        room -= index_bytes
        streams.append(blocks)
    found = [block for blocks in reversed(streams) for block in blocks]
    return XzBlocks(file, found) if sum(block.text_bytes for block in found) < _MAX_TEXT_BYTES else None


class XzBlocks(IndexedBlocks):
    """Blocks in the order of the file."""

    compression = "xz"

    def __init__(self, file: SeekableFile, blocks: list[_Block]) -> None:
        starts = np.zeros(len(blocks) + 1, np.int64)
        np.cumsum([block.text_bytes for block in blocks], out=starts[1:])
        super().__init__(starts, [block.start for block in blocks])
        self._file = file
        self._blocks = blocks

    def find_part(self, index: int) -> Part:
        flags, start, unpadded_bytes, text_bytes = self._blocks[index]
        own_index = _write_index(unpadded_bytes, text_bytes)
        before = _MAGIC + flags + _crc32(flags)
        ended = struct.pack("<I", len(own_index) // _UNIT - 1) + flags
        end = start + unpadded_bytes + -unpadded_bytes % _UNIT
        return Part(before, start, end, own_index + _crc32(ended) + ended + _END_MAGIC)


def _read_stream(file: SeekableFile, tail: bytes, end: int, room: int) -> tuple[list[_Block], int, int] | None:
    """(the blocks of the stream that ends here, where it starts, size of its index); None if it is not sound.

    tail: the bytes before the end, as far as they were read. room: for its index.
    """
    footer = tail[-_HEADER_BYTES:]
    if len(footer) < _HEADER_BYTES or footer[10:] != _END_MAGIC or _crc32(footer[4:10]) != footer[:4]:
        return None
    backward, flags = struct.unpack("<I2s", footer[4:10])
    index_bytes = (backward + 1) * _UNIT
    index_start = end - _HEADER_BYTES - index_bytes
    if index_bytes > room or index_start < _HEADER_BYTES:
        return None
    index = tail[-_HEADER_BYTES - index_bytes : -_HEADER_BYTES]
    if len(index) < index_bytes:
        index = read_at(file, index_start, index_start + index_bytes)
    sizes = _read_index(index)
    if sizes is None:
        return None
    start = index_start - _HEADER_BYTES - sum(stored + -stored % _UNIT for stored, _ in sizes)
    header = _MAGIC + flags + _crc32(flags)
    if start < 0 or read_at(file, start, start + _HEADER_BYTES) != header:
        return None
    blocks: list[_Block] = []
    at = start + _HEADER_BYTES
    for stored, text_bytes in sizes:
        blocks.append(_Block(flags, at, stored, text_bytes))
        at += stored + -stored % _UNIT
    return blocks, start, index_bytes


def _read_index(index: bytes) -> list[tuple[int, int]] | None:
    """(unpadded size, size of the text) of each block; None if the index is not sound."""
    if index[0] or _crc32(index[:-4]) != index[-4:]:
        return None
    data = index[:-4]
    try:
        num_blocks, at = _read_number(data, 1)
        sizes: list[tuple[int, int]] = []
        for _ in range(num_blocks):
            stored, at = _read_number(data, at)
            text_bytes, at = _read_number(data, at)
            if not stored:
                return None
            sizes.append((stored, text_bytes))
    except (IndexError, ValueError):
        return None
    rest = data[at:]
    return sizes if len(rest) < _UNIT and not any(rest) else None


def _write_index(unpadded_bytes: int, text_bytes: int) -> bytes:
    index = b"\0" + _write_number(1) + _write_number(unpadded_bytes) + _write_number(text_bytes)
    index += bytes(-len(index) % _UNIT)
    return index + _crc32(index)


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """(a number of seven bits in each byte, lowest first; the position after it). Raises ValueError, IndexError."""
    number = 0
    for i in range(_MAX_NUMBER_BYTES):
        byte = data[at + i]
        number |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            if not byte and i:
                raise ValueError("a number with a byte too many")
            return number, at + i + 1
    raise ValueError("a number that does not end")


def _write_number(number: int) -> bytes:
    """
    >>> _write_number(300).hex()
    'ac02'
    """
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def _crc32(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")
