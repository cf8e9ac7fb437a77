"""Integers as protocol buffers have them, whole arrays at a time: seven bits in a byte, the lowest first.

Each byte but the last of an integer has its highest bit set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tokcore.shards.token_batch import Offsets
from tokcore.text.texts import Bytes

_LAST = 0x80  # a byte below it ends an integer
_MOST_BYTES = 9  # of a positive int64


def spread_varints(values: npt.NDArray[Any]) -> tuple[Bytes, npt.NDArray[np.bool_]]:
    """(bytes, taken): uint8 and bool [n, width]. The taken bytes of row i are integer i, which must not be negative.

    >>> spread_varints(np.array([5, 300]))[0].tolist()
    [[5, 0], [172, 2]]
    """
    width = max(1, -(-int(values.max(initial=0)).bit_length() // 7))
    data = np.zeros((len(values), width), np.uint8)
    taken = np.ones((len(values), width), bool)
    for i in range(width):
        rest = values >> (7 * i)
        if i:
            taken[:, i] = rest > 0
        data[:, i] = rest & 0x7F
        data[:, i] |= (rest > 0x7F).view(np.uint8) << 7
    return data, taken


def measure_varints(values: npt.NDArray[Any]) -> Offsets:
    """The number of bytes of each integer. None may be negative.

    >>> measure_varints(np.array([5, 300])).tolist()
    [1, 2]
    """
    widths = np.ones(len(values), np.int64)
    for i in range(1, -(-int(values.max(initial=0)).bit_length() // 7)):
        widths += values >= 1 << (7 * i)
    return widths


def read_varints_at(data: Bytes, starts: Offsets) -> tuple[Offsets, Offsets]:
    """(values, ends): the integers that begin at these places, and where each ends.

    Raises ValueError for one of more than nine bytes, and where data ends within one.
    """
    values, ends = np.zeros(len(starts), np.int64), starts.astype(np.int64)
    left = np.arange(len(starts))
    for i in range(_MOST_BYTES):
        if not len(left):
            return values, ends
        if int(ends[left].max()) >= len(data):
            raise ValueError("the data end within an integer")
        found = data[ends[left]]
        values[left] |= (found & 0x7F).astype(np.int64) << (7 * i)
        ends[left] += 1
        left = left[found >= _LAST]
    if len(left):
        raise ValueError(f"an integer of more than {_MOST_BYTES} bytes")
    return values, ends
