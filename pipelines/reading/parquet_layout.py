"""What a parquet file says of its row groups, columns and pages, read and checked before the library sees it.

The library ends the process over some footers, once it is asked about their columns, so we never ask. Sizes that it
would allocate are checked against the bytes that are there. All of this only serves to refuse a file: the library reads
and checks the same bytes again.
Source: parquet.thrift, and "File Format" in the Parquet documentation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tokcore_pipelines.reading.limits import MAX_RATIO
from tokcore_pipelines.reading.records import FileRejected
from tokcore_pipelines.reading.row_file import MAX_DECODED_BYTES, RowFile, require_magic
from tokcore_pipelines.reading.thrift import Struct, read_struct

_MAGIC = b"PAR1"
_TAIL_BYTES = 8  # length of the footer, magic
_MAX_FOOTER_BYTES = 1 << 26
# A page's header also holds the smallest and the largest value of the page, which may be long.
_PAGE_HEADER_BYTES = 1 << 10
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3


class Column(NamedTuple):
    """The chunk of a column in a row group. Sizes in bytes, headers of pages included."""

    path: str  # names from the outermost column inwards, joined with "."
    start: int
    num_values: int
    stored_bytes: int
    unfolded_bytes: int
    dictionary: int | None  # position of its page


class RowGroup(NamedTuple):
    num_rows: int
    unfolded_bytes: int
    columns: tuple[Column, ...]


def read_row_groups(file: RowFile) -> list[RowGroup]:
    """The row groups of a file, in order.

    Raises FileRejected unless it begins and ends as a parquet file does, ValueError for a footer that contradicts
    itself or the file's size.
    """
    require_magic(file, _MAGIC, "a parquet file")
    length = int.from_bytes(file.read_at(file.size_bytes - _TAIL_BYTES, 4), "little")
    if length > min(_MAX_FOOTER_BYTES, file.size_bytes - _TAIL_BYTES):
        raise ValueError(f"a footer of {length} bytes in a file of {file.size_bytes}")
    footer_at = file.size_bytes - _TAIL_BYTES - length
    footer, _ = read_struct(file.read_at(footer_at, length))
    num_leaves = sum(1 for element in _require_list(footer, 2)[1:] if not _require_number(element, 5, 0))
    groups = []
    for group in _require_list(footer, 4):
        chunks = _require_list(group, 1)
        if len(chunks) != num_leaves:
            raise ValueError(f"a row group of {len(chunks)} columns, {num_leaves} in the schema")
        columns = tuple(
            _read_column(chunk[3], footer_at) for chunk in chunks if 3 in chunk
        )  # an encrypted one has none
        groups.append(RowGroup(_require_number(group, 3), _require_number(group, 2), columns))
    # A footer may name the same pages a million times.
    if sum(column.stored_bytes for group in groups for column in group.columns) > footer_at:
        raise ValueError("columns that overlap")
    if _require_number(footer, 3) != sum(group.num_rows for group in groups):
        raise ValueError("the row groups do not add up to the rows of the file")
    return groups


def find_groups(rows: Sequence[int], start: int, end: int) -> list[int]:
    """The numbers of the row groups that begin in [start, end). rows: of each group of a file.

    Empty ones at the end of the file are those of its last range.

    >>> find_groups([3, 4, 0], 0, 3), find_groups([3, 4, 0], 3, 7)
    ([0], [1, 2])
    """
    firsts = [0, *itertools.accumulate(rows)]
    is_last = end == firsts[-1]
    return [number for number, first in enumerate(firsts[:-1]) if start <= first and (is_last or first < end)]


def require_bounded(file: RowFile, column: Column) -> int:
    """The bytes of the column's dictionary, of which each row may repeat a part; 0 without one.

    Raises FileRejected for a column that would unfold beyond the limit, ValueError for pages that cannot be.
    """
    limit = MAX_DECODED_BYTES + MAX_RATIO * column.stored_bytes
    if column.unfolded_bytes > limit:
        detail = f"a column of {column.unfolded_bytes} bytes from {column.stored_bytes} stored"
        raise FileRejected("over_limit", detail)
    dictionary_bytes = 0
    if column.dictionary is not None:
        dictionary_bytes = _read_size(read_struct(file.read_at(column.dictionary, _PAGE_HEADER_BYTES))[0])
        if dictionary_bytes > MAX_DECODED_BYTES:
            detail = f"a dictionary of {dictionary_bytes} bytes, more than {MAX_DECODED_BYTES}"
            raise FileRejected("over_limit", detail)
    if file.data is not None:  # in a larger file the headers lie too far apart to be read twice
        unfolded = sum(_read_page_sizes(file.data, column))
        if unfolded > limit:
            raise FileRejected("over_limit", f"pages of {unfolded} bytes from {column.stored_bytes} stored")
    return dictionary_bytes


def _read_page_sizes(data: bytearray, column: Column) -> Iterator[int]:
    """The bytes that each page of a column claims to unfold to."""
    at, end, num_values = column.start, column.start + column.stored_bytes, 0
    while num_values < column.num_values and at < end:
        header, at = read_struct(data, at)
        at += _require_number(header, 3)
        if at > len(data):
            raise ValueError(f"a page that ends at byte {at} of {len(data)}")
        kind = _require_number(header, 1)
        if kind in (_DATA_PAGE, _DATA_PAGE_V2):
            num_values += _require_number(header.get(5 if kind == _DATA_PAGE else 8), 1)
        yield _read_size(header)


def _read_size(header: Struct) -> int:
    """The uncompressed size in the header of a page."""
    return _require_number(header, 2)


def _read_column(told: Struct, footer_at: int) -> Column:
    stored_bytes = _require_number(told, 7)
    dictionary = _require_number(told, 11, 0) or None
    start = _require_number(told, 9)
    if dictionary is not None:
        start = min(start, dictionary)
    if not 0 <= start <= footer_at or stored_bytes > footer_at - start:
        raise ValueError(f"a column of {stored_bytes} bytes at byte {start}, where {footer_at} are before the footer")
    path = ".".join(bytes(name).decode() for name in _require_list(told, 3))
    return Column(path, start, _require_number(told, 5), stored_bytes, _require_number(told, 6), dictionary)


def _require_number(fields: Any, number: int, default: int | None = None) -> int:
    value = fields.get(number, default) if isinstance(fields, dict) else None
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"field {number} is no size: {value!r:.100}")
    return value


def _require_list(fields: Any, number: int) -> list[Any]:
    value = fields.get(number) if isinstance(fields, dict) else None
    if not isinstance(value, list):
        raise ValueError(f"field {number} is no list")
    return value
