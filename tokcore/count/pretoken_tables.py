"""Tables of pre-token counts: their sums, their partitions, and the two files that hold them.

A run is what workers exchange: sorted rows as an Arrow IPC stream, quick to write and to read once. A count table is
what stays: the same rows as Parquet, which any tool can query. Rows are sorted by the bytes of the pre-token, so the
same counts give the same rows however they were gathered.
Leaves to others: how texts are counted (counting), where files are (pipelines), what weights are (mixing), what is
learned from rows (bpe), rows of several tables in one run (keyed_runs).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tokcore import kernel
from tokcore.count.pretoken_rows import CountRows, Counts
from tokcore.errors import FormatError, LearnError
from tokcore.files.arrow_files import Sink, Source
from tokcore.files.shortage import raise_shortage
from tokcore.text.texts import Texts, make_texts_from_arrow

# A block of rows, in runs and as a row group of tables: closed by the first row that reaches one of these.
BLOCK_ROWS = 65_536
BLOCK_KEY_BYTES = 16_777_216

_TABLE_SCHEMA = pa.schema(
    [
        pa.field("pretoken", pa.binary(), nullable=False),
        pa.field("count", pa.uint64(), nullable=False),
        pa.field("documents", pa.uint64(), nullable=False),
    ]
)
# In memory, keys have 64-bit offsets; Parquet has no such distinction.
ROWS_SCHEMA = _TABLE_SCHEMA.set(0, pa.field("pretoken", pa.large_binary(), nullable=False))
_MAX_ARRAY_BYTES = 2**31 - 1  # of an Arrow binary array


def merge_rows(runs: Sequence[Iterable[CountRows]], multipliers: Sequence[int] | None = None) -> Iterator[CountRows]:
    """The sum of sorted runs, in blocks; of each run at most one block is held at a time.

    multipliers: one per run, applied to counts, not to documents.
    Raises FormatError if a run is not sorted, LearnError if weighted counts pass 64 bits, OverflowError if others do.
    """
    iterators = [iter(run) for run in runs]
    merger = kernel.RowMerger(len(runs), multipliers)
    while True:
        for run in merger.hungry:
            rows = next(iterators[run], None)
            if rows is None:
                merger.finish(run)
            else:
                merger.feed(run, rows)
        try:
            merged = merger.merge(BLOCK_ROWS)
        except ValueError as error:
            raise FormatError(f"cannot merge count rows: {error}") from error
        except OverflowError as error:
            if multipliers is None:
                raise
            raise LearnError(f"weighted counts are too large: {error}. Use smaller weights.") from error
        if merged is None:
            return
        if merged.num_rows:
            yield merged


def assign_partitions(keys: Texts, num_partitions: int) -> npt.NDArray[np.int64]:
    """The partition, 0 <= p < num_partitions, of each key, by a hash that is the same everywhere and for good.

    num_partitions: a power of two.
    """
    if num_partitions < 1 or num_partitions & (num_partitions - 1) or num_partitions > 2**32:
        raise ValueError(f"num_partitions = {num_partitions}: must be a power of two, at most 2**32")
    return kernel.assign_partitions(keys, num_partitions)


def split_rows(rows: CountRows, num_partitions: int) -> list[CountRows]:
    """The rows of each partition, sorted as they were."""
    partitions = assign_partitions(rows.keys, num_partitions)
    if num_partitions == 1:
        return [rows]
    order = np.argsort(partitions, kind="stable")
    bounds = np.searchsorted(partitions[order], np.arange(num_partitions + 1))
    taken = make_batch_of_rows(rows).take(pa.array(order))
    return [
        make_rows_of_batch(batch)
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        for batch in [taken.slice(start, end - start)]
    ]


def convert_rows_to_table(rows: CountRows | Iterable[CountRows]) -> pa.Table:
    """Rows as an Arrow table: pretoken (binary, in chunks below 2 GiB), count, documents (uint64)."""
    blocks = [rows] if isinstance(rows, CountRows) else rows
    batches = [_make_binary_batch(part) for block in blocks for part in _split_at_2_gib(block)]
    return pa.Table.from_batches(batches, _TABLE_SCHEMA)


def convert_table_to_rows(table: pa.Table) -> CountRows:
    """The inverse of convert_rows_to_table, for a table that is sorted and has the same three columns."""
    pretokens, counts = read_counts_of_table(table)
    return CountRows(pretokens, counts, _read_uint64_column(table, "documents"))


def read_counts_of_table(table: pa.Table) -> tuple[Texts, Counts]:
    """The columns pretoken (binary or string) and count (non-negative integers) of a table.

    Raises FormatError if one is missing, of another type or has nulls, TypeError for what is no table.
    """
    if not isinstance(table, pa.Table | pa.RecordBatch):
        found = type(table).__name__
        raise TypeError(f"expected a pyarrow.Table, found {found}: pyarrow.parquet.read_table reads one from a file")
    if "pretoken" not in table.column_names:
        raise FormatError(f"a count table has a column pretoken; found {', '.join(table.column_names) or 'none'}")
    try:
        pretokens = make_texts_from_arrow(table.column("pretoken"))
    except (TypeError, ValueError) as error:
        raise FormatError(f"count table, column pretoken: {error}") from error
    return pretokens, _read_uint64_column(table, "count")


def read_documents_of_table(table: pa.Table) -> Counts:
    """The column documents of a table; of a pre-token that is in several rows, each gets the sum over them.

    Raises FormatError if it is missing, of another type or has nulls.
    """
    documents = _read_uint64_column(table, "documents")
    chunks = table.column("pretoken").dictionary_encode().chunks
    codes = np.concatenate([np.zeros(0, np.int32), *(chunk.indices.to_numpy() for chunk in chunks)])
    distinct = int(codes.max(initial=-1)) + 1
    if distinct == len(documents):
        return documents
    sums = [0] * distinct
    for code, number in zip(codes.tolist(), documents.tolist(), strict=True):
        sums[code] = min(sums[code] + number, 2**64 - 1)
    summed: Counts = np.array(sums, np.uint64)[codes]
    return summed


def write_run(file: Any, rows: Iterable[CountRows]) -> None:
    """Write sorted rows to an open binary file, in blocks. What is written depends on rows alone.

    An empty block at the end says that the run is whole.
    """
    # lz4 costs two thirds of the time of zstd 1, whose runs are half as large; figures in native/OPTIMIZATIONS.md.
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("lz4"), use_threads=False)
    with pa.ipc.new_stream(Sink(file), ROWS_SCHEMA, options=options) as writer:
        for block in _cut_into_blocks(rows):
            writer.write_batch(make_batch_of_rows(block))
        writer.write_batch(pa.RecordBatch.from_pylist([], ROWS_SCHEMA))


def read_run(file: Any) -> Iterator[CountRows]:
    """The blocks of a run, from where the open binary file stands; it is left at the end of the run.

    Raises FormatError if it is not a run or does not end properly.
    """
    try:
        with pa.ipc.open_stream(Source(file)) as reader:
            if reader.schema != ROWS_SCHEMA:
                raise FormatError(f"not a run of count rows: its columns are {reader.schema.names}")
            while (batch := reader.read_next_batch()).num_rows:
                yield make_rows_of_batch(batch)
            if next(iter(reader), None) is not None:
                raise FormatError("run of count rows: rows after its end")
    except (StopIteration, pa.ArrowException, OSError) as error:
        raise_shortage(error)
        raise FormatError(f"run of count rows: damaged, or it ends too early ({error or 'no end mark'})") from error


class TableTotals(NamedTuple):
    """What is in a count table: rows, sum of counts, bytes of keys, sha256 of its rows however stored."""

    num_rows: int
    num_pretokens: int
    key_bytes: int
    content_sha256: str


def write_table(file: Any, rows: Iterable[CountRows]) -> TableTotals:
    """Write sorted rows as a Parquet count table; row groups and bytes depend on the rows and the library alone.

    content_sha256 is over kernel.pack_rows, so it does not depend on the library either.
    """
    summed = _Sums()
    _write_blocks(file, map(summed.add, _cut_into_blocks(rows)))
    return summed.get()


def write_part(file: Any, rows: Iterable[CountRows]) -> int:
    """Write sorted rows as a part of a count table, a Parquet file as write_table writes one; how many there are."""
    num_rows = 0

    def count(block: CountRows) -> CountRows:
        nonlocal num_rows
        num_rows += block.num_rows
        return block

    _write_blocks(file, map(count, _cut_into_blocks(rows)))
    return num_rows


def _write_blocks(file: Any, blocks: Iterable[CountRows]) -> None:
    with pq.ParquetWriter(
        Sink(file),
        _TABLE_SCHEMA,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        store_schema=False,
    ) as writer:
        for block in blocks:
            writer.write_table(convert_rows_to_table(block), row_group_size=block.num_rows)


class _Sums:
    """What TableTotals says, of the blocks so far."""

    def __init__(self) -> None:
        self._num_rows = self._num_pretokens = self._key_bytes = 0
        self._content = hashlib.sha256()

    def add(self, block: CountRows) -> CountRows:
        self._num_rows += block.num_rows
        self._num_pretokens += _sum(block.counts)
        self._key_bytes += block.keys.size_bytes
        self._content.update(kernel.pack_rows(block))
        return block

    def get(self) -> TableTotals:
        return TableTotals(self._num_rows, self._num_pretokens, self._key_bytes, self._content.hexdigest())


def read_table(file: Any) -> Iterator[CountRows]:
    """The rows of a count table, a block per row group. file: a path, or an open file that can seek.

    Raises FormatError if it is not one.
    """
    try:
        with pq.ParquetFile(file) as parquet:
            if parquet.schema_arrow.names != _TABLE_SCHEMA.names:
                raise FormatError(f"not a count table: its columns are {parquet.schema_arrow.names}")
            for group in range(parquet.num_row_groups):
                yield convert_table_to_rows(parquet.read_row_group(group, use_threads=False))
    except pa.ArrowException as error:
        raise_shortage(error)
        raise FormatError(f"not a count table: {error}") from error


def join_parts(parts: Iterable[tuple[str, Iterable[CountRows]]]) -> Iterator[CountRows]:
    """The rows of a count table that lies in several files, one after another. parts: (name, rows), in order.

    Raises FormatError, with its name, for a part that does not begin behind the last row of the one before.
    """
    last = b""
    for number, (name, rows) in enumerate(parts):
        is_first = True
        for block in rows:
            if is_first and number and block.num_rows and block.keys.text(0) <= last:
                raise FormatError(f"{name}: begins before the end of the part before it")
            if block.num_rows:
                last, is_first = block.keys.text(block.num_rows - 1), False
            yield block


def cut_rows(rows: Iterable[CountRows], numbers: Iterable[int]) -> Iterator[Iterator[CountRows]]:
    """So many rows for each number, and fewer once there are no more. Each is to be read before the next.

    >>> from tokcore.count.pretoken_rows import list_rows, make_rows
    >>> rows = make_rows([(b"a", 1, 1), (b"b", 2, 1), (b"c", 1, 1)])
    >>> [[list_rows(block) for block in own] for own in cut_rows([rows], [1, 2])]
    [[[(b'a', 1, 1)]], [[(b'b', 2, 1), (b'c', 1, 1)]]]
    """
    blocks = iter(rows)
    left: list[CountRows] = []

    def take(wanted: int) -> Iterator[CountRows]:
        while wanted and (block := left.pop() if left else next(blocks, None)) is not None:
            if block.num_rows > wanted:
                left.append(block.slice(wanted, block.num_rows))
                block = block.slice(0, wanted)
            wanted -= block.num_rows
            yield block

    return (take(number) for number in numbers)


def sum_up_table(rows: Iterable[CountRows]) -> TableTotals:
    """What a count table of these rows holds, as write_table says when it writes them."""
    summed = _Sums()
    for block in rows:
        summed.add(block)
    return summed.get()


def _cut_into_blocks(rows: Iterable[CountRows]) -> Iterator[CountRows]:
    """The same rows in blocks as BLOCK_ROWS and BLOCK_KEY_BYTES say, however they came."""
    held: list[CountRows] = []
    num_rows, key_bytes = BLOCK_ROWS, BLOCK_KEY_BYTES  # that are left
    for block in rows:
        start = 0
        while start < block.num_rows:
            held.append(take_block(block, start, num_rows, key_bytes))
            start += held[-1].num_rows
            num_rows -= held[-1].num_rows
            key_bytes -= held[-1].keys.size_bytes
            if min(num_rows, key_bytes) <= 0:
                yield join_blocks(held)
                held = []
                num_rows, key_bytes = BLOCK_ROWS, BLOCK_KEY_BYTES
    if held:
        yield join_blocks(held)


def take_block(rows: CountRows, start: int, num_rows: int, key_bytes: int) -> CountRows:
    """The rows from start up to the first that reaches one of these, or to the end. Not copied."""
    offsets = rows.keys.offsets
    by_bytes = int(np.searchsorted(offsets, offsets[start] + key_bytes))
    return rows.slice(start, min(rows.num_rows, start + num_rows, max(by_bytes, start + 1)))


def join_blocks(blocks: Sequence[CountRows]) -> CountRows:
    """The rows of several blocks, in order, as one."""
    if len(blocks) == 1:
        return blocks[0]
    data = np.concatenate([block.keys.data[block.keys.offsets[0] : block.keys.offsets[-1]] for block in blocks])
    offsets = np.zeros(sum(block.num_rows for block in blocks) + 1, np.int64)
    np.cumsum(np.concatenate([np.diff(block.keys.offsets) for block in blocks]), out=offsets[1:])
    counts = np.concatenate([block.counts for block in blocks])
    return CountRows(Texts(data, offsets), counts, np.concatenate([block.documents for block in blocks]))


def _split_at_2_gib(rows: CountRows) -> Iterator[CountRows]:
    """The rows in parts whose keys fit one Arrow binary array."""
    offsets = rows.keys.offsets
    start = 0
    while start < rows.num_rows:
        end = int(np.searchsorted(offsets, offsets[start] + _MAX_ARRAY_BYTES, side="right")) - 1
        if end == start:
            size = offsets[start + 1] - offsets[start]
            raise FormatError(f"a pre-token of {size} bytes does not fit an Arrow binary array")
        yield rows.slice(start, end)
        start = end


def _make_binary_batch(rows: CountRows) -> pa.RecordBatch:
    start, end = int(rows.keys.offsets[0]), int(rows.keys.offsets[-1])
    offsets = np.subtract(rows.keys.offsets, start, dtype=np.int32, casting="unsafe")  # below 2 GiB
    return _make_batch(pa.binary(), offsets, rows.keys.data[start:end], rows, _TABLE_SCHEMA)


def make_batch_of_rows(rows: CountRows) -> pa.RecordBatch:
    """Rows as an Arrow batch of ROWS_SCHEMA. Keys and columns that are contiguous are not copied."""
    start, end = int(rows.keys.offsets[0]), int(rows.keys.offsets[-1])
    return _make_batch(pa.large_binary(), rows.keys.offsets - start, rows.keys.data[start:end], rows, ROWS_SCHEMA)


def _make_batch(
    kind: pa.DataType, offsets: npt.NDArray[Any], data: npt.NDArray[np.uint8], rows: CountRows, schema: pa.Schema
) -> pa.RecordBatch:
    # Not pa.array, whose first call looks for pandas, for 20 ms.
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    keys = pa.Array.from_buffers(kind, rows.num_rows, buffers)
    counts, documents = (
        pa.Array.from_buffers(pa.uint64(), rows.num_rows, [None, pa.py_buffer(np.ascontiguousarray(values, np.uint64))])
        for values in (rows.counts, rows.documents)
    )
    return pa.RecordBatch.from_arrays([keys, counts, documents], schema=schema)


def make_rows_of_batch(batch: pa.RecordBatch) -> CountRows:
    """The inverse of make_batch_of_rows."""
    counts, documents = (batch.column(i).to_numpy() for i in (1, 2))
    return CountRows(make_texts_from_arrow(batch.column(0)), counts, documents)


def _read_uint64_column(table: pa.Table, name: str) -> Counts:
    if name not in table.column_names:
        raise FormatError(f"a count table has a column {name}; found {', '.join(table.column_names)}")
    column = table.column(name)
    if not pa.types.is_integer(column.type) or column.null_count:
        raise FormatError(f"count table, column {name}: expected integers without nulls, found {column.type}")
    if column.type != pa.uint64():  # a cast imports pyarrow.compute, which takes longer than it
        try:
            column = column.cast(pa.uint64())
        except pa.ArrowInvalid as error:
            raise FormatError(f"count table, column {name}: {error}") from error
    values: Counts = column.to_numpy()
    return values


def _sum(counts: Counts) -> int:
    """The sum as a Python integer: uint64 would wrap."""
    low, high = counts & np.uint64(0xFFFFFFFF), counts >> np.uint64(32)
    return int(low.sum()) + (int(high.sum()) << 32)
