"""Places of a shuffle: what they follow from, and how they are cut into parts and buckets."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokcore_schemas.shuffle import (
    MOST_PARTS,
    SPAN,
    choose_num_buckets,
    choose_num_parts,
    compute_place,
    get_heads,
    get_interval,
)


def test_a_place_follows_from_seed_key_and_text():
    key = bytes(range(32))
    told = b"tokcore-shuffle-v1\0" + b"7\0" + key + hashlib.sha256(b"a text").digest()
    assert compute_place(7, key, b"a text") == hashlib.sha256(told).digest()[:16]
    others = [(8, key, b"a text"), (7, key[::-1], b"a text"), (7, key, b"another text")]
    assert len({compute_place(7, key, b"a text"), *(compute_place(*one) for one in others)}) == 4


def test_heads_are_big_endian():
    places = np.frombuffer(bytes(range(16)) + b"\xff" * 16, np.uint8).reshape(-1, 16)
    assert get_heads(places).tolist() == [0x0001020304050607, SPAN - 1]
    assert get_heads(places[:0]).tolist() == []


@given(st.integers(0, 1 << 60), st.integers(1, 1 << 30))
def test_parts_hold_enough_shards(num_tokens, target_tokens):
    num = choose_num_parts(num_tokens, target_tokens)
    assert 1 <= num <= MOST_PARTS
    assert num & (num - 1) == 0
    assert num == 1 or num_tokens >= 8 * target_tokens * num
    assert num == MOST_PARTS or num_tokens < 16 * target_tokens * num


@pytest.mark.parametrize("of", [1, 2, 4096])
def test_intervals_cover_all_places_once(of):
    bounds = [get_interval(number, of) for number in range(of)]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == SPAN
    assert all(one[1] == other[0] for one, other in itertools.pairwise(bounds))


def test_buckets_are_a_power_of_two():
    assert [choose_num_buckets(size) for size in (0, 1, 32 << 20, (32 << 20) + 1, 1 << 60)] == [1, 1, 1, 2, 4096]
