"""What a step of [[map]] may return: everything else is refused, and names the record."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore.errors import ConfigError
from tokcore.plugins.map_outcome import MapFault, apply_map, cut_otherwise, find_difference, join_outcomes
from tokcore.plugins.map_step import find_function

BATCH = pa.record_batch(
    {
        "record": pa.array([2, 5, 9], pa.int64()),
        "text": pa.array(["one", "two", "three"], pa.large_string()),
        "id": ["a", "b", "c"],
        "lang": ["en", "en", "ru"],
        "score": pa.array([0.5, None, 1.0]),
    }
)


def change(name, values):
    return lambda batch: batch.set_column(batch.schema.get_field_index(name), name, pa.array(values)[: batch.num_rows])


@pytest.mark.parametrize(
    ("function", "record", "text"),
    [
        (lambda batch: None, None, "returned a NoneType"),
        (lambda batch: batch.drop_columns("record"), None, "returned no column 'record'"),
        (change("record", [2, 5, 8]), None, "returned a row for record 8"),
        (change("record", ["2", "x", "9"]), None, "returned other values in the column 'record'"),
        (lambda batch: batch.take([1, 0]), 2, "came twice, or out of order"),
        (lambda batch: batch.take([0, 0]), 2, "came twice, or out of order"),
        (lambda batch: batch.append_column("scores", pa.array([1, 2, 3])), None, "returned a column 'scores'"),
        (lambda batch: batch.append_column("text", pa.array(["", "", ""])), None, "two columns 'text'"),
        (change("text", ["one", None, "three"]), 5, "column 'text' is null"),
        (change("lang", ["en", "en", None]), 9, "column 'lang' is null"),
        (change("text", [1, 2, 3]), None, ""),
        (change("text", [b"one", b"\xff", b"three"]), 5, "column 'text': expected large_string"),
        (change("score", ["0.5", "much", "1"]), 5, "column 'score': expected double"),
        (lambda batch: batch.append_column("reject", pa.array(["", "x", None])), 2, "reject = ''"),
        (lambda batch: batch.append_column("reject", pa.array([None, "a b", None])), 5, "reject = 'a b'"),
    ],
)
def test_what_it_may_not_return(function, record, text):
    if not text:  # numbers become text
        assert apply_map(function, BATCH)["text"].to_pylist() == ["1", "2", "3"]
        return
    with pytest.raises(MapFault) as found:
        apply_map(function, BATCH)
    assert text in found.value.text
    assert found.value.record == record


def test_what_it_may_return():
    assert apply_map(lambda batch: batch, BATCH).drop_columns("reject") == BATCH
    assert apply_map(lambda batch: batch.slice(0, 0), BATCH).num_rows == 0
    alone = apply_map(lambda batch: batch.select(["record"]).slice(1), BATCH)
    assert alone.drop_columns("reject") == BATCH.slice(1), "columns that it leaves out stay"
    table = apply_map(lambda batch: pa.Table.from_batches([batch.slice(0, 1), batch.slice(2, 1)]), BATCH)
    assert table.drop_columns("reject") == BATCH.take([0, 2])
    none = apply_map(lambda batch: pa.Table.from_batches([batch]).slice(0, 0), BATCH)
    assert none.num_rows == 0
    rejected = apply_map(lambda batch: batch.append_column("reject", pa.array([None, "short", None])), BATCH)
    assert rejected["reject"].to_pylist() == [None, "short", None]


def test_an_exception_is_of_the_first_record_that_raises_alone():
    def fail(batch):
        return {"two": 1}[batch["text"][0].as_py()] and batch

    with pytest.raises(MapFault) as found:
        apply_map(fail, BATCH)
    assert (found.value.record, found.value.text) == (2, "KeyError: 'one'")

    def fail_together(batch):
        assert batch.num_rows == 1, "many"
        return batch

    with pytest.raises(MapFault, match="of no document alone") as found:
        apply_map(fail_together, BATCH)
    assert found.value.record is None


@given(st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_cuts_have_all_rows_and_join_again(num, seed):
    batch = pa.record_batch(
        {"record": pa.array(range(0, 3 * num, 3), pa.int64()), "text": [str(i) for i in range(num)]}
    )
    parts = cut_otherwise(batch, seed)
    assert join_outcomes(parts) == batch
    assert find_difference(join_outcomes(parts), batch) is None
    assert num < 50 or len(parts) > 1


def test_differences_name_the_first_record():
    other = change("text", ["one", "TWO", "three"])(BATCH)
    assert find_difference(BATCH, other) == (5, "text = 'two'", "text = 'TWO'")
    assert find_difference(BATCH, BATCH.take([0, 2])) == (5, "kept", "left out")
    assert find_difference(BATCH.take([0, 2]), BATCH) == (5, "left out", "kept")
    nan = change("score", [0.5, float("nan"), 1.0])(BATCH)
    assert find_difference(nan, nan) is None


def test_functions_are_found_by_module_and_name():
    assert find_function("pyarrow.compute:utf8_length") is pc.utf8_length
    for run, why in (
        ("nowhere:f", "cannot be imported"),
        ("math:none", "cannot be imported"),
        ("math:pi", "no function"),
    ):
        with pytest.raises(ConfigError, match=why):
            find_function(run)
