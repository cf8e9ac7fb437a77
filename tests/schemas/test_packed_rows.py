"""Packed sequences equal the lists of what they hold; sorted ones equal sorted()."""

from __future__ import annotations

import hashlib
import pickle
import tracemalloc
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore_schemas.packed_rows import PackedRows, SortedRows
from tokcore_schemas.plan import InputFile, InputRange, WorkItem, pack_files, pack_items


class Named(NamedTuple):
    name: str
    size: int
    parts: list[int]


# Lone surrogates are names of local files that are not UTF-8.
names = st.text(st.characters(exclude_categories=[]), max_size=4)
things = st.lists(st.builds(Named, names, st.integers(0, 2**64 - 1), st.lists(st.integers(-5, 2**63), max_size=3)))


@given(things, st.integers(1, 5), st.data())
def test_packed_rows_equal_a_list(found, block, data):
    packed = PackedRows(tuple, Named, found, block)
    assert len(packed) == len(found)
    assert list(packed) == found
    assert packed == found
    assert found == packed
    assert packed == PackedRows(tuple, Named, found) == pickle.loads(pickle.dumps(packed))
    assert packed != [*found, Named("", 0, [])]
    assert packed[1:-1] == tuple(found[1:-1])
    for index in data.draw(st.lists(st.integers(-len(found), len(found) - 1))) if found else ():
        assert packed[index] == found[index]
    for index in (len(found), -len(found) - 1):
        with pytest.raises(IndexError):
            packed[index]


@given(things, st.integers(1, 4), st.integers(1, 4))
def test_sorted_rows_are_sorted_and_stable(found, block, at_once):
    numbered = [thing._replace(size=number) for number, thing in enumerate(found)]
    rows = SortedRows(tuple, Named, key=lambda thing: thing.name, block_rows=block, sorted_at_once=at_once)
    for thing in numbered:
        rows.add(thing)
    assert list(rows) == sorted(numbered, key=lambda thing: thing.name)
    assert list(rows) == list(rows), "it can be read twice"
    assert list(rows.pack()) == list(rows)


def test_what_a_plan_holds_comes_back():
    files = [InputFile(f"s3://b/{i}", i, f"etag:{i}", i % 2) for i in range(100)]
    items = [WorkItem(i, (InputRange(i, 0, 5), InputRange(i, 5, 9)), 9) for i in range(100)]
    assert list(pack_files(files)) == files
    assert list(pack_items(items)) == items


def test_a_file_of_a_plan_takes_little_memory():
    def make(number: int) -> InputFile:
        # A hash as stores give it, which cannot be compressed below 16 bytes.
        etag = hashlib.md5(str(number).encode()).hexdigest()
        return InputFile(f"s3://bucket/crawl/part-{number:08d}.jsonl.zst", 10**7, f"etag:{etag}", 0)

    tracemalloc.start()
    try:
        packed = pack_files(map(make, range(100_000)))
        assert tracemalloc.get_traced_memory()[0] < 60 * len(packed)
    finally:
        tracemalloc.stop()
