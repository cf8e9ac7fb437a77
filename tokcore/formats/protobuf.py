"""Messages of protocol buffers, read strictly and written, for small schemas: no message is unpacked by a library.

Every error names the file and the field. Lengths are checked before anything is taken, so memory is bounded by the
file's size. A field that stands twice where one is expected is an error, and not the last one of both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tokcore.errors import FormatError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIRE = {"int": _VARINT, "bool": _VARINT, "float": _FIXED32, "str": _BYTES, "bytes": _BYTES, "skip": None}


class Field(NamedTuple):
    """One field of a message that a reader knows."""

    name: str
    kind: str  # int, bool, float, str or bytes; "skip": its value is not looked at
    repeated: bool = False


def read_fields(data: memoryview, place: str) -> Iterator[tuple[int, int, Any]]:
    """(number, wire type, value) of each field: an int for a varint, else the bytes.

    Raises FormatError, naming place and offset, where the bytes end too early or are no field.
    """
    at, size = 0, len(data)
    while at < size:
        start = at
        key, at = _read_varint(data, at, place)
        number, wire = key >> 3, key & 7
        if number == 0 or wire not in (_VARINT, _FIXED64, _BYTES, _FIXED32):
            raise FormatError(f"{place}: byte {start} begins no field: number {number}, wire type {wire}")
        if wire == _VARINT:
            value, at = _read_varint(data, at, place)
            yield number, wire, value
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(wire, -1)
        if length < 0:
            length, at = _read_varint(data, at, place)
        if length > size - at:
            raise FormatError(f"{place}: field {number} at byte {start} has {length} bytes, and {size - at} are left")
        yield number, wire, data[at : at + length]
        at += length


def read_message(data: memoryview, schema: Mapping[int, Field], place: str) -> dict[str, Any]:
    """The values of a message by name of their field; fields that the schema does not name are passed over.

    Raises FormatError, naming place and field, for a wrong type, a field given twice and a str that is not UTF-8.
    """
    values: dict[str, Any] = {}
    for number, wire, value in read_fields(data, place):
        field = schema.get(number)
        if field is None:
            continue
        name, kind, repeated = field
        if _WIRE[kind] not in (wire, None):
            raise FormatError(f"{place}: {name} has the wire type {wire}, expected {_WIRE[kind]}")
        if name in values and not repeated:
            raise FormatError(f"{place}: {name} is given twice")
        parsed = _parse(kind, value, f"{place}: {name}")
        if repeated:
            values.setdefault(name, []).append(parsed)
        else:
            values[name] = parsed
    return values


def _parse(kind: str, value: Any, place: str) -> Any:
    if kind == "int":
        return value - 2**64 if value >= 2**63 else value
    if kind == "bool":
        return value != 0
    if kind == "float":
        return struct.unpack("<f", value)[0]
    if kind == "str":
        try:
            return bytes(value).decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"{place} is not UTF-8: {bytes(value)!r:.80}") from error
    return value


def _read_varint(data: memoryview, at: int, place: str) -> tuple[int, int]:
    value = shift = 0
    for end in range(at, min(at + 10, len(data))):
        byte = data[end]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if value >= 2**64:
                break
            return value, end + 1
    found = "ends within a number" if len(data) - at < 10 else "has a number of more than 64 bits"
    raise FormatError(f"{place}: {found}, at byte {at}")


def write_field(number: int, value: int | bool | float | bytes) -> bytes:
    """One field: a bool or int as a varint, a float in 32 bits, bytes with their length.

    >>> write_field(1, b"<unk>").hex()
    '0a053c756e6b3e'
    """
    if isinstance(value, bytes):
        return write_head(number, len(value)) + value
    if isinstance(value, float):
        return write_varint(number << 3 | _FIXED32) + struct.pack("<f", value)
    return write_varint(number << 3 | _VARINT) + write_varint(int(value) % 2**64)


def write_head(number: int, num_bytes: int) -> bytes:
    """What is before the value of a field of that many bytes.

    >>> write_head(1, 300).hex()
    '0aac02'
    """
    return write_varint(number << 3 | _BYTES) + write_varint(num_bytes)


def write_varint(value: int) -> bytes:
    """An integer below 2^64, seven bits in a byte, the lowest first.

    >>> write_varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
