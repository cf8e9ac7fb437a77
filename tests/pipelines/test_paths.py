"""Paths into nested values: the same texts from JSON lines, Parquet and Arrow."""

from __future__ import annotations

import json

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.reading import read, reading

from tokcore_pipelines.reading import columns
from tokcore_pipelines.reading.input_range import FileRejected
from tokcore_pipelines.reading.row_file import RowFile
from tokcore_pipelines.store import storage
from tokcore_schemas.field_path import parse_steps


def parquet(table, **options):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()


def arrow(table, stream=False):
    sink = pa.BufferOutputStream()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    return sink.getvalue().to_pybytes()


def json_lines(table):
    return b"".join(orjson.dumps(row) + b"\n" for row in table.to_pylist())


WRITERS = {
    "jsonl": json_lines,
    "parquet": parquet,
    "parquet-groups": lambda table: parquet(table, row_group_size=2),
    "parquet-plain": lambda table: parquet(table, use_dictionary=False),
    "arrow": arrow,
    "arrow-stream": lambda table: arrow(table, stream=True),
}
WRITER = pytest.mark.parametrize("writer", list(WRITERS))

MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
ROWS = [
    [{"role": "user", "content": "Hi"}, {"role": "bot", "content": "Ho é"}],
    None,
    [],
    [{"role": "user", "content": None}, {"role": "bot", "content": "only"}, None],
    [{"role": "user", "content": None}],
    [{"role": "user", "content": ""}],
    [{"role": "user", "content": "a"}, {"role": "bot", "content": ""}, {"role": "bot", "content": "b"}],
]
TEXTS = ["Hi\nHo é".encode(), b"only", b"", b"a\n\nb"]


def rows(table, writer, **changes):
    return read(WRITERS[writer](table), reading(format=writer.partition("-")[0], unit="", **changes))


def reasons(rejects):
    return [(reject.record, reject.reason) for reject in rejects]


@WRITER
@pytest.mark.parametrize("kind", [pa.list_(MESSAGE), pa.large_list(MESSAGE)], ids=["list", "large_list"])
def test_lists_of_messages(writer, kind):
    table = pa.table({"messages": pa.array(ROWS, kind)})
    texts, rejects = rows(table, writer, text="messages[*].content")
    assert texts == TEXTS
    assert reasons(rejects) == [(1, "missing_text"), (2, "missing_text"), (4, "missing_text")]


@WRITER
def test_other_paths(writer):
    table = pa.table(
        {
            "turns": [["a", None, "b"], ["c"], []],
            "pairs": pa.array([[["a", "b"], None, ["c"]], [[]], None]),
            "data": [{"body": "x", "parts": [{"text": ["1", "2"]}]}, {"body": None, "parts": None}, None],
            "a.b": ["exact", "wins", "here"],
            "a": [{"b": "not"}, {"b": "these"}, {"b": "three"}],
            "number": [[1], [2], None],
        }
    )
    assert rows(table, writer, text="turns[*]")[0] == [b"a\nb", b"c"]
    assert rows(table, writer, text="pairs[*][*]")[0] == [b"a\nb\nc"]
    assert rows(table, writer, text="data.body")[0] == [b"x"]
    assert rows(table, writer, text="data.parts[*].text[*]")[0] == [b"1\n2"]
    assert rows(table, writer, text="a.b")[0] == [b"exact", b"wins", b"here"]
    for wrong in ("number[*]", "turns[*].content", "turns[*][*]", "a[*]", "data[*].body", "a.b[*]"):
        texts, rejects = rows(table, writer, text=wrong)
        assert texts == [], wrong
        assert {reject.reason for reject in rejects} <= {"bad_text", "missing_text"}
        assert rejects[0].reason == "bad_text" or wrong == "a.b[*]"
    assert {r.reason for r in rows(table, writer, text="turns[*]")[1]} == {"missing_text"}
    assert reasons(rows(table, writer, text="pairs[*].x[*]")[1])[0] == (0, "bad_text")
    assert {r.reason for r in rows(table, writer, text="nothing[*].x")[1]} == {"missing_text"}


@WRITER
def test_a_field_called_like_a_path(writer):
    table = pa.table({"messages[*].content": ["exact"], "messages": pa.array(ROWS[:1], pa.list_(MESSAGE))})
    assert rows(table, writer, text="messages[*].content") == ([b"exact"], [])


@WRITER
@pytest.mark.parametrize(
    ("column", "path"),
    [
        (pa.array(ROWS[:1], pa.list_(MESSAGE)), "x[*].content"),
        (pa.array([["a"]]), "x[*]"),
        (pa.array([{"n": 1, "inner": {"text": "a"}}]), "x.inner.text"),
        (pa.array([[[{"q": "a"}]]]), "x[*][*].q"),
    ],
)
def test_the_path_to_write_is_named(writer, column, path):
    table = pa.table({"x": column})
    _, (reject,) = rows(table, writer, text="x")
    assert reject.reason == "bad_text"
    assert reject.detail.endswith(f'; texts are in it: write text = "{path}"')
    assert rows(table, writer, text=path)[1] == []


def test_values_nested_too_deep_for_advice():
    line = b'{"text": ' + b"[" * 900 + b"]" * 900 + b"}\n"
    _, (reject,) = read(line)
    assert reject.detail == "field text: expected a string, found an array"


@WRITER
def test_limits_are_of_the_joined_text(writer):
    table = pa.table({"t": [["12345", "6789"], ["12345", "67890"], ["x"]]})
    texts, rejects = rows(table, writer, text="t[*]", max_document_bytes=10)
    assert texts == [b"12345\n6789", b"x"]
    assert [(r.record, r.detail) for r in rejects] == [(1, "11 bytes of text, max_document_bytes = 10")]


def test_invalid_utf8_in_a_list_costs_a_record():
    strings = pa.array([b"good", b"bad \xff", b"last"], pa.binary())
    strings = pa.Array.from_buffers(pa.string(), 3, strings.buffers())
    table = pa.table({"t": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), strings)})
    for writer in ("parquet", "arrow"):
        texts, rejects = rows(table, writer, text="t[*]")
        assert texts == [b"good", b"last"]
        assert reasons(rejects) == [(1, "invalid_utf8")]
    texts, rejects = read(b'{"t": ["good"]}\n{"t": ["\xff"]}\n', text="t[*]")
    assert (texts, reasons(rejects)) == ([b"good"], [(1, "invalid_utf8")])
    assert read(b'{"t": ["\xff", "a"]}\n', text="t[*]", invalid_utf8="bytes")[0] == [b"\xff\na"]


def test_forged_offsets_of_lists_are_found():
    stored = arrow(pa.table({"t": [["a"], ["b", "c"], ["d"]]}))
    offsets = np.array([0, 1, 3, 4], "<i4").tobytes()
    assert stored.count(offsets) == 1
    for forged in ([0, 1, 1 << 30, 4], [0, 3, 1, 4], [0, -1, 3, 4], [0, 1, 3, 9], [-4, 1, 3, 4]):
        with pytest.raises(FileRejected, match="corrupt"):
            read(stored.replace(offsets, np.array(forged, "<i4").tobytes()), format="arrow", text="t[*]")


def test_a_text_repeated_in_a_list_is_not_built():
    """One row repeats the same megabyte a hundred thousand times, in a few stored bytes."""
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), pa.array(["x" * (1 << 20)]))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 100_000], pa.int32()), column)
    for writer in ("parquet", "arrow"):
        texts, rejects = rows(pa.table({"t": lists}), writer, text="t[*]")
        assert [len(text) for text in texts] == [1 << 20]
        assert reasons(rejects) == [(1, "document_too_large")]


def test_more_members_than_stored_bytes_are_worth(monkeypatch, tmp_path):
    monkeypatch.setattr(columns, "MAX_DECODED_BYTES", 1000)
    monkeypatch.setattr(columns, "MAX_RATIO", 1)
    lists = pa.ListArray.from_arrays(pa.array([0, 50_000], pa.int32()), pa.array(["x"] * 50_000))
    pq.write_table(pa.table({"t": lists}), tmp_path / "a.parquet")
    file = RowFile(storage.open_read(str(tmp_path / "a.parquet")))
    with pytest.raises(FileRejected, match="over_limit: a column of 50000 members"):
        list(columns.decode_columns(file, reading(format="parquet", text="t[*]")))


VALUE = st.none() | st.sampled_from(["", "a", "é\n"]) | st.integers(0, 3)
NESTED = st.recursive(
    VALUE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
)


@given(st.dictionaries(st.sampled_from(["a", "b"]), NESTED), st.sampled_from(["a[*]", "a[*].b", "a.b[*]", "a[*].b[*]"]))
@examples(500)
def test_json_paths_are_what_they_say(record, path):
    """The same strings as a slow implementation of paths finds."""
    found, wrong = [record], False
    for step in parse_steps(path):
        found = [one for one in found if one is not None]
        wrong = wrong or not all(isinstance(one, list if step is None else dict) for one in found)
        if wrong:
            break
        found = [member for one in found for member in (one if step is None else [one.get(step)])]
    found = [one for one in found if one is not None]
    wrong = wrong or not all(isinstance(one, str) for one in found)
    texts, rejects = read(json.dumps(record).encode() + b"\n", text=path)
    if wrong:
        assert [r.reason for r in rejects] == ["bad_text"]
    elif not found:
        assert [r.reason for r in rejects] == ["missing_text"]
    else:
        assert texts == ["\n".join(found).encode()]
