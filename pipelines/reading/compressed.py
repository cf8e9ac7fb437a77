"""Decompression of gz, zst, bz2 and xz files, piece by piece, each checked to its end.

Several libraries read the first half of a cut file without an error. So "no more data" never counts as the end here: a
compressed file must end with a complete gzip member, zstd frame, or bzip2 or xz stream, its checksum included. Memory
stays bounded, whatever the bytes are: the decompressors give their output in steps and get no window beyond a limit.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import zstandard
from isal import igzip_lib

from tokcore_pipelines.reading.records import FileRejected, make_printable
from tokcore_schemas.input_format import Compression

READ_BYTES = 1 << 20
PIECE_BYTES = 1 << 20  # of what gz, bz2 and xz unfold to in one step
MAX_WINDOW_BYTES = 1 << 27
# An xz decoder needs its window and some tables.
MAX_XZ_BYTES = MAX_WINDOW_BYTES + (1 << 22)
MAX_GZIP_HEADER_BYTES = 1 << 18

_GZIP_MAGIC = b"\x1f\x8b\x08"
_XZ_CHECKS = (lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256)
_XZ_PADDING_BYTES = 4

# A call of the zstd decompressor returns everything that its input unfolds to. Four bytes can store a block of 128 KiB,
# so this much input unfolds to at most 64 MiB.
_ZSTD_FEED_BYTES = 1 << 11
_FEED_BYTES = 1 << 16


class StoredFile(Protocol):
    """What is read of a compressed file, or of a part of one: `read(n)` gives fewer bytes only at its end."""

    def read(self, size: int) -> bytes: ...
    def tell(self) -> int: ...
    def size(self) -> int: ...


def decompress(file: StoredFile, compression: Compression) -> Iterator[bytes]:
    """What a file unfolds to, from its start, in pieces of any size.

    Raises FileRejected, at the latest after the last piece, unless every part of the file is sound and the last one
    ends where the file does.
    """
    pieces: dict[Compression, Callable[[StoredFile], Iterator[bytes]]] = {
        "gz": _decompress_gzip,
        "zst": _decompress_zstd,
        "bz2": lambda file: _decompress_streams(file, _BZIP2),
        "xz": lambda file: _decompress_streams(file, _XZ),
    }
    return pieces[compression](file)


def _decompress_zstd(file: StoredFile) -> Iterator[bytes]:
    """The decompressed pieces of all frames; skippable frames hold nothing."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    frame: zstandard.ZstdDecompressionObj | None = None
    position = 0
    while data := file.read(READ_BYTES):
        view = memoryview(data)
        at = 0
        while at < len(data):
            if frame is None:
                frame = decompressor.decompressobj()
            fed = view[at : at + _ZSTD_FEED_BYTES]
            try:
                piece = frame.decompress(fed)
            except zstandard.ZstdError as error:
                if "memory" in str(error):
                    detail = f"a zstd frame wants a window of more than {MAX_WINDOW_BYTES} bytes"
                    raise FileRejected("over_limit", detail) from error
                where = f"between bytes {position + at} and {position + at + len(fed)}"
                raise FileRejected("corrupt", f"not a valid zstd frame {where}") from error
            at += len(fed)
            if frame.eof:
                at -= len(frame.unused_data)
                frame = None
            if piece:
                yield piece
        position += len(data)
    if frame is not None:
        raise FileRejected("truncated", f"the last zstd frame does not end within the file's {position} bytes")


def _decompress_gzip(file: StoredFile) -> Iterator[bytes]:
    """The decompressed pieces of all members; zero bytes after the last member are padding."""
    member: igzip_lib.IgzipDecompressor | None = None
    num_members = 0
    data = b""
    at = 0
    while True:
        if at == len(data):
            data, at = file.read(READ_BYTES), 0
            if not data:
                break
        if member is None:
            if num_members and not data[at]:
                _require_padding(data[at:], file)
                break
            size_bytes = _measure_gzip_header(data, at)
            if size_bytes is None:
                more = file.read(READ_BYTES)
                if not more:
                    raise FileRejected("truncated", f"the file's {file.size()} bytes end within a gzip header")
                data, at = data[at:] + more, 0
                continue
            at += size_bytes
            # We read the header: the library misreads one whose name or checksum comes in two parts.
            member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP_NO_HDR_VER)
            continue
        fed = data[at : at + _FEED_BYTES]
        at += len(fed)
        try:
            yield from _decompress_member(member, fed)
        except igzip_lib.error as error:  # type: ignore[misc] # the stubs give it no type
            before = file.tell() - len(data) + at
            raise FileRejected("corrupt", f"not a valid gzip member, at or before byte {before}") from error
        if member.eof:
            at -= len(member.unused_data)
            num_members += 1
            member = None
    if member is not None:
        raise FileRejected("truncated", f"the last gzip member does not end within the file's {file.size()} bytes")


def _decompress_member(decompressor: Any, data: bytes) -> Iterator[bytes]:
    """What data gives, in pieces of at most PIECE_BYTES. Stops at the end of the member or stream.

    decompressor: of igzip_lib, bz2 or lzma, which have the same methods but no common type.
    """
    while True:
        if piece := decompressor.decompress(data, PIECE_BYTES):
            yield piece
        if decompressor.eof or decompressor.needs_input:
            return
        data = b""


def _measure_gzip_header(data: bytes, at: int) -> int | None:
    """Length of the gzip header at a position; None if data ends within it. Raises FileRejected if there is none."""
    start = data[at : at + 3]
    if start != _GZIP_MAGIC[: len(start)]:
        raise FileRejected("corrupt", f"neither a gzip member nor padding: {make_printable(data[at : at + 16])}")
    if len(data) - at < 10:
        return None
    flags = data[at + 3]
    end = at + 10
    if flags & 0xE0:
        raise FileRejected("corrupt", "a gzip header with unknown flags")
    if flags & 0x04:  # extra field
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for flag in (0x08, 0x10):  # name, comment
        if flags & flag and end <= len(data):
            end = data.find(b"\0", end) + 1 or len(data) + 1
    if flags & 0x02:  # checksum of the header
        end += 2
    if end > len(data):
        if len(data) - at > MAX_GZIP_HEADER_BYTES:
            raise FileRejected("over_limit", f"a gzip header of more than {MAX_GZIP_HEADER_BYTES} bytes")
        return None
    if flags & 0x02 and zlib.crc32(data[at : end - 2]) & 0xFFFF != int.from_bytes(data[end - 2 : end], "little"):
        raise FileRejected("corrupt", "the checksum of a gzip header does not hold")
    return end - at


def _require_padding(data: bytes, file: StoredFile) -> None:
    while data:
        if data.count(0) != len(data):
            raise FileRejected("corrupt", "something other than padding follows the zeros after a gzip member")
        data = file.read(READ_BYTES)


class _Streams(NamedTuple):
    """A compression whose files are streams, one after the other."""

    name: str  # of a stream
    open: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]
    padding_bytes: int  # zeros between and after streams come in multiples of this; 0: there are none


_BZIP2 = _Streams("bzip2 stream", bz2.BZ2Decompressor, 0)
_XZ = _Streams("xz stream", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_XZ_BYTES), _XZ_PADDING_BYTES)


def _decompress_streams(file: StoredFile, kind: _Streams) -> Iterator[bytes]:
    """The decompressed pieces of all streams."""
    stream: bz2.BZ2Decompressor | lzma.LZMADecompressor | None = None
    num_streams = num_zeros = 0
    data = b""
    at = 0
    while True:
        if at == len(data):
            data, at = file.read(READ_BYTES), 0
            if not data:
                break
        if stream is None:
            if num_streams and kind.padding_bytes and not data[at]:
                rest = data[at:].lstrip(b"\0")
                num_zeros += len(data) - at - len(rest)
                at = len(data) - len(rest)
                continue
            _require_whole_padding(num_zeros, kind, "corrupt")
            num_zeros = 0
            stream = kind.open()
        fed = data[at : at + _FEED_BYTES]
        at += len(fed)
        try:
            yield from _decompress_member(stream, fed)
        except (OSError, ValueError, EOFError, lzma.LZMAError) as error:
            if "emory" in str(error):
                detail = f"an {kind.name} wants more than {MAX_XZ_BYTES} bytes of memory"
                raise FileRejected("over_limit", detail) from error
            before = file.tell() - len(data) + at
            raise FileRejected("corrupt", f"not a valid {kind.name}, at or before byte {before}") from error
        if stream.eof:
            if isinstance(stream, lzma.LZMADecompressor) and stream.check not in _XZ_CHECKS:
                raise FileRejected("corrupt", f"an xz stream with a check of unknown kind {stream.check}")
            at -= len(stream.unused_data)
            num_streams += 1
            stream = None
    if stream is not None:
        raise FileRejected("truncated", f"the last {kind.name} does not end within the file's {file.size()} bytes")
    _require_whole_padding(num_zeros, kind, "truncated")


def _require_whole_padding(num_zeros: int, kind: _Streams, reason: str) -> None:
    if num_zeros and num_zeros % kind.padding_bytes:
        detail = f"{num_zeros} zero bytes after an {kind.name}, which is no multiple of {kind.padding_bytes}"
        raise FileRejected(reason, detail)
