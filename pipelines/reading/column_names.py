"""The names and types of columns, from what a parquet or Arrow file says of its schema, without the Arrow library.

The library ends the process over some files. Here whatever the bytes are, the result is some names or a ValueError.
Sources: parquet.thrift (SchemaElement); Arrow's Message.fbs and Schema.fbs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tokcore_pipelines.reading.thrift import read_struct

_MAX_DEPTH = 16
_MAX_COLUMNS = 10_000
_ARROW_FILE_START = b"ARROW1\0\0"
_CONTINUATION = b"\xff\xff\xff\xff"

# Parquet's physical types, and converted types of groups that are no structs.
_PARQUET_TYPES = ("bool", "int32", "int64", "int96", "float", "double", "binary", "fixed_size_binary")
_REPEATED, _MAP, _MAP_KEY_VALUE, _LIST = 2, 1, 2, 3
# Arrow's types by their number in the union Type.
_TYPE_NAMES = (
    "none null int float binary string bool decimal date time timestamp interval list struct union fixed_size_binary "
    "list map duration large_binary large_string list run_end_encoded binary_view string_view"
)
_ARROW_TYPES = tuple(_TYPE_NAMES.split())
_ARROW_STRUCT = 13


class Column(NamedTuple):
    """A column that holds values, or lists of them."""

    name: str  # "a.b" for b inside of the struct a, "a[*].b" for b of each struct in the list a
    kind: str  # string, binary, int64, list, ...


def read_parquet_columns(footer: bytes) -> list[Column]:
    """The columns that a parquet file's footer names. Raises ValueError if it is none."""
    fields, _ = read_struct(footer)
    elements = fields.get(2)
    if not isinstance(elements, list) or not all(isinstance(one, dict) for one in elements):
        raise ValueError("a footer without a schema")
    walk = iter(elements)
    root = next(walk, None)
    return [*_read_parquet_children(walk, _require_whole(root, 5), "", 0)] if root is not None else []


def read_parquet_rows(footer: bytes) -> int:
    """The number of rows that a parquet file's footer tells. Raises ValueError if it tells none."""
    rows = read_struct(footer)[0].get(3)
    if not isinstance(rows, int) or rows < 0:
        raise ValueError("a footer without a number of rows")
    return rows


def _read_parquet_children(walk: Iterator[dict[int, Any]], num: int, prefix: str, depth: int) -> Iterator[Column]:
    """The next num elements of the schema, which stand before those of their parent that follow."""
    if depth > _MAX_DEPTH:
        raise ValueError("a schema that is nested too deeply")
    for _ in range(min(num, _MAX_COLUMNS)):
        element = next(walk, None)
        if element is None:
            return
        name = f"{prefix}{_require_text(element.get(4))}"
        if not (num_children := _require_whole(element, 5)):
            number = _require_whole(element, 1)
            kind = _PARQUET_TYPES[number] if number < len(_PARQUET_TYPES) else "unknown"
            is_text = element.get(6) == 0 or (isinstance(element.get(10), dict) and 1 in element[10])
            kind = "string" if kind == "binary" and is_text else kind
            yield Column(name, "list" if element.get(3) == _REPEATED else kind)
            continue
        told = element.get(10)
        if (element.get(6) == _LIST or (isinstance(told, dict) and 3 in told)) and num_children == 1:
            # name.list.element.b: what repeats, and its element, have names of their own.
            repeated = _require_whole(next(walk, {}), 5)
            yield from _name_in_list(name, [*_read_parquet_children(walk, repeated, "", depth + 2)])
            continue
        inside = [*_read_parquet_children(walk, num_children, f"{name}.", depth + 1)]
        is_list = element.get(6) in (_MAP, _MAP_KEY_VALUE, _LIST) or (
            isinstance(told, dict) and (2 in told or 3 in told)
        )
        yield from [Column(name, "list")] if is_list or element.get(3) == _REPEATED else inside


def _name_in_list(name: str, inside: Sequence[Column]) -> Iterator[Column]:
    """The columns of a list: one for each field of its structs, if that is what it holds.

    inside: the list's own columns, whose names begin with that of its member.
    """
    fields = [(one.name.partition(".")[2], one.kind) for one in inside]
    if not fields or any(not field for field, _ in fields) or any("[" in one.name for one in inside):
        yield Column(name, "list")
    else:
        yield from (Column(f"{name}[*].{field}", kind) for field, kind in fields)


def _require_whole(element: dict[int, Any], number: int) -> int:
    value = element.get(number, 0)
    return value if isinstance(value, int) and value >= 0 else 0


def _require_text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def read_arrow_columns(start: bytes) -> list[Column]:
    """The columns that the first message of an Arrow file or stream names. Raises ValueError if it is none."""
    at = len(_ARROW_FILE_START) if start.startswith(_ARROW_FILE_START) else 0
    at += 4 * (start[at : at + 4] == _CONTINUATION)  # before version 0.15 a message began with its length
    try:
        length = struct.unpack_from("<i", start, at)[0]
        if not 0 < length <= len(start) - at - 4:
            raise ValueError(f"a schema of {length} bytes")
        reader = _Flat(start[at + 4 : at + 4 + length])
        message = reader.target(0)
        header = reader.field(message, 2)
        if not header:
            raise ValueError("a message without a header")
        return [*_read_arrow_children(reader, reader.field(reader.target(header), 1), "", 0)]
    except (struct.error, IndexError) as error:
        raise ValueError("not a schema message") from error


def _read_arrow_children(reader: _Flat, vector: int, prefix: str, depth: int) -> Iterator[Column]:
    if depth > _MAX_DEPTH:
        raise ValueError("a schema that is nested too deeply")
    if not vector:
        return
    start = reader.target(vector)
    for i in range(min(max(0, reader.int32(start)), _MAX_COLUMNS)):
        field = reader.target(start + 4 + 4 * i)
        name = f"{prefix}{reader.text(reader.field(field, 0))}"
        at = reader.field(field, 2)
        number = reader.data[at] if at else 0
        kind = _ARROW_TYPES[number] if number < len(_ARROW_TYPES) else "unknown"
        if number == _ARROW_STRUCT:
            yield from _read_arrow_children(reader, reader.field(field, 5), f"{name}.", depth + 1)
        elif kind == "list":
            # A list has one child, which has a name of its own.
            inside = [*_read_arrow_children(reader, reader.field(field, 5), "", depth + 1)]
            yield from _name_in_list(name, inside)
        else:
            yield Column(name, kind)


class _Flat:
    """A flatbuffer. Positions are checked by struct, which refuses what is not there; none may be negative."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def int32(self, at: int) -> int:
        if at < 0:
            raise ValueError("a position before the start")
        value: int = struct.unpack_from("<i", self.data, at)[0]
        return value

    def target(self, at: int) -> int:
        """The position that an offset points to."""
        return at + self.int32(at)

    def field(self, table: int, number: int) -> int:
        """The position of a table's field; 0 if the table leaves it out."""
        vtable = table - self.int32(table)
        if vtable < 0:
            raise ValueError("a position before the start")
        if 4 + 2 * number >= struct.unpack_from("<H", self.data, vtable)[0]:
            return 0
        offset: int = struct.unpack_from("<H", self.data, vtable + 4 + 2 * number)[0]
        return table + offset if offset else 0

    def text(self, at: int) -> str:
        if not at:
            return ""
        start = self.target(at)
        return self.data[start + 4 : start + 4 + max(0, self.int32(start))].decode(errors="replace")
