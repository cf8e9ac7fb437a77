"""How much the compressed buffers of an Arrow file say they hold, read before the library makes room for it.

An IPC message is a length, a flatbuffer and a body; a compressed buffer of the body begins with its uncompressed size.
Nothing here is trusted but as a reason to refuse: the library reads and checks the same bytes again.
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


def unfolded_bytes(opened: ReadFile, is_file: bool) -> Iterator[tuple[int, int]]:
    """(bytes stored, bytes that they say they unfold into) of the body of every batch.

    Raises ValueError for what is no Arrow file.
    """
    try:
        for offset in _blocks(opened) if is_file else _messages(opened):
            yield _sizes(opened, offset)
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError("not an Arrow message") from error


def _blocks(opened: ReadFile) -> Iterator[int]:
    """Where the footer of a file says that batches are."""
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


def _messages(opened: ReadFile) -> Iterator[int]:
    """Where the messages of a stream are, one behind the other."""
    offset = 0
    while (message := _message(opened, offset)) is not None:
        yield offset
        metadata, body = message
        field = _field(metadata, _at(metadata, 0), 3)  # bodyLength
        length = struct.unpack_from("<q", metadata, field)[0] if field else 0
        if length < 0:
            raise ValueError("a message of negative length")
        offset = body + length


def _message(opened: ReadFile, offset: int) -> tuple[bytes, int] | None:
    """(flatbuffer, where the body starts) of a message; None at the end of a stream."""
    opened.seek(offset)
    prefix = opened.read(8)
    if len(prefix) < 8:
        return None
    marker, length = struct.unpack("<Ii", prefix)
    start = offset + 8
    if marker != _CONTINUATION:  # before version 0.15 there was only the length
        length, start = marker, offset + 4
        opened.seek(start)
    metadata = opened.read(length) if length > 0 else b""
    return (metadata, start + length) if metadata else None


def _sizes(opened: ReadFile, offset: int) -> tuple[int, int]:
    message = _message(opened, offset)
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
            unfolded += max(0, struct.unpack("<q", opened.read(8))[0])  # -1: this one is not compressed
    return stored, unfolded


def _int32(data: bytes, at: int) -> int:
    value: int = struct.unpack_from("<i", data, at)[0]
    return value


def _at(data: bytes, field: int) -> int:
    """Where a field that is an offset leads."""
    return field + _int32(data, field)


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table is, 0 if it is left out."""
    vtable = table - _int32(data, table)
    if 4 + 2 * number >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else 0
