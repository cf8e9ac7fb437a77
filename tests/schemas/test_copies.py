"""Places of the copies of a document in a mixture: a segment of its own for each, and a place in it."""

from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokcore.formats.provenance import PLACE_BYTES
from tokcore_schemas.copies import NUM_CELLS, choose_num_segments, find_cells, get_tails, place_copies, reverse_copy
from tokcore_schemas.shuffle import get_heads, get_interval


def make_places(num, seed=0):
    told = b"".join(hashlib.sha256(b"%d %d" % (seed, i)).digest()[:PLACE_BYTES] for i in range(num))
    return np.frombuffer(told, np.uint8).reshape(-1, PLACE_BYTES)


@given(st.integers(0, 12), st.integers(0, 100), st.integers(0, 10**6))
def test_copies_are_in_the_segment_that_they_go_to(bits, copy, seed):
    num_segments = 1 << bits
    places = make_places(20, seed)
    segment = seed % num_segments
    moved = place_copies(places, copy, segment, num_segments)
    if copy == 0:
        assert moved is places
        return
    low, high = get_interval(segment, num_segments)
    assert all(low <= int(head) < high for head in get_heads(moved))
    assert len({place.tobytes() for place in moved}) == len(moved)


def test_the_first_copies_are_in_all_segments():
    """So the same segment is read for each of them only once, and none is left out."""
    for num_segments in (1, 2, 16):
        for segment in range(num_segments):
            told = {segment ^ reverse_copy(copy, num_segments) for copy in range(num_segments)}
            assert told == set(range(num_segments))
    assert [reverse_copy(copy, 4) for copy in range(6)] == [0, 2, 1, 3, 0, 2]


def test_segments_are_at_least_as_many_as_parts():
    assert choose_num_segments(1, 1, 1) == 1
    assert choose_num_segments(1, 4, 2) == 4
    assert choose_num_segments((1 << 23) + 1, 1, 1) == 2
    assert choose_num_segments(1 << 33, 1, 4) == 1 << 10


def test_cells_are_those_of_the_second_half():
    places = make_places(1000)
    tails = [int.from_bytes(place.tobytes()[8:], "big") for place in places]
    assert get_tails(places).tolist() == tails
    assert find_cells(places).tolist() == [tail * NUM_CELLS >> 64 for tail in tails]
