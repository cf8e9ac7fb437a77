"""Columns as other programs write them: ids of any type, runs, views of lists, names that are there twice."""

from __future__ import annotations

import datetime
import decimal
import io
import subprocess
import sys
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.reading import read, reading

from tokcore_pipelines.reading.input_range import FileRejected, read_documents
from tokcore_pipelines.store import storage

UUID = "00112233-4455-6677-8899-aabbccddeeff"


def write_table(table: pa.Table, kind: str) -> bytes:
    file = io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, file)
    else:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    return file.getvalue()


def read_ids(table: pa.Table, kind: str = "parquet") -> tuple[list[str], list[tuple[str, str]]]:
    with storage.write_attempt("memory://ids") as file:
        file.write(write_table(table, kind))
    pin = storage.stat("memory://ids")
    batches = [*read_documents(pin, 0, pin.size_bytes, reading(format=kind, id="id", unit=""))]
    ids = [one for batch in batches for one in batch.ids or ()]
    return ids, [(one.reason, one.detail) for batch in batches for one in batch.rejects]


def in_utc(*of: int) -> datetime.datetime:
    return datetime.datetime(*of, tzinfo=datetime.UTC)  # type: ignore[misc,arg-type]


IDS: dict[str, tuple[pa.Array, list[str | None]]] = {
    "uuid": (pa.array([uuid.UUID(UUID).bytes, None], pa.uuid()), [UUID, None]),
    "float": (
        pa.array([1.0, float("nan"), -0.0, 0.1, 1e22, -(2.0**53) + 1, 2.0**53, None]),
        ["1", None, "0", "0.1", "1e+22", "-9007199254740991", "9007199254740992.0", None],
    ),
    "float32": (pa.array([0.1, 16777216, 1e10], pa.float32()), ["0.1", "16777216", "10000000000"]),
    "float16": (pa.array(np.array([0.1, 3], np.float16)), ["0.1", "3"]),
    "decimal": (
        pa.array([decimal.Decimal("1.50"), decimal.Decimal(-7), None], pa.decimal128(9, 2)),
        ["1.50", "-7.00", None],
    ),
    "decimal, whole": (pa.array([decimal.Decimal(10) ** 37], pa.decimal256(38, 0)), ["1" + "0" * 37]),
    "timestamp": (
        pa.array([1_706_745_599_120, -62_135_596_800_000, None], pa.timestamp("ms")),
        ["2024-01-31T23:59:59.120", "0001-01-01T00:00:00.000", None],
    ),
    "timestamp in a zone": (
        pa.array([in_utc(2024, 1, 31, 23)], pa.timestamp("us", "Europe/Berlin")),
        ["2024-01-31T23:00:00.000000Z"],
    ),
    "nanoseconds": (
        pa.array([-1, 1_700_000_000_123_456_789], pa.timestamp("ns")),
        ["1969-12-31T23:59:59.999999999", "2023-11-14T22:13:20.123456789"],
    ),
    "dictionary": (pa.array([2.0, 2.5, 2.0]).dictionary_encode(), ["2", "2.5", "2"]),
    "integers": (pa.array([7, None]), ["7", None]),
}


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("name", IDS)
def test_ids_of_any_type_are_text_by_a_rule(name: str, kind: str) -> None:
    column, expected = IDS[name]
    table = pa.table({"text": ["a"] * len(column), "id": column})
    ids, rejects = read_ids(table, kind)
    assert ids == [one for one in expected if one is not None]
    assert [reason for reason, _ in rejects] == ["missing_id"] * expected.count(None)


def test_ids_need_no_pandas() -> None:
    """It is there when we test, and not where tokcore alone is installed."""
    code = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'")

sys.meta_path.insert(0, Absent())
import pyarrow as pa
from tokcore_pipelines.reading.column_ids import extract_ids

columns = [pa.array([0.1], pa.float32()), pa.array([1], pa.timestamp("ns")), pa.array([bytes(16)], pa.uuid())]
print([extract_ids(column, 0, 1, None)[0] for column in columns])
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "['0.1', '1970-01-01T00:00:00.000000001', '00000000-0000-0000-0000-000000000000']\n"


def test_ids_that_are_none_name_their_type() -> None:
    for column, detail in (
        (pa.array([True]), "column id holds bool"),
        (pa.array([[1]]), "column id holds list"),
        (pa.array([float("inf")]), "column id holds double with inf"),
        (pa.array([2**62], pa.timestamp("s")), "column id holds timestamp[s] with 4611686018427387904"),
    ):
        _, ((reason, said),) = read_ids(pa.table({"text": ["a"], "id": column}), "arrow")
        assert (reason, said.startswith(detail)) == ("bad_id", True), said


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_name_that_is_there_twice(kind: str) -> None:
    """It matters only where it is used; then the reason says so."""

    def table(*names: str) -> bytes:
        return write_table(pa.Table.from_arrays([pa.array([f"of {i}"]) for i in range(len(names))], [*names]), kind)

    assert read(table("x", "text", "x", "x"), format=kind, unit="") == ([b"of 1"], [])
    texts, (reject,) = read(table("text", "x", "text"), format=kind, unit="")
    assert (texts, reject.reason) == ([], "missing_text")
    assert reject.detail == "column text: 2 columns are called text"
    _, (reject,) = read(table("text", "id", "id"), format=kind, unit="", id="id")
    assert (reject.reason, reject.detail) == ("missing_id", "column id: 2 columns are called id")


def arrow_of(column: pa.Array) -> bytes:
    return write_table(pa.table({"text": column}), "arrow")


@pytest.mark.parametrize("ends", [pa.int16(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary()], ids=str)
def test_runs_of_strings(ends: pa.DataType, kind: pa.DataType) -> None:
    values = pa.array(["one", None, "", "dwa"], pa.string()).cast(kind)
    column = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 300, 1000], ends), values)
    texts, rejects = read(arrow_of(column), format="arrow", unit="")
    assert texts == [b"one"] * 2 + [b""] * 297 + [b"dwa"] * 700
    assert [(one.record, one.reason) for one in rejects] == [(2, "missing_text")]
    assert read(arrow_of(column.slice(299, 3)), format="arrow", unit="") == ([b"", b"dwa", b"dwa"], [])


def test_runs_that_are_not_sound_reject_the_file() -> None:
    values = pa.array(["one", "two"])
    buffers = pa.RunEndEncodedArray.from_arrays(pa.array([2, 300], pa.int32()), values)
    for ends in ([2, 2], [3, 2], [-1, 300], [2, 299]):
        sound = arrow_of(buffers)
        broken = sound.replace(np.array([2, 300], np.int32).tobytes(), np.array(ends, np.int32).tobytes())
        assert broken != sound
        with pytest.raises(FileRejected, match="corrupt"):
            read(broken, format="arrow", unit="")
    long = pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), pa.array(["x"]))
    with pytest.raises(FileRejected, match="over_limit: runs of 2147483647 rows"):
        read(arrow_of(long), format="arrow", unit="")


def list_view(
    starts: Sequence[int], sizes: Sequence[int], values: pa.Array, made: Any = pa.ListViewArray, **more: Any
) -> pa.Array:
    width = pa.int32() if made is pa.ListViewArray else pa.int64()
    return made.from_arrays(pa.array(starts, width), pa.array(sizes, width), values, **more)


def test_views_of_lists_of_strings() -> None:
    """Lists in any order, that share members, or leave some out."""
    values = pa.array(["a", "b", None, "c", "never"])
    mask = pa.array([False, False, False, False, True])
    for made in (pa.ListViewArray, pa.LargeListViewArray):
        array = list_view([2, 0, 0, 3, 4], [2, 2, 0, 1, 1], values, made, mask=mask)
        texts, rejects = read(arrow_of(array), format="arrow", unit="", text="text[*]")
        assert texts == [b"c", b"a\nb", b"c"]
        assert [one.record for one in rejects] == [2, 4]
    objects = pa.StructArray.from_arrays([values], ["content"])
    column = list_view([3, 0], [1, 2], objects)
    assert read(arrow_of(column), format="arrow", unit="", text="text[*].content") == ([b"c", b"a\nb"], [])


def test_views_of_lists_that_are_not_sound_reject_the_file() -> None:
    column = list_view([1, 0], [1, 77], pa.array(["a"] * 77 + ["b"]))
    for wrong in (-1, 79):
        data = arrow_of(column).replace(np.array([1, 77], np.int32).tobytes(), np.array([1, wrong], np.int32).tobytes())
        with pytest.raises(FileRejected, match="corrupt"):
            read(data, format="arrow", unit="", text="text[*]")
    many = list_view([0] * 20_000, [10_000] * 20_000, pa.array(["a"] * 10_000))
    with pytest.raises(FileRejected, match="over_limit: views of 200000000 members"):
        read(arrow_of(many), format="arrow", unit="", text="text[*]")
