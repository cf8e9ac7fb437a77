"""CountRows: sorted rows of a count table in memory, the one shape in which counts cross the kernel's door.

Leaves to others: how rows come about (counting) and what is learned from them (bpe).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.text.texts import Texts

Counts = npt.NDArray[np.uint64]


class CountRows(NamedTuple):
    """Rows (key, count, documents), strictly ascending by the bytes of the key, as memcmp orders them.

    keys: the keys of n rows.
    counts: uint64[n], how often each key occurs.
    documents: uint64[n], in how many documents.
    """

    keys: Texts
    counts: Counts
    documents: Counts

    @property
    def num_rows(self) -> int:
        return len(self.counts)

    def slice(self, start: int, end: int) -> CountRows:
        """Rows start (included) to end (excluded), without copying."""
        keys = Texts(self.keys.data, self.keys.offsets[start : end + 1])
        return CountRows(keys, self.counts[start:end], self.documents[start:end])

    def seen_in(self, min_documents: int) -> CountRows:
        """The rows that at least that many documents hold.

        >>> make_rows([(b"a", 9, 1), (b"b", 2, 2)]).seen_in(2).counts.tolist()
        [2]
        """
        kept = self.documents >= min_documents
        if kept.all():
            return self
        lengths = np.diff(self.keys.offsets)
        offsets = np.zeros(int(kept.sum()) + 1, np.int64)
        np.cumsum(lengths[kept], out=offsets[1:])
        data = self.keys.data[self.keys.offsets[0] : self.keys.offsets[-1]][np.repeat(kept, lengths)]
        return CountRows(Texts(data, offsets), self.counts[kept], self.documents[kept])


def make_rows(rows: list[tuple[bytes, int, int]]) -> CountRows:
    """CountRows of Python tuples (key, count, documents), which must be sorted and distinct.

    >>> make_rows([(b"a", 2, 1), (b"b", 1, 1)]).counts.tolist()
    [2, 1]
    """
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.fromiter((len(key) for key, _, _ in rows), np.int64, len(rows)), out=offsets[1:])
    data = np.frombuffer(b"".join(key for key, _, _ in rows), np.uint8)
    counts = np.array([count for _, count, _ in rows], np.uint64)
    documents = np.array([number for _, _, number in rows], np.uint64)
    return CountRows(Texts(data, offsets), counts, documents)


def list_rows(rows: CountRows) -> list[tuple[bytes, int, int]]:
    """The inverse of make_rows."""
    keys = (rows.keys.text(i) for i in range(rows.num_rows))
    return list(zip(keys, rows.counts.tolist(), rows.documents.tolist(), strict=True))
