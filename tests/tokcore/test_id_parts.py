"""Parts of ids, back to back: the kernel and its slow twin against plain slices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore import kernel

NATIVE = kernel.list_available()[0]
LARGEST = {"uint16": 2**16 - 1, "uint32": 2**31 - 1, "int32": 2**31 - 1}
SOURCES = st.lists(
    st.sampled_from(sorted(LARGEST)).flatmap(
        lambda dtype: st.tuples(
            st.just(dtype), st.lists(st.integers(0, LARGEST[dtype]), max_size=70), st.integers(0, 3)
        )
    ),
    min_size=1,
    max_size=4,
)


@given(SOURCES, st.lists(st.tuples(*[st.integers(0, 70)] * 3), max_size=8), st.data())
@pytest.mark.parametrize("implementation", [NATIVE, "reference"])
def test_parts_follow_each_other(implementation, sources, parts, data):
    """Of arrays at any address, as ids behind a header are."""
    arrays = [
        np.frombuffer(b"x" * shift + np.array(ids, dtype).tobytes(), dtype, len(ids), shift)
        for dtype, ids, shift in sources
    ]
    which = [number % len(arrays) for number, *_ in parts]
    ends = [min(max(places), len(arrays[i])) for i, (_, *places) in zip(which, parts, strict=True)]
    starts = [min(min(places), end) for (_, *places), end in zip(parts, ends, strict=True)]
    first = data.draw(st.integers(0, len(parts)))
    last = data.draw(st.integers(first, len(parts)))
    expected = [id for i in range(first, last) for id in arrays[which[i]][starts[i] : ends[i]].tolist()]
    with kernel.force(implementation):
        found = kernel.IdParts(arrays, *(np.array(of, np.int64) for of in (which, starts, ends)))
    assert found.copy(first, last, np.empty(len(expected), np.int32)).tolist() == expected


@pytest.mark.parametrize("implementation", [NATIVE, "reference"])
@pytest.mark.parametrize("dtype", sorted(LARGEST))
def test_the_largest_ids_stay_what_they_are(implementation, dtype):
    """Those with the highest bit set, which arrays of random ids hardly ever have where a part is."""
    ids = [0, LARGEST[dtype] // 2, LARGEST[dtype] // 2 + 1, LARGEST[dtype]]
    none, all_ids = np.zeros(1, np.int64), np.full(1, len(ids), np.int64)
    with kernel.force(implementation):
        found = kernel.IdParts([np.array(ids, dtype)], none, none, all_ids)
    assert found.copy(0, 1, np.empty(len(ids), np.int32)).tolist() == ids


@pytest.mark.parametrize("implementation", [NATIVE, "reference"])
@pytest.mark.parametrize("part", [(1, 0, 1), (-1, 0, 1), (0, -1, 2), (0, 2, 1), (0, 0, 4)])
def test_what_is_not_in_a_source_is_refused(implementation, part):
    which, start, end = (np.array([value], np.int64) for value in part)
    with kernel.force(implementation), pytest.raises(ValueError, match=r"which|part"):
        kernel.IdParts([np.arange(3, dtype=np.int32)], which, start, end)


@pytest.mark.parametrize("implementation", [NATIVE, "reference"])
def test_other_arrays_and_places_are_refused(implementation):
    none, one = np.zeros(1, np.int64), np.ones(1, np.int64)
    with kernel.force(implementation):
        for dtype in (np.int64, np.int16, np.float32):
            with pytest.raises(ValueError, match="uint16, uint32 or int32"):
                kernel.IdParts([np.arange(3).astype(dtype)], none, none, one)
        parts = kernel.IdParts([np.arange(3, dtype=np.int32)], none, none, one)
        for first, last, room in ((0, 1, 0), (0, 1, 2), (0, 2, 1), (1, 0, 0)):
            with pytest.raises(ValueError, match=r"parts|ids"):
                parts.copy(first, last, np.empty(room, np.int32))
