"""What the messages of an Arrow file say of their buffers, read and checked before the library allocates or uses them.

An IPC message is a length, a flatbuffer and a body. Each compressed buffer in the body begins with its uncompressed
size. All of this only serves to refuse a file: the library reads and checks the same bytes again.
Source: Arrow columnar format, "Serialization and Interprocess Communication"; Message.fbs and File.fbs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tokcore_pipelines.reading.row_file import RowFile

_CONTINUATION = 0xFFFFFFFF
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3  # MessageHeader
_FOOTER_TAIL = struct.Struct("<i6s")  # length of the footer, magic
_BLOCK_BYTES = 24


def read_batch_sizes(file: RowFile, is_file: bool) -> Iterator[tuple[int, int]]:
    """(stored bytes, claimed unfolded bytes) of the compressed buffers of every batch.

    Raises ValueError if this is not an Arrow file, or if a batch is not within it.
    """
    described = 0
    try:
        for offset in _find_blocks(file) if is_file else _find_messages(file):
            if (message := _read_message(file, offset)) is not None:
                described += len(message.metadata)
                if described > file.size_bytes:  # a footer may name the same message a million times
                    raise ValueError("messages that overlap")
                yield _read_sizes(file, message)
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError("not an Arrow message") from error


def _find_blocks(file: RowFile) -> Iterator[int]:
    """Positions of the batches, from the file's footer."""
    end = file.size_bytes - _FOOTER_TAIL.size
    length, _ = _FOOTER_TAIL.unpack(file.read_at(end, _FOOTER_TAIL.size))
    footer = file.read_at(end - length, length)
    root = _follow_offset(footer, 0)
    for number in (2, 3):  # dictionaries, recordBatches
        if field := _find_field(footer, root, number):
            start = _follow_offset(footer, field)
            for i in range(_read_int32(footer, start)):
                yield struct.unpack_from("<q", footer, start + 4 + _BLOCK_BYTES * i)[0]


def _find_messages(file: RowFile) -> Iterator[int]:
    """Positions of the messages of a stream, in order."""
    offset = 0
    while (message := _read_message(file, offset)) is not None:
        yield offset
        offset = message.body + message.body_bytes


class _Message(NamedTuple):
    metadata: bytes  # a flatbuffer
    body: int  # its position
    body_bytes: int


def _read_message(file: RowFile, offset: int) -> _Message | None:
    """The message at a position; None at the end of a stream."""
    prefix = file.read_at(offset, 8)
    if len(prefix) < 8:
        return None
    marker, length = struct.unpack("<Ii", prefix)
    start = offset + 8
    if marker != _CONTINUATION:  # before version 0.15 a message began with its length
        length, start = marker, offset + 4
    metadata = file.read_at(start, length) if length > 0 else b""
    if not metadata:
        return None
    field = _find_field(metadata, _follow_offset(metadata, 0), 3)  # bodyLength
    body_bytes = struct.unpack_from("<q", metadata, field)[0] if field else 0
    if not 0 <= body_bytes <= file.size_bytes - start - length:
        raise ValueError(f"a message of {body_bytes} bytes at byte {start + length} of {file.size_bytes}")
    return _Message(metadata, start + length, body_bytes)


def _read_sizes(file: RowFile, message: _Message) -> tuple[int, int]:
    metadata = message.metadata
    root = _follow_offset(metadata, 0)
    kind = metadata[_find_field(metadata, root, 1)]
    if kind not in (_DICTIONARY_BATCH, _RECORD_BATCH):
        return 0, 0
    batch = _follow_offset(metadata, _find_field(metadata, root, 2))
    if kind == _DICTIONARY_BATCH:
        batch = _follow_offset(metadata, _find_field(metadata, batch, 1))  # data
    _require_rows(metadata, batch)
    is_compressed = bool(_find_field(metadata, batch, 3))
    stored = unfolded = 0
    for start, length in _read_pairs(metadata, batch, 2):  # buffers
        if min(start, length) < 0 or (length and start + length > message.body_bytes):
            raise ValueError(f"a buffer of {length} bytes at byte {start} of a body of {message.body_bytes}")
        if is_compressed and length >= 8:
            stored += length
            claimed = struct.unpack("<q", file.read_at(message.body + start, 8))[0]
            unfolded += max(0, claimed)  # -1: not compressed
    return stored, unfolded


def _require_rows(metadata: bytes, batch: int) -> None:
    """Raise ValueError for a batch or a column whose numbers of rows and nulls cannot be."""
    field = _find_field(metadata, batch, 0)
    if field and struct.unpack_from("<q", metadata, field)[0] < 0:
        raise ValueError("a batch of negative length")
    for length, num_nulls in _read_pairs(metadata, batch, 1):  # nodes
        if not -1 <= num_nulls <= length:  # -1: not counted
            raise ValueError(f"{num_nulls} nulls in {length} rows")
    if field := _find_field(metadata, batch, 4):  # variadicBufferCounts
        start = _follow_offset(metadata, field)
        for i in range(_read_int32(metadata, start)):
            if struct.unpack_from("<q", metadata, start + 4 + 8 * i)[0] < 0:
                raise ValueError("a negative number of buffers")


def _read_pairs(metadata: bytes, table: int, number: int) -> Iterator[tuple[int, int]]:
    """The elements of a vector of pairs of 64-bit integers; none if the table leaves the vector out."""
    if field := _find_field(metadata, table, number):
        start = _follow_offset(metadata, field)
        for i in range(_read_int32(metadata, start)):
            yield struct.unpack_from("<qq", metadata, start + 4 + 16 * i)


def _read_int32(data: bytes, at: int) -> int:
    value: int = struct.unpack_from("<i", data, at)[0]
    return value


def _follow_offset(data: bytes, field: int) -> int:
    """The position that an offset field points to."""
    return field + _read_int32(data, field)


def _find_field(data: bytes, table: int, number: int) -> int:
    """The position of a table's field; 0 if the table leaves it out."""
    vtable = table - _read_int32(data, table)
    if 4 + 2 * number >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else 0
