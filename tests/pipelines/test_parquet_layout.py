"""The metadata of a parquet file: read as the library reads it, and refused before that would do harm."""

from __future__ import annotations

import io
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tokcore_pipelines.reading.parquet_layout import Column, read_row_groups, require_bounded
from tokcore_pipelines.reading.records import FileRejected
from tokcore_pipelines.reading.row_file import MAX_DECODED_BYTES, RowFile
from tokcore_pipelines.reading.thrift import read_struct

MAX = (1 << 31) - 1


class Bytes(io.BytesIO):
    def size(self) -> int:
        return len(self.getvalue())


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def number(value: int) -> bytes:
    """A field of 32 bits that follows the one before."""
    return b"\x15" + varint(2 * value)


def page(unfolded: int, stored: int, num_values: int = 1) -> bytes:
    """A data page: its header, and zeros."""
    return number(0) + number(unfolded) + number(stored) + b"\x2c" + number(num_values) + b"\0\0" + bytes(stored)


def column(data: bytes, num_values: int = 1, unfolded: int = 100) -> tuple[RowFile, Column]:
    return RowFile(Bytes(data)), Column("text", 0, num_values, len(data), unfolded, None)


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_row_groups_are_those_of_the_library(dictionary, compression):
    table = pa.table({"text": ["a", "b", None] * 50, "meta": [{"lang": "en", "more": [1, 2]}] * 150})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=40, use_dictionary=dictionary, compression=compression)
    data = bytes(sink.getvalue())
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    groups = read_row_groups(RowFile(Bytes(data)))
    assert len(groups) == metadata.num_row_groups == 4
    for index, group in enumerate(groups):
        known = metadata.row_group(index)
        assert (group.num_rows, group.unfolded_bytes) == (known.num_rows, known.total_byte_size)
        for place, one in enumerate(group.columns):
            theirs = known.column(place)
            start = theirs.dictionary_page_offset or theirs.data_page_offset
            assert one == Column(
                theirs.path_in_schema,
                start,
                theirs.num_values,
                theirs.total_compressed_size,
                theirs.total_uncompressed_size,
                theirs.dictionary_page_offset,
            )
            assert (require_bounded(RowFile(Bytes(data)), one) > 0) == theirs.has_dictionary_page


def test_a_page_that_claims_two_gigabytes():
    sound = page(100, 90)
    assert require_bounded(*column(sound)) == 0
    with pytest.raises(FileRejected, match=f"over_limit: pages of {MAX} bytes from"):
        require_bounded(*column(page(MAX, 90)))
    with pytest.raises(FileRejected, match="over_limit: pages of"):  # all pages together
        require_bounded(*column(page(MAX_DECODED_BYTES, 90) * 2, num_values=2))
    require_bounded(*column(page(MAX_DECODED_BYTES, 90) * 2, num_values=1))  # the second is no page of the column


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (page(100, 90)[:50], "a page that ends at byte"),
        (number(0) + number(100), "does not end"),
        (b"\x15\x00\x15\x01\x15\x00\x2c\x15\x02\x00\x00", "field 2 is no size"),
        (b"\x15\x00\x15\x02\x15\x00\x00", "field 1 is no size"),
        (b"\x15\x00\x00", "field 3 is no size"),
    ],
)
def test_pages_that_cannot_be(data, reason):
    with pytest.raises(ValueError, match=reason):
        require_bounded(*column(data))


def footer_of(data: bytes) -> bytes:
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def with_footer(data: bytes, footer: bytes) -> RowFile:
    start = data[: -8 - len(footer_of(data))]
    return RowFile(Bytes(start + footer + len(footer).to_bytes(4, "little") + b"PAR1"))


def small() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": ["some text"] * 3}), sink, store_schema=False, write_statistics=False)
    return bytes(sink.getvalue())


def test_a_footer_that_names_the_same_pages_again_and_again():
    """One row group, repeated: reading all of them would take time quadratic in the file's size."""
    data = small()
    footer = footer_of(data)
    assert footer.count(b"\x19\x1c\x19\x1c") == 1  # a list of one row group, which has a list of one column
    at = footer.index(b"\x19\x1c\x19\x1c") + 2
    group = footer[at : at + _length(footer, at)]
    with pytest.raises(ValueError, match="columns that overlap"):
        read_row_groups(with_footer(data, footer[: at - 1] + b"\xec" + group * 14 + footer[at + len(group) :]))
    with pytest.raises(ValueError, match="the row groups do not add up"):
        read_row_groups(with_footer(data, footer.replace(b"\x16\x06\x19\x1c", b"\x16\x08\x19\x1c")))  # 4 rows for 3


def _length(footer: bytes, at: int) -> int:
    return read_struct(footer, at)[1] - at


def test_footers_that_cannot_be():
    data = small()
    footer = footer_of(data)
    for broken, reason in (
        (footer[:-1], "does not end"),
        (b"", "does not end"),
        (b"\x00", "field 2 is no list"),
        (footer.replace(b"\x04text", b"\xff\xff\xff\xff\x0ftext"), "do not end"),
    ):
        with pytest.raises(ValueError, match=reason):
            read_row_groups(with_footer(data, broken))
    with pytest.raises(ValueError, match="a footer of"):
        read_row_groups(RowFile(Bytes(data[:-8] + (1 << 20).to_bytes(4, "little") + b"PAR1")))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not end"),
        (b"\x15", "does not end"),
        (b"\x1c" * 100, "nested too deeply"),
        (b"\x19" + b"\x19" * 100, "nested too deeply"),
        (b"\x19\xf5\xff\xff\xff\xff\x0f", "a list of 4294967295 elements|list of 4294967295"),
        (b"\x15" + b"\xff" * 11, "more than 64 bits"),
        (b"\x1e\x00", "unknown type 14"),
        (b"\x18\x05ab\x00", "do not end"),
    ],
)
def test_structs_that_cannot_be(data, reason):
    tracemalloc.start()
    with pytest.raises(ValueError, match=reason):
        read_struct(data)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_every_type_of_a_struct():
    data = (
        b"\x11\x12"  # 1: true, 2: false
        b"\x13\x07"  # 3: a byte
        b"\x14\x03\x15\x04\x16\x05"  # 4 to 6: numbers
        b"\x17" + bytes(8) + b"\x18\x01x"  # 7: double, 8: text
        b"\x19\x25\x02\x04"  # 9: a list of two numbers
        b"\x1b\x01\x55\x02\x04"  # 10: a map
        b"\x1c\x15\x02\x00"  # 11: a struct
        b"\x1d" + bytes(16) + b"\x05\x28\x0e\x00"  # 12: uuid, 20: far field
    )
    found, end = read_struct(data)
    assert end == len(data)
    assert found == {
        1: True,
        2: False,
        3: 7,
        4: -2,
        5: 2,
        6: -3,
        7: 0.0,
        8: b"x",
        9: [1, 2],
        10: None,
        11: {1: 1},
        12: bytes(16),
        20: 7,
    }
