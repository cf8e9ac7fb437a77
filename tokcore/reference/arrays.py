"""Lists out of the arrays in which texts and ids cross the kernel's door, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tokcore.text.texts import Bytes, Offsets

Ids = npt.NDArray[np.int32]


def list_texts(data: Bytes, offsets: Offsets) -> list[bytes]:
    """The byte strings of tokcore.text.texts.Texts.

    >>> list_texts(np.frombuffer(b"abc", np.uint8), np.array([0, 1, 3]))
    [b'a', b'bc']
    """
    return [data[start:end].tobytes() for start, end in pairwise(offsets.tolist())]


def list_pieces(data: Bytes, offsets: Offsets, ends: Offsets, firsts: Offsets) -> Iterator[list[bytes]]:
    """The pieces of each text; ends and firsts as tokcore.kernel.split returns them."""
    for i, start in enumerate(offsets[:-1].tolist()):
        bounds = [start, *ends[firsts[i] : firsts[i + 1]].tolist()]
        yield [data[begin:end].tobytes() for begin, end in pairwise(bounds)]


def join_ids(rows: Sequence[Sequence[int]]) -> tuple[Ids, Offsets]:
    """(ids of all texts, n + 1 offsets into them).

    >>> [array.tolist() for array in join_ids([[5, 6], [], [7]])]
    [[5, 6, 7], [0, 2, 2, 3]]
    """
    offsets: Offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return np.array([id for row in rows for id in row], np.int32), offsets
