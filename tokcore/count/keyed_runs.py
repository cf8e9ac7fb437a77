"""Runs that hold rows of many tables: what a work item counted, of all its languages, in one sorted stream.

A piece is (key, rows): rows of the table of that key, a name. Pieces are in the order of keys, and rows of one key, in
one or more pieces, in the order of their pre-tokens. Each block of the stream says which rows are of which key, so
small tables share blocks and cost little.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa

from tokcore.count import pretoken_tables
from tokcore.count.pretoken_rows import CountRows
from tokcore.count.pretoken_tables import (
    ROWS_SCHEMA,
    join_blocks,
    make_batch_of_rows,
    make_rows_of_batch,
    merge_rows,
)
from tokcore.errors import FormatError
from tokcore.files.arrow_files import Sink, Source
from tokcore.files.shortage import raise_shortage

Piece = tuple[str, CountRows]

_TABLES = b"tables"  # of a block: [key, rows, key, rows, ...] as JSON
_MOST_KEYS = 4096  # of a block
_get_key = operator.itemgetter(0)


def group_by_key(pieces: Iterable[Piece]) -> Iterator[tuple[str, Iterator[CountRows]]]:
    """(key, its rows in blocks) of each key, in order. Blocks are to be taken before the next key is asked for."""
    for key, own in itertools.groupby(pieces, _get_key):
        yield key, (rows for _, rows in own)


def merge_keyed_rows(runs: Sequence[Iterable[Piece]]) -> Iterator[Piece]:
    """The sum of runs of pieces, in pieces. Of each run at most one block is held at a time.

    Raises FormatError if a run is not sorted, OverflowError if counts pass 64 bits.

    >>> from tokcore.count.pretoken_rows import list_rows, make_rows
    >>> one, two = make_rows([(b"a", 1, 1)]), make_rows([(b"a", 2, 1), (b"b", 1, 1)])
    >>> merged = merge_keyed_rows([[("de", one), ("en", one)], [("en", two), ("fr", one)]])
    >>> [(key, *row) for key, rows in merged for row in list_rows(rows)]
    [('de', b'a', 1, 1), ('en', b'a', 3, 2), ('en', b'b', 1, 1), ('fr', b'a', 1, 1)]
    """
    groups = [group_by_key(run) for run in runs]
    heads = {i: head for i, group in enumerate(groups) if (head := next(group, None)) is not None}
    while heads:
        key = min(head[0] for head in heads.values())
        own = [i for i, head in heads.items() if head[0] == key]
        for rows in merge_rows([heads[i][1] for i in own]):
            yield key, rows
        for i in own:
            if (head := next(groups[i], None)) is None:
                del heads[i]
            elif head[0] <= key:
                raise FormatError(f"cannot merge count rows: {head[0]!r} comes after {key!r} in a run")
            else:
                heads[i] = head


def write_keyed_run(file: Any, pieces: Iterable[Piece]) -> None:
    """Write pieces to an open binary file. What is written depends on keys and rows, not on how they are cut.

    An empty block at the end says that the run is whole.
    """
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("lz4"), use_threads=False)
    with pa.ipc.new_stream(Sink(file), ROWS_SCHEMA, options=options) as writer:
        for tables, block in _cut_into_blocks(pieces):
            writer.write_batch(make_batch_of_rows(block), custom_metadata={_TABLES: orjson.dumps(tables)})
        writer.write_batch(pa.RecordBatch.from_pylist([], ROWS_SCHEMA))


def read_keyed_run(file: Any) -> Iterator[Piece]:
    """The pieces of a run, from where the open binary file stands; it is left at the end of the run.

    Raises FormatError if it is not a run or does not end properly.
    """
    try:
        with pa.ipc.open_stream(Source(file)) as reader:
            if reader.schema != ROWS_SCHEMA:
                raise FormatError(f"not a run of count rows: its columns are {reader.schema.names}")
            while (read := reader.read_next_batch_with_custom_metadata()).batch.num_rows:
                tables = orjson.loads((read.custom_metadata or {}).get(_TABLES, b"[]"))
                yield from _take_apart(tables, make_rows_of_batch(read.batch))
            if next(iter(reader), None) is not None:
                raise FormatError("run of count rows: rows after its end")
    except (StopIteration, pa.ArrowException, OSError, orjson.JSONDecodeError) as error:
        raise_shortage(error)
        raise FormatError(f"run of count rows: damaged, or it ends too early ({error or 'no end mark'})") from error


def _take_apart(tables: list[Any], block: CountRows) -> Iterator[Piece]:
    start = 0
    for key, num_rows in zip(tables[::2], tables[1::2], strict=True):
        yield key, block.slice(start, start + num_rows)
        start += num_rows
    if start != block.num_rows:
        raise FormatError(f"run of count rows: a block of {block.num_rows} rows has keys for {start}")


def _cut_into_blocks(pieces: Iterable[Piece]) -> Iterator[tuple[list[Any], CountRows]]:
    """(what its rows are of, rows) of each block: as large as those of runs without keys."""
    tables: list[Any] = []
    held: list[CountRows] = []
    left = pretoken_tables.BLOCK_ROWS, pretoken_tables.BLOCK_KEY_BYTES
    for key, rows in pieces:
        if len(tables) >= 2 * _MOST_KEYS and tables[-2] != key:
            yield tables, join_blocks(held)
            tables, held = [], []
            left = pretoken_tables.BLOCK_ROWS, pretoken_tables.BLOCK_KEY_BYTES
        start = 0
        while start < rows.num_rows:
            part = pretoken_tables.take_block(rows, start, *left)
            if tables and tables[-2] == key:
                tables[-1] += part.num_rows
            else:
                tables += key, part.num_rows
            held.append(part)
            start += part.num_rows
            left = left[0] - part.num_rows, left[1] - part.keys.size_bytes
            if min(left) <= 0:
                yield tables, join_blocks(held)
                tables, held = [], []
                left = pretoken_tables.BLOCK_ROWS, pretoken_tables.BLOCK_KEY_BYTES
    if held:
        yield tables, join_blocks(held)
