"""Writers of seekable compressed files, a block for each text, by hand: after the formats, not after our readers."""

from __future__ import annotations

import hashlib
import lzma
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence

import zstandard

BGZF_END = b"\x1f\x8b\x08\x04" + bytes(5) + b"\xff\x06\0BC\x02\0\x1b\0\x03" + bytes(9)


def write_bgzf(texts: Sequence[bytes], level: int = 6, end: bytes = BGZF_END) -> bytes:
    return b"".join(write_bgzf_block(text, level) for text in texts) + end


def write_bgzf_block(text: bytes, level: int = 6) -> bytes:
    deflate = zlib.compressobj(level, zlib.DEFLATED, -15)
    packed = deflate.compress(text) + deflate.flush()
    header = b"\x1f\x8b\x08\x04" + bytes(5) + b"\xff" + struct.pack("<HccHH", 6, b"B", b"C", 2, len(packed) + 25)
    return header + packed + struct.pack("<II", zlib.crc32(text), len(text))


def write_seekable_zstd(
    texts: Sequence[bytes], in_table: bool = True, in_frames: bool = False, with_sizes: bool = False
) -> bytes:
    """in_table, in_frames: where checksums are."""
    packer = zstandard.ZstdCompressor(level=3, write_checksum=in_frames, write_content_size=with_sizes)
    summing = zstandard.ZstdCompressor(level=1, write_checksum=True)  # the table has the checksums that frames have
    frames = [packer.compress(text) for text in texts]
    entries = [
        struct.pack("<II", len(frame), len(text)) + (summing.compress(text)[-4:] if in_table else b"")
        for frame, text in zip(frames, texts, strict=True)
    ]
    return b"".join(frames) + write_zstd_table(entries, in_table)


def write_zstd_table(entries: Sequence[bytes], in_table: bool, num: int | None = None) -> bytes:
    footer = struct.pack("<IBI", len(entries) if num is None else num, 0x80 * in_table, 0x8F92EAB1)
    body = b"".join(entries) + footer
    return struct.pack("<II", 0x184D2A5E, len(body)) + body


_CHECKS: Mapping[int, Callable[[bytes], bytes]] = {
    0: lambda text: b"",
    1: lambda text: struct.pack("<I", zlib.crc32(text)),
    10: lambda text: hashlib.sha256(text).digest(),
}


def write_xz(
    texts: Sequence[bytes], check: int = 1, lie: Callable[[list[tuple[int, int]]], None] = lambda sizes: None
) -> bytes:
    """A stream. check: none, CRC32 or SHA-256, as the format numbers them. lie: changes what the index says."""
    flags = bytes([0, check])
    stream = b"\xfd7zXZ\0" + flags + _sum(flags)
    sizes: list[tuple[int, int]] = []
    for text in texts:
        packed = lzma.compress(text, lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 16}])
        header = b"\x02\0\x21\x01\x08" + bytes(3)  # 12 bytes, one filter: LZMA2, of 64 KiB
        block = header + _sum(header) + packed
        sizes.append((len(block) + len(_CHECKS[check](text)), len(text)))
        stream += block + bytes(-len(block) % 4) + _CHECKS[check](text)
    lie(sizes)
    index = b"\0" + _number(len(sizes)) + b"".join(_number(stored) + _number(size) for stored, size in sizes)
    index += bytes(-len(index) % 4)
    index += _sum(index)
    ended = struct.pack("<I", len(index) // 4 - 1) + flags
    return stream + index + _sum(ended) + ended + b"YZ"


def _number(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + _number(number >> 7)


def _sum(data: bytes) -> bytes:
    return struct.pack("<I", zlib.crc32(data))
