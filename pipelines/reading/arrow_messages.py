"""The sizes to which the compressed buffers of an Arrow file claim to unfold, read before the library allocates them.

An IPC message is a length, a flatbuffer and a body. Each compressed buffer in the body begins with its uncompressed
size. These sizes only serve to refuse a file: the library reads and checks the same bytes again.
Source: Arrow columnar format, "Serialization and Interprocess Communication"; Message.fbs and File.fbs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pipelines.store.storage import ReadFile

_CONTINUATION = 0xFFFFFFFF
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3  # MessageHeader
_FOOTER_TAIL = struct.Struct("<i6s")  # length of the footer, magic
_BLOCK_BYTES = 24


def read_batch_sizes(opened: ReadFile, is_file: bool) -> Iterator[tuple[int, int]]:
    """(stored bytes, claimed unfolded bytes) of the compressed buffers of every batch.

    Raises ValueError if this is not an Arrow file.
    """
    try:
        for offset in _find_blocks(opened) if is_file else _find_messages(opened):
            yield _read_sizes(opened, offset)
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError("not an Arrow message") from error


def _find_blocks(opened: ReadFile) -> Iterator[int]:
    """Positions of the batches, from the file's footer."""
    opened.seek(opened.size() - _FOOTER_TAIL.size)
    length, _ = _FOOTER_TAIL.unpack(opened.read(_FOOTER_TAIL.size))
    opened.seek(opened.size() - _FOOTER_TAIL.size - length)
    footer = opened.read(length)
    root = _at(footer, 0)
    for number in (2, 3):  # dictionaries, recordBatches
        if field := _field(footer, root, number):
            start = _at(footer, field)
            for i in range(_int32(footer, start)):
                yield struct.unpack_from("<q", footer, start + 4 + _BLOCK_BYTES * i)[0]


def _find_messages(opened: ReadFile) -> Iterator[int]:
    """Positions of the messages of a stream, in order."""
    offset = 0
    while (message := _read_message(opened, offset)) is not None:
        yield offset
        metadata, body = message
        field = _field(metadata, _at(metadata, 0), 3)  # bodyLength
        length = struct.unpack_from("<q", metadata, field)[0] if field else 0
        if length < 0:
            raise ValueError("a message of negative length")
        offset = body + length


def _read_message(opened: ReadFile, offset: int) -> tuple[bytes, int] | None:
    """(flatbuffer, position of the body) of a message; None at the end of a stream."""
    opened.seek(offset)
    prefix = opened.read(8)
    if len(prefix) < 8:
        return None
    marker, length = struct.unpack("<Ii", prefix)
    start = offset + 8
    if marker != _CONTINUATION:  # before version 0.15 a message began with its length
        length, start = marker, offset + 4
        opened.seek(start)
    metadata = opened.read(length) if length > 0 else b""
    return (metadata, start + length) if metadata else None


def _read_sizes(opened: ReadFile, offset: int) -> tuple[int, int]:
    message = _read_message(opened, offset)
    if message is None:
        return 0, 0
    metadata, body = message
    root = _at(metadata, 0)
    kind = metadata[_field(metadata, root, 1)]
    if kind not in (_DICTIONARY_BATCH, _RECORD_BATCH):
        return 0, 0
    batch = _at(metadata, _field(metadata, root, 2))
    if kind == _DICTIONARY_BATCH:
        batch = _at(metadata, _field(metadata, batch, 1))  # data
    if not _field(metadata, batch, 3):  # compression
        return 0, 0
    buffers = _at(metadata, _field(metadata, batch, 2))
    stored = unfolded = 0
    for i in range(_int32(metadata, buffers)):
        start, length = struct.unpack_from("<qq", metadata, buffers + 4 + 16 * i)
        if length >= 8:
            opened.seek(body + start)
            stored += length
            unfolded += max(0, struct.unpack("<q", opened.read(8))[0])  # -1: not compressed
    return stored, unfolded


def _int32(data: bytes, at: int) -> int:
    value: int = struct.unpack_from("<i", data, at)[0]
    return value


def _at(data: bytes, field: int) -> int:
    """The position that an offset field points to."""
    return field + _int32(data, field)


def _field(data: bytes, table: int, number: int) -> int:
    """The position of a table's field; 0 if the table leaves it out."""
    vtable = table - _int32(data, table)
    if 4 + 2 * number >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else 0
