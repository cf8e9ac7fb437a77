"""HighwayHash64: the published vectors, and the kernel against plain integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore import kernel

NATIVE = kernel.list_available()[0]
KEY = tuple(int.from_bytes(bytes(range(at, at + 8)), "little") for at in range(0, 32, 8))

# From c/highwayhash_test.c of google/highwayhash: the hashes of bytes 0, 1, 2 ... of these lengths under the key above.
PUBLISHED = {
    0: 0x907A56DE22C26E53,
    1: 0x7EAB43AAC7CDDD78,
    2: 0xB8D0569AB0B53D62,
    3: 0x5C6BEFAB8A463D80,
    4: 0xF205A46893007EDA,
    15: 0x40793F86A449F33B,
    16: 0xCFAB3489F97EB832,
    17: 0x19FE67D2C8C5C0E2,
    31: 0x9FC7007CCF035A68,
    32: 0xA0C964D9ECD580FC,
    33: 0x2C90F73CA03181FC,
    63: 0xAB8EEBE9BF2139A0,
    64: 0x75542C5D4CD2A6FF,
}


@pytest.mark.parametrize("implementation", [NATIVE, "reference"])
def test_published_vectors(implementation):
    data = np.arange(64, dtype=np.uint8)
    with kernel.force(implementation):
        found = {size: int(kernel.highway_hash(KEY, data, np.array([0, size]))[0]) for size in PUBLISHED}
    assert found == PUBLISHED


@given(st.binary(max_size=100), st.lists(st.integers(0, 100), min_size=1, max_size=6), st.integers(0, 2**64 - 1))
def test_the_kernel_hashes_each_range_as_plain_integers_do(data, places, word):
    offsets = np.array(sorted(min(place, len(data)) for place in places), np.int64)
    key = (word, 1, word ^ 7, 2**64 - 1)
    found = []
    for implementation in (NATIVE, "reference"):
        with kernel.force(implementation):
            found.append(kernel.highway_hash(key, np.frombuffer(data, np.uint8), offsets).tolist())
    assert found[0] == found[1]
    assert len(found[0]) == len(offsets) - 1


@pytest.mark.parametrize("implementation", [NATIVE, "reference"])
@pytest.mark.parametrize("offsets", [[], [0, 4], [2, 1], [-1, 2]])
def test_ranges_outside_of_the_data_are_refused(implementation, offsets):
    with kernel.force(implementation), pytest.raises(ValueError, match="offsets"):
        kernel.highway_hash(KEY, np.zeros(3, np.uint8), np.array(offsets, np.int64))
