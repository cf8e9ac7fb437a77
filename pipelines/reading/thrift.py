"""Structs in Thrift's compact protocol, in which parquet files are described: numbers, texts, lists, structs.

Works on bytes alone and trusts nothing: whatever they are, the result is a struct or a ValueError, in time that is
linear in their number.
Source: Apache Thrift, "Thrift Compact protocol encoding".
"""

from __future__ import annotations

import struct
from typing import Any

# Field id -> value: bool, int, float, bytes, list, Struct. Maps are left out.
Struct = dict[int, Any]

_MAX_DEPTH = 16  # footers have eight
_TRUE, _FALSE, _INT8, _INT16, _INT32, _INT64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = range(1, 14)


def read_struct(data: bytes | bytearray, start: int = 0) -> tuple[Struct, int]:
    """(the struct at this position, the position after it). Raises ValueError if there is none.

    >>> read_struct(bytes([0x15, 0x02, 0x18, 0x01, 0x61, 0x00]))
    ({1: 1, 2: b'a'}, 6)
    """
    reader = _Reader(data, start)
    try:
        return reader.struct(0), reader.at
    except (IndexError, struct.error) as error:
        raise ValueError("a Thrift struct does not end") from error


class _Reader:
    def __init__(self, data: bytes | bytearray, at: int) -> None:
        self._data = data
        self.at = at

    def struct(self, depth: int) -> Struct:
        if depth > _MAX_DEPTH:
            raise ValueError("a Thrift struct is nested too deeply")
        fields: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_INT16, _INT32, _INT64):
            return self._signed()
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind in (_TRUE, _FALSE, _INT8):
            return self._byte()
        if kind == _DOUBLE:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == _UUID:
            return self._bytes(16)
        if kind == _MAP:
            return self._map(depth)
        raise ValueError(f"a Thrift field of unknown type {kind}")

    def _list(self, depth: int) -> list[Any]:
        if depth > _MAX_DEPTH:
            raise ValueError("a Thrift list is nested too deeply")
        head = self._byte()
        length = head >> 4 if head >> 4 != 15 else self._unsigned()
        # An element has at least a byte.
        if length > len(self._data) - self.at:
            raise ValueError(f"a Thrift list of {length} elements does not end")
        return [self._value(head & 15, depth + 1) for _ in range(length)]

    def _map(self, depth: int) -> None:
        if length := self._unsigned():
            kinds = self._byte()
            for _ in range(length):
                self._value(kinds >> 4, depth + 1)
                self._value(kinds & 15, depth + 1)

    def _byte(self) -> int:
        value = self._data[self.at]
        self.at += 1
        return value

    def _bytes(self, length: int) -> bytes:
        start, self.at = self.at, self.at + length
        if self.at > len(self._data):
            raise ValueError(f"{length} bytes of a Thrift struct do not end")
        return bytes(self._data[start : self.at])

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a Thrift number of more than 64 bits")

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
