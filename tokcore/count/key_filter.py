"""A Bloom filter of byte strings: which were seen, in bounded memory, with a share of wrong answers that it can tell.

Leaves to others: where the strings come from.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tokcore import kernel
from tokcore.text.texts import Texts

_KEY = (0x746F6B636F72652D, 0x6B65792D66696C74, 0x65722D7631000000, 1)
_BITS_PER_STRING = 12
_MOST_PROBES = 8
_LEAST_BITS = 1 << 10


class KeyFilter:
    """Says of a byte string that was added that it was; of another one mostly that it was not.

    >>> from tokcore.text.texts import make_texts_from_strings
    >>> seen = KeyFilter(2, 1 << 20)
    >>> seen.add(make_texts_from_strings(["low", "er"]))
    >>> seen.find(make_texts_from_strings(["er", "new", "low"])).tolist()
    [True, False, True]
    """

    def __init__(self, num_strings: int, most_bytes: int) -> None:
        """num_strings: that are to be added, about. most_bytes: of memory; more strings make more answers wrong."""
        wanted = max(_LEAST_BITS, num_strings * _BITS_PER_STRING)
        bits = min(1 << (wanted - 1).bit_length(), 1 << (most_bytes * 8).bit_length() - 1)
        self._bits = np.zeros(bits // 8, np.uint8)
        self._mask = np.uint64(bits - 1)
        self._probes = min(_MOST_PROBES, max(1, round(bits / max(1, num_strings) * math.log(2))))

    @property
    def size_bytes(self) -> int:
        return len(self._bits)

    @property
    def share_wrong(self) -> float:
        """Of the strings that were not added, the share that find() takes for added ones."""
        ones = int(np.bitwise_count(self._bits).sum()) if hasattr(np, "bitwise_count") else _count_ones(self._bits)
        return float((ones / (8 * len(self._bits))) ** self._probes)

    def add(self, strings: Texts) -> None:
        """Add strings; those that are there already change nothing."""
        for places in self._probe(strings):
            where, bit = places >> np.uint64(3), places & np.uint64(7)
            for number in range(8):  # of equal places with one bit, it is the same which one is written last
                chosen = where[bit == number]
                self._bits[chosen] |= np.uint8(1 << number)

    def find(self, strings: Texts) -> npt.NDArray[np.bool_]:
        """Of each string, whether it was added."""
        found = np.ones(strings.num_texts, bool)
        for places in self._probe(strings):
            found &= (self._bits[places >> np.uint64(3)] >> (places & np.uint64(7)).astype(np.uint8)) & 1 == 1
        return found

    def _probe(self, strings: Texts) -> list[npt.NDArray[np.uint64]]:
        """The places of each string's bits: h + i * g, with both halves of one hash."""
        hashes = kernel.highway_hash(_KEY, strings.data, strings.offsets)
        step = (hashes >> np.uint64(32)) | np.uint64(1)
        return [(hashes + np.uint64(i) * step) & self._mask for i in range(self._probes)]


def _count_ones(data: npt.NDArray[np.uint8]) -> int:
    return sum(int(np.unpackbits(data[i : i + (1 << 20)]).sum()) for i in range(0, len(data), 1 << 20))
