"""Counts of token ids: of each id its occurrences, documents, the largest count in one document, and the source that
emits it most.

A source's occurrences must be summed up before they can be compared with another's, and a source may come in pieces, of
which each worker sees some: IdCounts keeps a source's own counts until all of its pieces have been added up, and only
the largest afterwards. Addition is associative and commutative. Leaves to others: counting (kernel.IdCounter) and where
files are (pipelines).
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tokcore.arrow_files import Sink, Source
from tokcore.errors import FormatError
from tokcore.kernel import IdCounter, IdRows, Ids
from tokcore.pretoken_rows import Counts
from tokcore.texts import Offsets

NO_SOURCE = 2**62  # behind every number of a source, so that any source comes before none

_CONTENT_PREFIX = b"tokcore-token-counts-v1"
_TOTALS = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        *(pa.field(name, pa.uint64(), nullable=False) for name in ("count", "documents", "max_in_document")),
        pa.field("top_source", pa.int64(), nullable=False),
        pa.field("top_source_count", pa.uint64(), nullable=False),
    ]
)
_OPEN = pa.schema(
    [
        pa.field("source", pa.int64(), nullable=False),
        pa.field("covered_bytes", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("ids", pa.large_list(pa.field("item", pa.int32(), nullable=False)), nullable=False),
        pa.field("counts", pa.large_list(pa.field("item", pa.uint64(), nullable=False)), nullable=False),
    ]
)
TABLE_SCHEMA = _TOTALS.set(4, pa.field("top_source", pa.string(), nullable=False))


@dataclasses.dataclass(frozen=True, slots=True)
class OpenSource:
    """A source of which pieces may be missing: how many of its bytes were read, and how often each id occurs there."""

    covered_bytes: int
    size_bytes: int  # of the whole source
    ids: Ids  # int32[m], ascending
    counts: Counts  # uint64[m]


@dataclasses.dataclass(frozen=True, slots=True)
class IdCounts:
    """Columns, by id ascending, of the ids that occur, and the sources that are not whole yet.

    top_source, top_source_count: the source that has the id most, of those that are whole; of equal ones the smallest
    number; NO_SOURCE and 0 if there is none.
    """

    ids: Ids  # int32[n]
    counts: Counts  # uint64[n]
    documents: Counts  # uint64[n]
    max_in_document: Counts  # uint64[n]
    top_source: Offsets  # int64[n]
    top_source_count: Counts  # uint64[n]
    open: Mapping[int, OpenSource]


def id_counts(source: int, rows: IdRows) -> IdCounts:
    """The counts of documents of one source, of which more may come."""
    top = np.full(len(rows.ids), NO_SOURCE, np.int64)
    open_source = OpenSource(0, -1, rows.ids, rows.counts)
    return IdCounts(*rows, top, np.zeros(len(rows.ids), np.uint64), {source: open_source})


class SourceCounter:
    """Counts the token ids of documents that come source by source."""

    def __init__(self) -> None:
        self._counter = IdCounter()
        self._source = NO_SOURCE
        self._done: list[IdCounts] = []

    def add(self, source: int, ids: Ids, offsets: Offsets) -> None:
        """Count documents of one source; document i is ids[offsets[i]:offsets[i + 1]]."""
        if source != self._source:
            self._flush()
            self._source = source
        self._counter.add(ids, offsets)

    def take(self) -> IdCounts:
        """The sum of what was added since the last take; no source is whole."""
        self._flush()
        done, self._done = self._done, []
        return add_up([covered(NO_SOURCE, 0, 0), *done])

    def _flush(self) -> None:
        if len((rows := self._counter.take()).ids):
            self._done.append(id_counts(self._source, rows))


def covered(source: int, covered_bytes: int, size_bytes: int) -> IdCounts:
    """The statement that so many of a source's bytes were read: to be added in one sum with the counts of what they
    held, or after them, since a source that is whole is closed.
    """
    ids, none = np.zeros(0, np.int32), np.zeros(0, np.uint64)
    open_source = OpenSource(covered_bytes, size_bytes, ids, none)
    return IdCounts(ids, none, none, none, np.zeros(0, np.int64), none, {source: open_source})


def add_up(parts: Sequence[IdCounts]) -> IdCounts:
    """The sum. A source all of whose bytes are covered is compared with the others and no longer kept.

    Raises FormatError if more bytes of a source are covered than it has.
    """
    pieces: dict[int, list[OpenSource]] = {}
    for part in parts:
        for source, piece in part.open.items():
            pieces.setdefault(source, []).append(piece)
    still_open: dict[int, OpenSource] = {}
    whole: dict[int, tuple[Ids, Counts]] = {}
    for source, some in pieces.items():
        covered_bytes = sum(piece.covered_bytes for piece in some)
        size_bytes = max(piece.size_bytes for piece in some)
        if 0 <= size_bytes < covered_bytes:
            raise FormatError(f"source {source} has {size_bytes} bytes, and {covered_bytes} were read")
        ids, counts = _summed([(piece.ids, piece.counts) for piece in some])
        if covered_bytes == size_bytes:
            whole[source] = ids, counts
        else:
            still_open[source] = OpenSource(covered_bytes, size_bytes, ids, counts)
    ids, places = _united([*(part.ids for part in parts), *(of_source for of_source, _ in whole.values())])
    counts, documents, max_in_document, top_source_count = (np.zeros(len(ids), np.uint64) for _ in range(4))
    top_source = np.full(len(ids), NO_SOURCE, np.int64)

    def keep_top(at: Offsets, sources: Offsets | int, source_counts: Counts) -> None:
        """Of equal counts that of the smallest number."""
        best, best_count = top_source[at], top_source_count[at]
        is_better = (source_counts > best_count) | ((source_counts == best_count) & (sources < best))
        top_source[at] = np.where(is_better, sources, best)
        top_source_count[at] = np.where(is_better, source_counts, best_count)

    for part, at in zip(parts, places[: len(parts)], strict=True):
        counts[at] += part.counts
        documents[at] += part.documents
        max_in_document[at] = np.maximum(max_in_document[at], part.max_in_document)
        if part.top_source_count.any():
            keep_top(at, part.top_source, part.top_source_count)
    for (source, (_, source_counts)), at in zip(whole.items(), places[len(parts) :], strict=True):
        keep_top(at, source, source_counts)
    return IdCounts(ids, counts, documents, max_in_document, top_source, top_source_count, still_open)


_COLUMNS = ("ids", "counts", "documents", "max_in_document", "top_source", "top_source_count")
_MAX_DENSE = 1 << 22


def _summed(parts: Sequence[tuple[Ids, Counts]]) -> tuple[Ids, Counts]:
    filled = [part for part in parts if len(part[0])]
    if len(filled) < 2:
        return filled[0] if filled else parts[0]
    ids, places = _united([of_part for of_part, _ in filled])
    counts = np.zeros(len(ids), np.uint64)
    for (_, more), at in zip(filled, places, strict=True):
        counts[at] += more
    return ids, counts


def _united(lists: Sequence[Ids]) -> tuple[Ids, list[Offsets]]:
    """The ids of ascending lists, ascending and each once, and of each list the places of its ids there."""
    size = max((int(ids[-1]) + 1 for ids in lists if len(ids)), default=0)
    if size > _MAX_DENSE:
        united = np.unique(np.concatenate(lists))
        return united, [np.searchsorted(united, ids) for ids in lists]
    # Vocabularies are dense: a place for every id is a tenth of the work of sorting those of all lists.
    occurs = np.zeros(size, bool)
    for ids in lists:
        occurs[ids] = True
    ranks = np.cumsum(occurs, dtype=np.int64) - 1
    return np.flatnonzero(occurs).astype(np.int32), [ranks[ids] for ids in lists]


def write_id_counts(file: Any, counts: IdCounts) -> int:
    """Write to an open binary file what read_id_counts reads; returns the number of ids."""
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("lz4"), use_threads=False)
    with pa.ipc.new_stream(Sink(file), _TOTALS, options=options) as writer:
        columns = [pa.array(getattr(counts, name)) for name in _COLUMNS]
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_TOTALS))
    sources = sorted(counts.open)
    opened = [counts.open[source] for source in sources]
    with pa.ipc.new_stream(Sink(file), _OPEN, options=options) as writer:
        starts = pa.array(np.cumsum([0, *(len(one.ids) for one in opened)]), pa.int64())
        lists = [
            pa.LargeListArray.from_arrays(
                starts, pa.array(np.concatenate([np.zeros(0, kind), *values])), type=field.type
            )
            for field, kind, values in (
                (_OPEN.field("ids"), np.int32, [one.ids for one in opened]),
                (_OPEN.field("counts"), np.uint64, [one.counts for one in opened]),
            )
        ]
        numbers = [
            pa.array(column, pa.int64())
            for column in (sources, [one.covered_bytes for one in opened], [one.size_bytes for one in opened])
        ]
        writer.write_batch(pa.RecordBatch.from_arrays([*numbers, *lists], schema=_OPEN))
    return len(counts.ids)


def read_id_counts(file: Any) -> IdCounts:
    """What write_id_counts wrote, from where an open binary file stands. Raises FormatError if it is something else."""
    totals, opened = _only_batch(file, _TOTALS), _only_batch(file, _OPEN)
    sources, covered_bytes, sizes = (opened.column(i).to_pylist() for i in range(3))
    starts = opened.column(3).offsets.to_numpy()
    ids, counts = opened.column(3).values.to_numpy(), opened.column(4).values.to_numpy()
    within = [slice(start, end) for start, end in itertools.pairwise(starts.tolist())]
    pieces = {
        source: OpenSource(covered_bytes[i], sizes[i], ids[within[i]], counts[within[i]])
        for i, source in enumerate(sources)
    }
    columns = {name: column.to_numpy() for name, column in zip(_COLUMNS, totals.columns, strict=True)}
    return IdCounts(**columns, open=pieces)


def _only_batch(file: Any, schema: pa.Schema) -> pa.RecordBatch:
    try:
        with pa.ipc.open_stream(Source(file)) as reader:
            if reader.schema != schema:
                raise FormatError(f"not counts of token ids: the columns are {reader.schema.names}")
            (batch,) = reader
            return batch
    except (ValueError, pa.ArrowException, OSError) as error:
        raise FormatError(f"counts of token ids: damaged, or they end too early ({error})") from error


def token_counts_table(counts: IdCounts, names: Sequence[str]) -> pa.Table:
    """A build's table of ids, of TABLE_SCHEMA. names: of sources, by number. Raises FormatError if one is not whole."""
    if counts.open:
        raise FormatError(f"counts of token ids: {len(counts.open)} sources were not read to their end")
    columns = [pa.array(getattr(counts, name)) for name in _COLUMNS]
    columns[4] = pa.array([names[source] for source in counts.top_source.tolist()], pa.string())
    return pa.Table.from_arrays(columns, schema=TABLE_SCHEMA)


def content_of(table: pa.Table) -> str:
    """sha256 of "tokcore-token-counts-v1" and of the sha256 of each column: integers little-endian, of each name its
    UTF-8 behind its length as uint32. The same however the table is stored."""
    digests = []
    for column in table.columns:
        if pa.types.is_string(column.type):
            names = column.to_pylist()
            framed = {name: struct.pack("<I", len(name.encode())) + name.encode() for name in set(names)}
            stream = b"".join(map(framed.__getitem__, names))
        else:
            values = column.to_numpy()
            stream = values.astype(values.dtype.newbyteorder("<")).tobytes()
        digests.append(hashlib.sha256(stream).digest())
    return hashlib.sha256(_CONTENT_PREFIX + b"".join(digests)).hexdigest()


def write_token_counts(file: Any, table: pa.Table) -> None:
    """Write a build's table of ids to an open binary file, as Parquet."""
    options = {"compression": "zstd", "compression_level": 1, "store_schema": False, "use_dictionary": ["top_source"]}
    with pq.ParquetWriter(Sink(file), TABLE_SCHEMA, **options) as writer:
        writer.write_table(table)


def read_token_counts(file: Any) -> pa.Table:
    """A build's table of ids: id (int32), count, documents, max_in_document (uint64), top_source (string),
    top_source_count (uint64); by id ascending, only ids that occur. Raises FormatError if it is not one.
    """
    try:
        table = pq.read_table(file, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"not a table of token counts: {error}") from error
    if table.schema.names != TABLE_SCHEMA.names or table.schema.types != TABLE_SCHEMA.types:
        raise FormatError(f"not a table of token counts: its columns are {table.schema.names}")
    return table
