"""Copies of documents in a mixture: which documents are taken how often, and where each copy goes.

Both follow from the place that the shuffle gave a document (tokcore_schemas.shuffle), so from seed, key and text alone.
The first half of a place, its head, says where the document is; the second half, its tail, whether it is taken once
more.

Places are cut into segments, a power of two of equal intervals, each of which fits into memory. Copy 0 of a document
stays at its place. Copy k goes from segment s to segment s XOR k with its bits in reverse order: 1 goes half of the
corpus away, 2 a quarter, 3 three quarters. So what comes again comes far from where it was, and all copies that a
segment gets are read from a few segments. Within its segment a copy has a place of its own.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from tokcore.formats.provenance import PLACE_BYTES, Places
from tokcore_schemas.shuffle import SPAN

_PREFIX = b"tokcore-copy-v1\0"

# Tokens of a segment on average: 32 MB of ids.
TOKENS_PER_SEGMENT = 1 << 23

# Intervals of tails for which tokens are added up: what is taken of a language differs from what is wanted by less than
# the tokens of one.
NUM_CELLS = 64


def choose_num_segments(num_tokens: int, *num_parts: int) -> int:
    """How many segments there are. num_tokens: of the shards or the mixture, the larger. num_parts: of both.

    >>> choose_num_segments(1 << 24, 1, 1), choose_num_segments(100, 4, 1)
    (2, 4)
    """
    wanted = -(-num_tokens // TOKENS_PER_SEGMENT)
    return max(*num_parts, 1 << (max(1, wanted) - 1).bit_length())


def reverse_copy(copy: int, num_segments: int) -> int:
    """The number of a copy, modulo the segments, with its bits in reverse order.

    >>> [reverse_copy(copy, 8) for copy in range(9)]
    [0, 4, 2, 6, 1, 5, 3, 7, 0]
    """
    reversed_ = 0
    bits = num_segments.bit_length() - 1
    for bit in range(bits):
        reversed_ |= (copy >> bit & 1) << (bits - 1 - bit)
    return reversed_


def get_tails(places: Places) -> npt.NDArray[np.uint64]:
    """The tail of each place: its last 64 bits."""
    return np.ascontiguousarray(places[:, 8:]).view(">u8").reshape(-1).astype(np.uint64)


def find_cells(places: Places) -> npt.NDArray[np.int64]:
    """The interval that each tail is in, by number."""
    return (get_tails(places) // np.uint64(SPAN // NUM_CELLS)).astype(np.int64)


def place_copies(places: Places, copy: int, segment: int, num_segments: int) -> Places:
    """Where copies of documents go that belong to one segment. copy: their number; segment: the one that they go to.

    The first bits are the segment's number. The others are those of the first 16 bytes of a sha256: of
    `tokcore-copy-v1`, a zero byte, the copy in decimal digits, a zero byte, and the document's place.
    """
    if copy == 0:
        return places
    prefix = _PREFIX + b"%d\0" % copy
    hashed = b"".join(hashlib.sha256(prefix + place.tobytes()).digest()[:PLACE_BYTES] for place in places)
    moved = np.frombuffer(hashed, np.uint8).reshape(-1, PLACE_BYTES).copy()
    if num_segments > 1:  # else the length of the one segment is no uint64
        length = np.uint64(SPAN // num_segments)
        heads = np.ascontiguousarray(moved[:, :8]).view(">u8").reshape(-1).astype(np.uint64)
        moved[:, :8] = (heads % length + np.uint64(segment) * length).astype(">u8").view(np.uint8).reshape(-1, 8)
    return moved
