"""Count rows with a sign: what some documents brought to a table is taken away from it again.

Leaves to others: where both come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tokcore.count.pretoken_rows import CountRows
from tokcore.errors import LedgerError
from tokcore.text.texts import Texts


def subtract_rows(rows: Iterable[CountRows], gone: Iterable[CountRows]) -> Iterator[CountRows]:
    """Blocks of rows, less those of gone; both ascending, each key once. Rows of which nothing is left are left out.

    Raises LedgerError, naming the pre-token, if more would be taken away than there is.

    >>> from tokcore.count.pretoken_rows import list_rows, make_rows
    >>> table, gone = make_rows([(b"a", 3, 2), (b"b", 1, 1)]), make_rows([(b"a", 1, 1), (b"b", 1, 1)])
    >>> [list_rows(block) for block in subtract_rows([table], [gone])]
    [[(b'a', 2, 1)]]
    """
    waiting = iter(gone)
    held = _next_block(waiting)
    for block in rows:
        if not block.num_rows:
            continue
        last = block.keys.text(block.num_rows - 1)
        taken = []
        while held is not None and (end := _count_up_to(held, last)):
            taken.append(held.slice(0, end))
            held = held.slice(end, held.num_rows) if end < held.num_rows else _next_block(waiting)
        if left := _take_away(block, taken):
            yield left
    if held is not None:
        raise _make_underflow(held.keys.text(0), 0, int(held.counts[0]))


def _next_block(blocks: Iterator[CountRows]) -> CountRows | None:
    return next((block for block in blocks if block.num_rows), None)


def _count_up_to(rows: CountRows, last: bytes) -> int:
    """How many of the rows have keys up to last."""
    low, high = 0, rows.num_rows
    while low < high:
        middle = (low + high) // 2
        if rows.keys.text(middle) <= last:
            low = middle + 1
        else:
            high = middle
    return low


def _take_away(block: CountRows, gone: list[CountRows]) -> CountRows | None:
    """What is left of a block; None if nothing is. gone: rows whose keys are not above its last one."""
    if not gone:
        return block
    counts, documents = block.counts.copy(), block.documents.copy()
    keys = _make_array(block.keys)
    for rows in gone:
        where = _find(_make_array(rows.keys), keys)
        if (lost := np.flatnonzero(where < 0)).size:
            raise _make_underflow(rows.keys.text(int(lost[0])), 0, int(rows.counts[lost[0]]))
        for column, less in ((counts, rows.counts), (documents, rows.documents)):
            if (short := np.flatnonzero(column[where] < less)).size:
                i = int(short[0])
                raise _make_underflow(rows.keys.text(i), int(column[where[i]]), int(less[i]))
            column[where] -= less
    if (odd := np.flatnonzero((counts == 0) != (documents == 0))).size:
        raise LedgerError(
            f"count table: pre-token {_spell(block.keys.text(int(odd[0])))}: {counts[odd[0]]} are left, in "
            f"{documents[odd[0]]} documents"
        )
    left = CountRows(block.keys, counts, documents).seen_in(1)
    return left if left.num_rows else None


def _find(wanted: pa.Array, among: pa.Array) -> npt.NDArray[np.int64]:
    """The place of each wanted key among others; -1 for one that is not there."""
    import pyarrow.compute as pc  # takes long, and few builds need it

    places: npt.NDArray[np.int64] = pc.index_in(wanted, among).fill_null(-1).to_numpy().astype(np.int64)
    return places


def _make_array(texts: Texts) -> pa.Array:
    start, end = int(texts.offsets[0]), int(texts.offsets[-1])
    buffers = [None, pa.py_buffer(texts.offsets - start), pa.py_buffer(np.ascontiguousarray(texts.data[start:end]))]
    return pa.Array.from_buffers(pa.large_binary(), texts.num_texts, buffers)


def _make_underflow(key: bytes, there: int, wanted: int) -> LedgerError:
    return LedgerError(
        f"count table: pre-token {_spell(key)}: {wanted} of it, or of its documents, are to be taken away, "
        f"and {there} are there"
    )


def _spell(key: bytes) -> str:
    return repr(key.decode(errors="replace"))[:60]
