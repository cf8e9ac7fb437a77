"""Count tables in memory, once, for many small tokenizers: of each table the rows that occur most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tokcore.count.pretoken_rows import CountRows
from tokcore.text.texts import Texts
from tokcore_pipelines.work.counted_parts import CountedParts
from tokcore_schemas.count_key import CountKey


class KeptTable(NamedTuple):
    """A table of which the rows that occur most were read."""

    key: CountKey
    rows: CountRows

    @property
    def size_bytes(self) -> int:
        """Of the text that the rows are."""
        lengths = np.diff(self.rows.keys.offsets)
        return sum(length * count for length, count in zip(lengths.tolist(), self.rows.counts.tolist(), strict=True))


def keep_tables(counted: CountedParts, most_rows: int) -> list[KeptTable]:
    """The tables, with at most that many rows together: each may have as many as any other that has more."""
    limit = share_rows(counted.rows_of_tables, most_rows)
    return [KeptTable(key, keep_most_frequent(table.read(), limit)) for key, table in counted.keyed_tables]


def share_rows(sizes: list[int], most: int) -> int:
    """The largest limit of rows of a table with which all together have at most that many; at least 1.

    >>> share_rows([5, 100, 100], 65), share_rows([5], 65)
    (30, 65)
    """
    left, tables = most, len(sizes)
    for size in sorted(sizes):
        if size * tables >= left:
            return max(1, left // tables)
        left, tables = left - size, tables - 1
    return max(1, most)


def keep_most_frequent(blocks: Iterator[CountRows], most: int) -> CountRows:
    """The rows that occur most, in their order; of equally frequent ones the first."""
    held: list[CountRows] = []
    num = 0
    for block in blocks:
        held.append(block)
        num += block.num_rows
        if num > 2 * most:
            held = [_choose(join_rows(held), most)]
            num = held[0].num_rows
    return _choose(join_rows(held), most)


def join_rows(blocks: list[CountRows]) -> CountRows:
    """Blocks of ascending rows as one."""
    lengths = [np.diff(block.keys.offsets) for block in blocks]
    data = [block.keys.data[block.keys.offsets[0] : block.keys.offsets[-1]] for block in blocks]
    offsets = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
    keys = Texts(np.concatenate([np.zeros(0, np.uint8), *data]), offsets)
    counts, documents = (
        np.concatenate([np.zeros(0, np.uint64), *(getattr(block, name) for block in blocks)])
        for name in ("counts", "documents")
    )
    return CountRows(keys, counts, documents)


def _choose(rows: CountRows, most: int) -> CountRows:
    if rows.num_rows <= most:
        return rows
    order = np.argsort(np.iinfo(np.uint64).max - rows.counts, kind="stable")[:most]
    where = np.sort(order)
    return CountRows(rows.keys.take(where), rows.counts[where], rows.documents[where])
