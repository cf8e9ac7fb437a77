"""Runs that hold rows of many tables: what is written is read back, sums are right, and what ends early is refused."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore.count import keyed_runs, pretoken_tables
from tokcore.count.keyed_runs import Piece, group_by_key, merge_keyed_rows, read_keyed_run, write_keyed_run
from tokcore.count.pretoken_rows import list_rows, make_rows
from tokcore.errors import FormatError

Tables = dict[str, dict[bytes, tuple[int, int]]]  # key -> pre-token -> (count, documents)
tables = st.dictionaries(
    st.sampled_from(["de", "en", "en/train/", "zh", "é"]),
    st.dictionaries(
        st.binary(min_size=1, max_size=3), st.tuples(st.integers(1, 1 << 40), st.integers(1, 1 << 20)), min_size=1
    ),
)


def cut(given: Tables, size: int) -> Iterator[Piece]:
    """Pieces of at most that many rows, in order."""
    for key in sorted(given):
        rows = sorted((pretoken, *numbers) for pretoken, numbers in given[key].items())
        for start in range(0, len(rows), size):
            yield key, make_rows(rows[start : start + size])


def join(pieces: Iterable[Piece]) -> list[tuple[str, tuple[bytes, int, int]]]:
    return [(key, row) for key, rows in pieces for row in list_rows(rows)]


def write(pieces: Iterable[Piece]) -> bytes:
    file = io.BytesIO()
    write_keyed_run(file, pieces)
    return file.getvalue()


@given(tables, st.integers(1, 9), st.integers(1, 9))
def test_runs_keep_rows_however_they_are_cut(given, size, other_size):
    data = write(cut(given, size))
    assert data == write(cut(given, other_size))
    assert join(read_keyed_run(io.BytesIO(data))) == join(cut(given, 1))
    assert [key for key, _ in group_by_key(read_keyed_run(io.BytesIO(data)))] == sorted(given)


@given(st.lists(st.tuples(tables, st.integers(1, 9)), min_size=1, max_size=5))
def test_sums_are_those_of_all_runs(parts):
    counts, documents = Counter[tuple[str, bytes]](), Counter[tuple[str, bytes]]()
    for part, _ in parts:
        for key, table in part.items():
            for pretoken, (count, number) in table.items():
                counts[key, pretoken] += count
                documents[key, pretoken] += number
    merged = join(merge_keyed_rows([cut(part, size) for part, size in parts]))
    assert merged == [(key, (word, counts[key, word], documents[key, word])) for key, word in sorted(counts)]


def test_small_tables_share_blocks_of_a_bounded_size(monkeypatch):
    monkeypatch.setattr(keyed_runs, "_MOST_KEYS", 5)
    monkeypatch.setattr(pretoken_tables, "BLOCK_ROWS", 8)
    given: Tables = {f"{i:02d}": {b"a": (1, 1)} for i in range(13)} | {
        "large": {b"%02d" % i: (1, 1) for i in range(30)}
    }
    written = [(tables, rows.num_rows) for tables, rows in keyed_runs._cut_into_blocks(cut(given, 7))]
    assert [len(tables) // 2 for tables, _ in written] == [5, 5, 4, 1, 1, 1, 1]
    assert [num for _, num in written] == [5, 5, 8, 8, 8, 8, 1]
    data = write(cut(given, 7))
    assert data == write(cut(given, 3)) == write(cut(given, 30))
    assert join(read_keyed_run(io.BytesIO(data))) == join(cut(given, 1))


def test_a_run_that_ends_early_is_refused(monkeypatch):
    """Wherever it was cut: even between two blocks, where Arrow takes it for whole."""
    monkeypatch.setattr(pretoken_tables, "BLOCK_ROWS", 50)
    data = write(cut({"en": {b"%05d" % i: (i + 1, 1) for i in range(200)}}, 200))
    for end in range(len(data) - 8):
        with pytest.raises(FormatError):
            list(read_keyed_run(io.BytesIO(data[:end])))
    with pytest.raises(FormatError):
        list(read_keyed_run(io.BytesIO(b"not a run at all")))


def test_a_block_whose_rows_are_of_no_table_is_refused():
    file = io.BytesIO()
    pretoken_tables.write_run(file, [make_rows([(b"a", 1, 1)])])
    with pytest.raises(FormatError, match="a block of 1 rows has keys for 0"):
        list(read_keyed_run(io.BytesIO(file.getvalue())))


def test_keys_out_of_order_are_refused():
    rows = make_rows([(b"a", 1, 1)])
    with pytest.raises(FormatError, match="'de' comes after 'en'"):
        list(merge_keyed_rows([[("en", rows), ("de", rows)], [("en", rows)]]))
