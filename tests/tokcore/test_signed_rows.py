"""Rows of a count table with a sign: subtraction is the inverse of addition, and never goes below nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore.count.pretoken_rows import CountRows, list_rows, make_rows
from tokcore.count.pretoken_tables import merge_rows
from tokcore.count.signed_rows import subtract_rows
from tokcore.errors import LedgerError

tables = st.dictionaries(st.binary(max_size=3), st.tuples(st.integers(1, 99), st.integers(0, 5)), max_size=12).map(
    lambda rows: {key: (documents + more, documents) for key, (documents, more) in rows.items()}
)


def make_table(rows: dict[bytes, tuple[int, int]]) -> CountRows:
    return make_rows([(key, *numbers) for key, numbers in sorted(rows.items())])


def cut(rows: CountRows, size: int) -> list[CountRows]:
    """The rows in blocks of so many, empty ones in between."""
    blocks = [rows.slice(start, min(start + size, rows.num_rows)) for start in range(0, rows.num_rows, size)]
    return [part for block in blocks for part in (rows.slice(0, 0), block)]


@given(tables, tables, st.integers(1, 5), st.integers(1, 5))
def test_subtraction_is_the_inverse_of_addition(stays, goes, size, other_size):
    both = list(merge_rows([[make_table(stays)], [make_table(goes)]]))
    total = [part for block in both for part in cut(block, size)]
    left = subtract_rows(total, cut(make_table(goes), other_size))
    assert [row for block in left for row in list_rows(block)] == list_rows(make_table(stays))


@given(tables, tables)
def test_nothing_goes_below_nothing(has, goes):
    fits = all(
        key in has
        and has[key][0] >= count
        and has[key][1] >= documents
        and (has[key][0] == count) == (has[key][1] == documents)
        for key, (count, documents) in goes.items()
    )
    subtraction = subtract_rows([make_table(has)], [make_table(goes)])
    if fits:
        assert sum(block.num_rows for block in subtraction) <= len(has)
    else:
        with pytest.raises(LedgerError, match="count table: pre-token"):
            list(subtraction)


def test_the_error_names_what_is_missing():
    with pytest.raises(LedgerError, match=r"pre-token 'b': 2 of it, or of its documents, are to be taken away, and 1"):
        list(subtract_rows([make_rows([(b"b", 1, 1)])], [make_rows([(b"b", 2, 1)])]))
    with pytest.raises(LedgerError, match=r"pre-token 'c': 2 of it, or of its documents, are to be taken away, and 0"):
        list(subtract_rows([make_rows([(b"b", 1, 1)])], [make_rows([(b"c", 2, 1)])]))
    with pytest.raises(LedgerError, match=r"pre-token 'b': 0 are left, in 1 documents"):
        list(subtract_rows([make_rows([(b"b", 2, 2)])], [make_rows([(b"b", 2, 1)])]))
