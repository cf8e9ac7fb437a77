"""Documents in rows of one length: which part of which document goes where. Lengths in, places out; no ids.

Every id of every document is in exactly one row; what is left of a row is padding, which is counted. Rows follow from
the lengths and their order alone.

| strategy | rows |
|---|---|
| `concatenate` | documents back to back, cut where a row ends; only the last row has padding |
| `best-fit` | documents are put together so that rows are full; only those longer than a row are cut |
| `one` | a document has rows of its own |
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore.errors import ConfigError

Counts = npt.NDArray[np.int64]
Strategy = Literal["concatenate", "best-fit", "one"]
Cut = Literal["long", "never"]

STRATEGIES = ("concatenate", "best-fit", "one")
CUTS = ("long", "never")

# Documents that best-fit looks at together, at least, unless there are fewer.
WINDOW_DOCUMENTS = 32_768


class PackedRows(NamedTuple):
    """Some rows, one after another, all int64. A piece is a part of a document, in one row.

    bounds: rows + 1 positions in the pieces. documents, starts, lengths: of each piece its document, counted from the
    first of all, its first id in the document, and its ids.
    """

    bounds: Counts
    documents: Counts
    starts: Counts
    lengths: Counts

    @property
    def num_rows(self) -> int:
        return len(self.bounds) - 1

    def count_padding(self, length: int) -> int:
        """The ids that rows of this length lack."""
        return self.num_rows * length - int(self.lengths.sum())

    def cu_seqlens(self, row: int) -> list[int]:
        """Where the pieces of a row begin, and the last ends; padding is after it. Empty documents are left out."""
        own = self.lengths[self.bounds[row] : self.bounds[row + 1]]
        return [0, *np.cumsum(own[own > 0]).tolist()]


def pack(
    lengths: Iterable[Counts],
    length: int,
    strategy: Strategy = "best-fit",
    cut: Cut = "long",
    window: int = WINDOW_DOCUMENTS,
) -> Iterator[PackedRows]:
    """Rows of documents with these numbers of ids, some at a time.

    lengths: in any batches, int64, at least 0. length: ids of a row. cut: whether a document longer than a row is cut,
    at multiples of length. window: how many documents best-fit looks at together. The last window also takes what is
    left over, so it may hold nearly twice as many.

    Best-fit, for the documents of a window: a document longer than a row fills rows of its own; what is left of it,
    and each other document, is a piece. Pieces are taken from the longest to the shortest, equal ones in the order of
    documents, and each goes to the row with the least room that it fits in, of several the one opened first; if there
    is none, a row is opened. In a row, pieces are in the order of documents; rows are in the order of their first
    pieces.

    Raises ConfigError for cut = "never" and a longer document: it names its number. Memory: a window, or a batch.

    >>> (rows,) = pack([np.array([3, 5, 1, 4])], 5, "best-fit")
    >>> [rows.documents[start:end].tolist() for start, end in zip(rows.bounds, rows.bounds[1:])]
    [[0], [1], [2, 3]]
    """
    if length < 1:
        raise ConfigError(f"pack.length = {length}: must be at least 1")
    if strategy not in STRATEGIES:
        raise ConfigError(f"pack.strategy = {strategy!r}: expected one of {', '.join(STRATEGIES)}")
    if cut not in CUTS:
        raise ConfigError(f"pack.cut = {cut!r}: expected one of {', '.join(CUTS)}")
    batches = _check(lengths, length, cut if strategy != "concatenate" else "long")
    if strategy == "concatenate":
        yield from _concatenate(batches, length)
    elif strategy == "one":
        for first, own in batches:
            if len(own):
                documents, starts, sizes = _cut_long(own, first, length)
                yield _group(documents, starts, sizes, np.arange(len(sizes)))
    else:
        for first, own in _make_windows(batches, window):
            yield _fit(own, first, length)


def _check(lengths: Iterable[Counts], length: int, cut: Cut) -> Iterator[tuple[int, Counts]]:
    """Batches with the number of their first document."""
    first = 0
    for batch in lengths:
        own = np.asarray(batch, np.int64)
        if cut == "never" and len(wrong := np.flatnonzero(own > length)):
            i = int(wrong[0])
            raise ConfigError(
                f'pack.cut = "never": document {first + i} has {int(own[i])} ids, a row has {length}. '
                f'Raise pack.length, or write cut = "long"'
            )
        yield first, own
        first += len(own)


def _make_windows(batches: Iterable[tuple[int, Counts]], window: int) -> Iterator[tuple[int, Counts]]:
    """Runs of documents, each as long as the window but the last one, which is that or longer if there are enough."""
    waiting = np.zeros(0, np.int64)
    first = 0
    for _, batch in batches:
        waiting = np.concatenate([waiting, batch])
        while len(waiting) >= 2 * window:
            yield first, waiting[:window]
            waiting, first = waiting[window:], first + window
    if len(waiting):
        yield first, waiting


def _cut_long(lengths: Counts, first: int, length: int) -> tuple[Counts, Counts, Counts]:
    """Pieces, at most a row each: documents, starts, lengths. An empty document has one empty piece."""
    counts = np.maximum(-(-lengths // length), 1)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = within * length
    sizes = np.minimum(np.repeat(lengths, counts) - starts, length)
    return np.repeat(np.arange(first, first + len(lengths)), counts), starts, sizes


def _concatenate(batches: Iterable[tuple[int, Counts]], length: int) -> Iterator[PackedRows]:
    none = np.zeros(0, np.int64)
    kept = (none, none, none, none)  # documents, starts, lengths and rows of pieces whose row may get more
    position = done = 0  # ids, and rows that were given
    for first, own in batches:
        ends = np.cumsum(own) + position
        begins = ends - own
        # A document has a piece in each row that has an id of it; an empty one, in the row of the id before it.
        head = np.where(own > 0, begins, np.maximum(begins - 1, 0)) // length
        counts = np.where(own > 0, (ends - 1) // length - head, 0) + 1
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = np.repeat(head, counts) + within
        places = np.maximum(rows * length, np.repeat(begins, counts))
        sizes = np.minimum((rows + 1) * length, np.repeat(ends, counts)) - places
        documents = np.repeat(np.arange(first, first + len(own)), counts)
        pieces = (documents, places - np.repeat(begins, counts), sizes, rows)
        documents, starts, sizes, rows = (np.concatenate(both) for both in zip(kept, pieces, strict=True))
        position += int(own.sum())
        last = max(position - 1, 0) // length
        num = int(np.searchsorted(rows, last, side="left"))
        if num:
            yield _group(documents[:num], starts[:num], sizes[:num], rows[:num] - done)
            done = last
        kept = (documents[num:], starts[num:], sizes[num:], rows[num:])
    if len(kept[0]):
        yield _group(*kept[:3], kept[3] - done)


def _group(documents: Counts, starts: Counts, lengths: Counts, rows: Counts) -> PackedRows:
    """Pieces with the row of each, in order, each row named."""
    num = int(rows[-1]) + 1 if len(rows) else 0
    return PackedRows(np.searchsorted(rows, np.arange(num + 1)), documents, starts, lengths)


def _fit(lengths: Counts, first: int, length: int) -> PackedRows:
    """Best-fit decreasing."""
    documents, starts, sizes = _cut_long(lengths, first, length)
    rows = np.array(_find_rows(sizes, length), np.int64)
    # Rows by their first piece; pieces in the order of documents, in which they are.
    order = np.argsort(rows, kind="stable")
    heads = np.flatnonzero(np.diff(rows[order], prepend=-1))
    number = np.empty(len(heads), np.int64)
    number[np.argsort(order[heads])] = np.arange(len(heads))
    rows = number[rows]
    order = np.argsort(rows, kind="stable")
    return _group(documents[order], starts[order], sizes[order], rows[order])


def _find_rows(sizes: Counts, length: int) -> list[int]:
    """The row of each piece, rows being numbered as they are opened."""
    rooms: list[int] = []  # that some row has, ascending
    having: dict[int, list[int]] = {}  # room -> rows that have it, a heap
    rows = [0] * len(sizes)
    num = 0
    order = np.argsort(-sizes, kind="stable")
    for piece, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        at = bisect.bisect_left(rooms, size)
        if at == len(rooms):
            row, room = num, length
            num += 1
        else:
            room = rooms[at]
            own = having[room]
            row = heapq.heappop(own)
            if not own:
                del having[room], rooms[at]
        rows[piece] = row
        left = room - size
        if (others := having.get(left)) is None:
            having[left] = [row]
            bisect.insort(rooms, left)
        else:
            heapq.heappush(others, row)
    return rows
