"""Column names read without the Arrow library are those that it reads; no bytes crash that."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tokcore_pipelines.reading.column_names import read_arrow_columns, read_parquet_columns

SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("large", pa.large_string()),
        ("raw", pa.binary()),
        ("id", pa.int64()),
        ("score", pa.float64()),
        ("meta", pa.struct([("lang", pa.string()), ("deep", pa.struct([("url", pa.string())]))])),
        ("messages", pa.list_(pa.struct([("content", pa.string())]))),
        ("tags", pa.list_(pa.string())),
        ("deeper", pa.list_(pa.list_(pa.struct([("content", pa.string())])))),
        ("pairs", pa.map_(pa.string(), pa.int32())),
        ("lang", pa.dictionary(pa.int32(), pa.string())),
        ("ü", pa.bool_()),
    ]
)
NAMES = [
    "text",
    "large",
    "raw",
    "id",
    "score",
    "meta.lang",
    "meta.deep.url",
    "messages[*].content",
    "tags",
    "deeper",
    "pairs",
    "lang",
    "ü",
]
TABLE = SCHEMA.empty_table()


def parquet_footer(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    data = file.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    return data[-8 - length : -8]


def arrow(table: pa.Table, *, is_file: bool) -> bytes:
    file = io.BytesIO()
    with (pa.ipc.new_file if is_file else pa.ipc.new_stream)(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


@pytest.mark.parametrize("options", [{}, {"store_schema": False}, {"use_compliant_nested_type": False}])
def test_parquet(options):
    columns = read_parquet_columns(parquet_footer(TABLE, **options))
    assert [column.name for column in columns] == NAMES
    assert dict(columns)["text"] == dict(columns)["meta.deep.url"] == "string"
    assert (dict(columns)["raw"], dict(columns)["id"], dict(columns)["tags"]) == ("binary", "int64", "list")
    assert dict(columns)["messages[*].content"] == "string"


@pytest.mark.parametrize("is_file", [True, False])
def test_arrow(is_file):
    columns = read_arrow_columns(arrow(TABLE, is_file=is_file))
    assert [column.name for column in columns] == NAMES
    assert (dict(columns)["large"], dict(columns)["lang"]) == ("large_string", "string")
    assert (dict(columns)["id"], dict(columns)["messages[*].content"], dict(columns)["pairs"]) == (
        "int",
        "string",
        "map",
    )


def mutated(data: bytes, num: int) -> Iterator[bytes]:
    chance = random.Random(num)
    for _ in range(num):
        bad = bytearray(data)
        for _ in range(chance.randrange(1, 5)):
            bad[chance.randrange(len(bad))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        yield bytes(bad[: chance.choice((len(bad), chance.randrange(len(bad))))])


def test_hostile_bytes_give_names_or_a_value_error():
    for read, data in (
        (read_parquet_columns, parquet_footer(TABLE)),
        (read_arrow_columns, arrow(TABLE, is_file=True)[:3000]),
        (read_arrow_columns, arrow(TABLE, is_file=False)[:3000]),
    ):
        outcomes = set()
        for bad in mutated(data, 3000):
            try:
                outcomes.add(type(read(bad)))
            except ValueError:
                outcomes.add(ValueError)
        assert outcomes == {list, ValueError}
