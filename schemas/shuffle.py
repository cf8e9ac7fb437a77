"""The global shuffle: where a document goes is a function of (seed, document key, sha256 of its text) alone.

A place is a number of 128 bits. Documents of a split are in the order of their places. A part is an interval of
places, and a sequence of shards; all parts have the same length. So neither order nor shards depend on how inputs are
cut, named, ordered or compressed.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from tokcore.formats.provenance import PLACE_BYTES, Places

_PREFIX = b"tokcore-shuffle-v1\0"

# A part has about eight full shards, so that the last one, which is not full, hardly matters.
_SHARDS_PER_PART = 8
MOST_PARTS = 1 << 15

# Planned bytes per bucket. Buckets decide how work is cut, and no byte.
BYTES_PER_BUCKET = 32 << 20
MOST_BUCKETS = 4096

SPAN = 1 << 64  # how many heads there are: the first 64 bits of places, which decide about parts and buckets


def compute_place(seed: int, key: bytes, text: bytes) -> bytes:
    """Where a document goes: the first 16 bytes of a sha256, as a big-endian number.

    Of `tokcore-shuffle-v1`, a zero byte, the seed in decimal digits, a zero byte, the document key
    (tokcore_schemas.document), and the sha256 of the text as it was read.

    >>> compute_place(7, b"k" * 32, b"a text").hex()
    '8874e3e5a5b317a18c7cf9a1c76e7ca1'
    """
    hashed = _PREFIX + b"%d\0" % seed + key + hashlib.sha256(text).digest()
    return hashlib.sha256(hashed).digest()[:PLACE_BYTES]


def get_heads(places: Places) -> npt.NDArray[np.uint64]:
    """The head of each place: its first 64 bits."""
    return np.ascontiguousarray(places[:, :8]).view(">u8").reshape(-1).astype(np.uint64)


def find_intervals(places: Places, of: int) -> npt.NDArray[np.int64]:
    """The interval that each place is in, by number; get_interval gives their bounds. of: a power of two."""
    if of == 1:  # whose length is no uint64
        return np.zeros(len(places), np.int64)
    return (get_heads(places) // np.uint64(SPAN // of)).astype(np.int64)


def choose_num_parts(num_tokens: int, target_tokens: int) -> int:
    """How many parts a shuffled corpus has: a power of two that follows from its tokens and the size of shards.

    >>> choose_num_parts(1000, 100), choose_num_parts(1700, 100), choose_num_parts(0, 100)
    (1, 2, 1)
    """
    wanted = num_tokens // (_SHARDS_PER_PART * target_tokens)
    return min(MOST_PARTS, 1 << max(0, wanted.bit_length() - 1))


def choose_num_buckets(planned_bytes: int) -> int:
    """How many buckets the first pass deals documents into; a power of two."""
    wanted = -(-planned_bytes // BYTES_PER_BUCKET)
    return min(MOST_BUCKETS, 1 << (max(1, wanted) - 1).bit_length())


def get_interval(number: int, of: int) -> tuple[int, int]:
    """The heads of the places in one of `of` intervals, end excluded. of: a power of two.

    >>> get_interval(1, 2) == (1 << 63, 1 << 64)
    True
    """
    return number * (SPAN // of), (number + 1) * (SPAN // of)
