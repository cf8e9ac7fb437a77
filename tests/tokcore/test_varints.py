"""Integers as protocol buffers have them: the kernel against plain integers, and against protobuf's own bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore import kernel
from tokcore.formats.varints import measure_varints, spread_varints

NATIVE = kernel.list_available()[0]
BOTH = pytest.mark.parametrize("implementation", [NATIVE, "reference"])
# Next to each change of width, and anything.
IDS = st.one_of(
    st.integers(0, 2**31 - 1),
    st.builds(
        lambda bits, more: min(max(0, (1 << bits) + more), 2**31 - 1),
        st.sampled_from([0, 7, 14, 21, 28, 31]),
        st.integers(-2, 2),
    ),
)
PARTS = st.lists(st.lists(IDS, max_size=30), max_size=8)


def bounds_of(parts) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum([len(part) for part in parts], dtype=np.int64)])


@given(PARTS, st.integers(0, 3))
def test_the_kernel_packs_and_unpacks_as_plain_integers_do(parts, skipped):
    """Also parts that begin after the first value, and bytes that are in no part."""
    values = np.array([7] * skipped + [value for part in parts for value in part], np.int32)
    offsets = bounds_of(parts) + skipped
    packed = []
    for implementation in (NATIVE, "reference"):
        with kernel.force(implementation):
            data, bounds = kernel.pack_varints(values, offsets)
            packed.append((data.tobytes(), bounds.tolist()))
            around = np.concatenate([np.full(skipped, 0xFF, np.uint8), data, np.full(9, 0xFF, np.uint8)])
            found, counts = kernel.unpack_varints(around, bounds + skipped)
        assert found.dtype == counts.dtype == np.int64
        assert found.tolist() == values[skipped:].tolist()
        assert counts.tolist() == [len(part) for part in parts]
    assert packed[0] == packed[1]
    spread, taken = spread_varints(values[skipped:].astype(np.int64))
    assert spread[taken].tobytes() == packed[0][0]
    assert int(measure_varints(values[skipped:]).sum()) == len(packed[0][0])


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), min_size=1, max_size=5))
def test_any_bytes_are_unpacked_or_refused_as_plain_integers_are(data, places):
    """Also integers that are longer than they need to be, and of nine bytes."""
    bounds = np.array(sorted(min(place, len(data)) for place in places), np.int64)
    found = []
    for implementation in (NATIVE, "reference"):
        with kernel.force(implementation):
            try:
                values, counts = kernel.unpack_varints(np.frombuffer(data, np.uint8), bounds)
                found.append((values.tolist(), counts.tolist()))
            except ValueError as error:
                found.append(str(error))
    assert found[0] == found[1]


@BOTH
def test_bytes_of_the_documentation_and_the_largest(implementation):
    """150 is the example of protobuf's page on its encoding."""
    with kernel.force(implementation):
        data, bounds = kernel.pack_varints(np.array([150, 2**31 - 1], np.int32), np.array([0, 1, 2]))
        assert data.tobytes().hex() == "9601" + "ffffffff07"
        assert bounds.tolist() == [0, 2, 7]
        largest = np.frombuffer(b"\xff" * 8 + b"\x7f", np.uint8)
        assert kernel.unpack_varints(largest, np.array([0, 9]))[0].tolist() == [2**63 - 1]


@BOTH
@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\xff" * 9 + b"\0", "more than 9 bytes"),
        (b"\1" * 20 + b"\xff" * 9 + b"\0" * 20, "more than 9 bytes"),
        (b"\1\x80", "ends within an integer"),
        (b"\1" * 20 + b"\x80", "ends within an integer"),
    ],
)
def test_bytes_that_are_no_integers_are_refused(implementation, data, what):
    with kernel.force(implementation), pytest.raises(ValueError, match=what):
        kernel.unpack_varints(np.frombuffer(data, np.uint8), np.array([0, len(data)]))


@BOTH
@pytest.mark.parametrize("offsets", [[], [0, 4], [2, 1], [-1, 2]])
def test_parts_outside_of_the_data_are_refused(implementation, offsets):
    places = np.array(offsets, np.int64)
    with kernel.force(implementation):
        with pytest.raises(ValueError, match="offsets"):
            kernel.pack_varints(np.zeros(3, np.int32), places)
        with pytest.raises(ValueError, match="bounds"):
            kernel.unpack_varints(np.zeros(3, np.uint8), places)


@BOTH
def test_a_negative_integer_is_refused(implementation):
    with kernel.force(implementation), pytest.raises(ValueError, match="negative"):
        kernel.pack_varints(np.array([1, -1], np.int32), np.array([0, 2]))
