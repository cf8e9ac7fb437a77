"""Counts of token ids: of each id its occurrences, its documents, and the largest count in one document.

Rows are kernel.IdRows. Addition is associative and commutative, so the sum does not depend on how documents were dealt
into shards and work items. Leaves to others: counting (kernel.IdCounter) and where files are (pipelines).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tokcore.errors import FormatError
from tokcore.files.arrow_files import Sink, Source
from tokcore.files.shortage import raise_shortage
from tokcore.kernel import IdRows, Ids
from tokcore.text.texts import Offsets

TABLE_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        *(pa.field(name, pa.uint64(), nullable=False) for name in ("count", "documents", "max_in_document")),
    ]
)

RARE = 10  # of ids that occur so often or less nothing is said
_CONTENT_PREFIX = b"tokcore-token-counts-v2"
_MAX_DENSE = 1 << 22


def add_up(parts: Sequence[IdRows]) -> IdRows:
    """The rows of all documents of the parts together."""
    ids, places = _unite([part.ids for part in parts])
    counts, documents, max_in_document = (np.zeros(len(ids), np.uint64) for _ in range(3))
    for part, at in zip(parts, places, strict=True):
        counts[at] += part.counts
        documents[at] += part.documents
        max_in_document[at] = np.maximum(max_in_document[at], part.max_in_document)
    return IdRows(ids, counts, documents, max_in_document)


def find_of_one_document(rows: IdRows, rare: int = RARE) -> Ids:
    """The ids that occur more than rare times, and more often in one document than in all others together."""
    of_one = (rows.counts > rare) & (rows.max_in_document > rows.counts - rows.max_in_document)
    return rows.ids[of_one]


def _unite(lists: Sequence[Ids]) -> tuple[Ids, list[Offsets]]:
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


def write_id_rows(file: Any, rows: IdRows) -> None:
    """Write to an open binary file what read_id_rows reads."""
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("lz4"), use_threads=False)
    with pa.ipc.new_stream(Sink(file), TABLE_SCHEMA, options=options) as writer:
        writer.write_batch(_make_batch(rows))


def read_id_rows(file: Any) -> IdRows:
    """What write_id_rows wrote, from where an open binary file stands. Raises FormatError if it is something else."""
    try:
        with pa.ipc.open_stream(Source(file)) as reader:
            if reader.schema != TABLE_SCHEMA:
                raise FormatError(f"not counts of token ids: the columns are {reader.schema.names}")
            (batch,) = reader
    except (ValueError, pa.ArrowException, OSError) as error:
        raise_shortage(error)
        raise FormatError(f"counts of token ids: damaged, or they end too early ({error})") from error
    return IdRows(*(column.to_numpy() for column in batch.columns))


def make_table(rows: IdRows) -> pa.Table:
    """The rows as a table of TABLE_SCHEMA."""
    return pa.Table.from_batches([_make_batch(rows)])


def hash_content(table: pa.Table) -> str:
    """sha256 of "tokcore-token-counts-v2" and of the sha256 of each column, integers little-endian.

    The same however the table is stored.
    """
    digests = []
    for column in table.columns:
        values = column.to_numpy()
        digests.append(hashlib.sha256(values.astype(values.dtype.newbyteorder("<")).tobytes()).digest())
    return hashlib.sha256(_CONTENT_PREFIX + b"".join(digests)).hexdigest()


def write_id_table(file: Any, table: pa.Table) -> None:
    """Write a build's table of ids to an open binary file, as Parquet."""
    options = {"compression": "zstd", "compression_level": 1, "store_schema": False, "use_dictionary": False}
    with pq.ParquetWriter(Sink(file), TABLE_SCHEMA, **options) as writer:
        writer.write_table(table)


def read_id_table(file: Any) -> pa.Table:
    """A build's table of ids: id (int32), count, documents, max_in_document (uint64); by id ascending, ids that occur.

    Raises FormatError if it is not one.
    """
    try:
        table = pq.read_table(file, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise_shortage(error)
        raise FormatError(f"not a table of token counts: {error}") from error
    if table.schema.names != TABLE_SCHEMA.names or table.schema.types != TABLE_SCHEMA.types:
        raise FormatError(f"not a table of token counts: its columns are {table.schema.names}")
    return table


def _make_batch(rows: IdRows) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(column) for column in rows], schema=TABLE_SCHEMA)
