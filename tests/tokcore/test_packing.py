"""Packing: nothing is lost, nothing is twice, rows follow from the lengths alone, and best-fit is what it says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore.errors import ConfigError
from tokcore.train.packing import STRATEGIES, PackedRows, pack

lengths_of_documents = st.lists(st.integers(0, 30) | st.sampled_from([0, 7, 8, 9, 100]), max_size=60)
Piece = tuple[int, int, int]  # document, start, ids


def pack_all(
    lengths: list[int], length: int, strategy: str, cuts: list[int] | None = None, **more
) -> list[list[Piece]]:
    """The pieces of all rows. cuts: where the lengths are dealt into batches."""
    parts = np.split(np.array(lengths, np.int64), sorted(min(cut, len(lengths)) for cut in cuts or []))
    rows = []
    for some in pack(parts, length, strategy, **more):
        assert some.bounds[0] == 0
        assert some.bounds[-1] == len(some.documents) == len(some.starts) == len(some.lengths)
        pieces = list(zip(some.documents.tolist(), some.starts.tolist(), some.lengths.tolist(), strict=True))
        bounds = some.bounds.tolist()
        rows += [pieces[start:end] for start, end in itertools.pairwise(bounds)]
        assert some.count_padding(length) == sum(
            length - sum(piece[2] for piece in row) for row in rows[-some.num_rows :]
        )
    return rows


def fit_slowly(lengths: list[int], length: int) -> list[list[Piece]]:
    """Best-fit decreasing as the docstring has it, looking at every row each time."""
    pieces = [
        (document, start, min(length, size - start))
        for document, size in enumerate(lengths)
        for start in range(0, max(size, 1), length)
    ]
    rows: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda piece: -piece[2]):
        rooms = [(length - sum(one[2] for one in row), i) for i, row in enumerate(rows)]
        fitting = [(room, i) for room, i in rooms if room >= piece[2]]
        if fitting:
            rows[min(fitting)[1]].append(piece)
        else:
            rows.append([piece])
    return sorted(sorted(row) for row in rows)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(lengths_of_documents, st.integers(1, 12), st.lists(st.integers(0, 60), max_size=4), st.integers(1, 20))
def test_every_id_of_every_document_is_in_one_row(strategy, lengths, length, cuts, window):
    rows = pack_all(lengths, length, strategy, cuts, window=window)
    assert all(row and sum(piece[2] for piece in row) <= length for row in rows)
    found = sorted(piece for row in rows for piece in row)
    for document, size in enumerate(lengths):
        own = [(start, num) for number, start, num in found if number == document]
        assert own[0][0] == 0
        assert [start + num for start, num in own] == [*(start for start, _ in own[1:]), size]
        assert size == 0 or all(num for _, num in own)
    assert {document for document, _, _ in found} == set(range(len(lengths)))
    assert rows == pack_all(lengths, length, strategy, window=window)  # however they arrive


@given(lengths_of_documents, st.integers(1, 12))
def test_best_fit_is_best_fit_decreasing(lengths, length):
    assert pack_all(lengths, length, "best-fit") == fit_slowly(lengths, length)


@given(lengths_of_documents, st.integers(1, 12))
def test_only_documents_longer_than_a_row_are_cut_at_multiples_of_it(lengths, length):
    for strategy in ("best-fit", "one"):
        for document, start, size in (piece for row in pack_all(lengths, length, strategy) for piece in row):
            assert start % length == 0
            assert size == length or start + size == lengths[document]
            assert lengths[document] > length or start == 0
    for row in pack_all(lengths, length, "one"):
        assert len(row) == 1


@given(lengths_of_documents, st.integers(1, 12))
def test_concatenation_pads_the_last_row_alone(lengths, length):
    rows = pack_all(lengths, length, "concatenate")
    assert all(sum(piece[2] for piece in row) == length for row in rows[:-1])
    ids = [(document, i) for document, size in enumerate(lengths) for i in range(size)]
    assert [(document, start + i) for row in rows for document, start, size in row for i in range(size)] == ids


@given(lengths_of_documents, st.integers(1, 12), st.integers(1, 9))
def test_a_window_is_packed_as_if_there_were_no_other(lengths, length, window):
    """Each window is as long as asked for, the last one that or longer."""
    rows = pack_all(lengths, length, "best-fit", window=window)
    num = max(len(lengths) // window, 1)
    expected = []
    for number in range(num if lengths else 0):
        first = number * window
        own = lengths[first:] if number == num - 1 else lengths[first : first + window]
        expected += [
            [(document + first, start, size) for document, start, size in row] for row in fit_slowly(own, length)
        ]
    assert rows == expected


def test_bounds_are_kept():
    (rows,) = pack([np.array([2, 0, 3, 4])], 6)
    assert [rows.cu_seqlens(row) for row in range(rows.num_rows)] == [[0, 2, 6], [0, 3]]
    assert isinstance(rows, PackedRows)
    assert rows.count_padding(6) == 3


def test_rows_of_lengths_like_those_of_a_corpus_are_nearly_full():
    """Padding below 0.1 %, and fewer than half the cut documents of concatenation, at 4096."""
    lengths = np.random.default_rng(7).lognormal(6, 1.3, 70_000).astype(np.int64)
    total = int(lengths.sum())
    cut = {}
    for strategy in ("best-fit", "concatenate"):
        pieces, padding = np.zeros(len(lengths), np.int64), 0
        for rows in pack([lengths], 4096, strategy):
            pieces += np.bincount(rows.documents, minlength=len(lengths))
            padding += rows.count_padding(4096)
        cut[strategy] = int((pieces > 1).sum())
        assert padding <= 0.001 * total
    assert cut["best-fit"] == int((lengths > 4096).sum())
    assert cut["best-fit"] < cut["concatenate"] / 2


def test_mistakes_are_named():
    for arguments, what in (
        ((0, "best-fit", "long"), "pack.length = 0"),
        ((4, "worst-fit", "long"), "pack.strategy = 'worst-fit': expected one of concatenate"),
        ((4, "one", "short"), "pack.cut = 'short'"),
    ):
        with pytest.raises(ConfigError, match=what):
            list(pack([np.array([1])], *arguments))
    for strategy in ("best-fit", "one"):
        with pytest.raises(ConfigError, match="document 3 has 5 ids, a row has 4"):
            list(pack([np.array([1, 4]), np.array([2, 5])], 4, strategy, "never"))
    assert len(list(pack([np.array([4, 4])], 4, "one", "never"))) == 1
    assert list(pack([], 4)) == list(pack([np.zeros(0, np.int64)], 4, "concatenate")) == []
