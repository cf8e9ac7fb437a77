"""Labels: operations on codes give what the same operations on strings would give."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tokcore.shards.labels import Labels, join_labels, label_arrow, label_strings, repeat_label

strings = st.lists(st.sampled_from(["", "en", "zh-Hant", "日本語", "a\0b"]), max_size=30)


@given(strings)
def test_labels_are_a_sequence_of_strings(given_strings: list[str]) -> None:
    labels = label_strings(given_strings)
    assert list(labels) == given_strings
    assert [labels[i] for i in range(len(labels))] == given_strings
    assert labels == given_strings
    assert labels == Labels((*labels.names, "more"), labels.codes)
    assert labels != [*given_strings, "en"]
    assert labels != [*given_strings[:-1], "other"]
    assert labels.map_to_bytes([name.encode() for name in labels.names]) == "".join(given_strings).encode()


@given(strings, st.data())
def test_slices_and_positions(given_strings: list[str], data) -> None:
    labels = label_strings(given_strings)
    start, end = (data.draw(st.integers(0, len(given_strings))) for _ in range(2))
    assert labels[start:end] == given_strings[start:end]
    where = data.draw(st.lists(st.integers(0, len(given_strings) - 1)) if given_strings else st.just([]))
    taken = labels.take(np.array(where, np.int64))
    assert taken == [given_strings[i] for i in where]
    assert set(taken.names) == set(taken)


@given(strings)
def test_positions_by_label(given_strings: list[str]) -> None:
    labels = label_strings(given_strings)
    expected: dict[str, list[int]] = {}
    for i, name in enumerate(given_strings):
        expected.setdefault(name, []).append(i)
    for part, wanted in (
        (labels, expected),
        (labels[:1], {given_strings[0]: [0]} if given_strings else {}),
        (labels[:0], {}),
    ):
        assert {name: where.tolist() for name, where in part.by_label().items()} == wanted


@given(st.lists(strings, max_size=4))
def test_joining(parts: list[list[str]]) -> None:
    joined = join_labels([label_strings(part) for part in parts])
    assert list(joined) == [name for part in parts for name in part]
    assert len(set(joined.names)) == len(joined.names)
    assert joined.codes.dtype == np.int32


@given(strings)
def test_arrow_and_back(given_strings: list[str]) -> None:
    """Byte for byte the array that pyarrow makes of the strings."""
    array, expected = label_strings(given_strings).to_arrow(), pa.array(given_strings, pa.string())
    array.validate(full=True)
    assert array == expected
    assert stream_of(array) == stream_of(expected)
    assert label_arrow(array) == given_strings


def stream_of(array: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([array], names=["name"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def test_one_string_many_times() -> None:
    assert repeat_label("en", 3) == ["en", "en", "en"]
    assert repeat_label("en", 0).by_label() == {}
