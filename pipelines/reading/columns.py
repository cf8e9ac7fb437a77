"""Parquet and Arrow: each row is a document. Reads only the columns it needs, and validates all that it uses.

The Arrow libraries trust their input: a forged offset or dictionary index makes them read past a buffer, and a stream
cut between two messages looks like a shorter stream. So every array is validated in full, and every file must have its
proper end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.reading import streams
from pipelines.reading.arrow_messages import read_batch_sizes
from pipelines.reading.fields import add_document
from pipelines.reading.list_texts import ListTexts, path_hint, text_leaves
from pipelines.reading.records import BATCH_BYTES, Batch, BatchBuilder, FileRejected, printable
from pipelines.reading.streams import read_to_end_first
from pipelines.store.storage import FileId, ReadFile, open_pinned
from schemas.field_path import EACH, Step, steps_of
from schemas.plan import ReadSettings

# Rows decoded at once. This bounds memory: a few stored bytes may repeat one long text in every row.
MAX_ROWS = 1 << 8
_IN_MEMORY_BYTES = 1 << 26
# Limit of the rows decoded at once, and of a row group's column, which may have MAX_RATIO times its stored size more.
_MAX_DECODED_BYTES = 1 << 28

_PARQUET_MAGIC = b"PAR1"
_ARROW_MAGIC = b"ARROW1"
_ARROW_STREAM_END_BYTES = 8

# What the libraries raise for bytes they cannot read; if the store failed, ReadFile.failure says so.
_DECODE_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, TypeError, OverflowError, MemoryError)


class _Rows(NamedTuple):
    """Some rows. A column is None if the file does not have it."""

    num_rows: int
    text: pa.Array | ListTexts | None
    id: pa.Array | None
    lang: pa.Array | None

    @property
    def size_bytes(self) -> int:
        columns = (self.text, self.id, self.lang)
        return self.num_rows + sum(int(column.nbytes) for column in columns if column is not None)


class _NotText:
    """Stands for a value that is neither text nor an integer."""


_NOT_TEXT = _NotText()


def read_columns(file: FileId, settings: ReadSettings) -> Iterator[Batch]:
    """The rows of a parquet or Arrow file, in batches. Raises FileRejected before the first batch if it is damaged."""

    def rows() -> Iterator[_Rows]:
        with open_pinned(file) as opened:
            try:
                yield from (_parquet_rows if settings.format == "parquet" else _arrow_rows)(opened, settings)
            except _DECODE_ERRORS as error:
                if opened.failure is not None:
                    raise opened.failure from error
                detail = f"{'parquet' if settings.format == 'parquet' else 'Arrow'} data that cannot be decoded"
                raise FileRejected("corrupt", detail) from error

    def limit_size() -> Iterator[_Rows]:
        limit = streams.FREE_BYTES + streams.MAX_RATIO * file.size_bytes
        size_bytes = 0
        for part in rows():
            size_bytes += part.size_bytes
            if size_bytes > limit:
                raise FileRejected("over_limit", f"more than {limit} bytes of columns from {file.size_bytes} stored")
            yield part

    builder = BatchBuilder(settings)
    for part in read_to_end_first(limit_size, lambda part: part.size_bytes):
        for start in range(0, part.num_rows, MAX_ROWS):
            num_rows = min(MAX_ROWS, part.num_rows - start)
            columns = [_values(column, start, num_rows) for column in (part.id, part.lang)]
            hint = _hint(part.text, settings.text)
            for text, document_id, lang in zip(_texts(part.text, start, num_rows, settings), *columns, strict=True):
                add_document(builder, settings, "column", text, document_id, lang, bad=hint)
                if builder.is_full:
                    yield builder.take()
    yield builder.take()


# ------------------------------------------------------------------------------------------------------------- formats


def _source(opened: ReadFile) -> Any:
    opened.seek(0)
    if opened.size() <= _IN_MEMORY_BYTES:
        return pa.BufferReader(opened.read())
    return pa.PythonFile(opened, mode="r")


def _require_magic(opened: ReadFile, magic: bytes, name: str) -> None:
    opened.seek(0)
    start = opened.read(len(magic))
    if start != magic[: len(start)]:
        raise FileRejected("corrupt", f"not {name}: it starts with {printable(start)}")
    opened.seek(max(0, opened.size() - len(magic)))
    if opened.size() < 2 * len(magic) or opened.read(len(magic)) != magic:
        raise FileRejected("truncated", f"{name} ends with {printable(magic)}; this one does not")


def _parquet_rows(opened: ReadFile, settings: ReadSettings) -> Iterator[_Rows]:
    _require_magic(opened, _PARQUET_MAGIC, "a parquet file")
    file = pq.ParquetFile(_source(opened), buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True)
    paths = _paths(file.schema_arrow, settings)
    leaves = text_leaves(file.schema, paths[0])
    if leaves:  # as dictionaries, or a few stored bytes could repeat a long text in every member of a list
        file = pq.ParquetFile(
            _source(opened),
            buffer_size=1 << 20,
            pre_buffer=False,
            page_checksum_verification=True,
            read_dictionary=leaves,
        )
    columns = sorted({".".join(_names(path)) for path in paths if path})
    num_rows = 0
    for group in range(file.num_row_groups):
        metadata = file.metadata.row_group(group)
        if not columns or not paths[0]:
            yield _Rows(metadata.num_rows, None, None, None)
            num_rows += metadata.num_rows
            continue
        per_row = metadata.total_byte_size // max(1, metadata.num_rows)
        longest = _longest_value(opened, metadata, columns)
        _require_bounded_lists(metadata, leaves)
        rows_at_once = max(1, min(MAX_ROWS, BATCH_BYTES // max(1, per_row), _MAX_DECODED_BYTES // longest))
        for batch in file.iter_batches(rows_at_once, row_groups=[group], columns=columns, use_threads=False):
            yield _Rows(batch.num_rows, *(_column(batch, path) for path in paths))
            num_rows += batch.num_rows
    if num_rows != file.metadata.num_rows:
        raise FileRejected("corrupt", f"{file.metadata.num_rows} rows promised, {num_rows} found")


def _longest_value(opened: ReadFile, group: Any, columns: list[str]) -> int:
    """An upper bound of the bytes that each row of a group can repeat: its columns' largest dictionary, at least 1.

    Raises FileRejected for a column that would unfold beyond the limit.
    """
    longest = 1
    for number in range(group.num_columns):
        chunk = group.column(number)
        if not any(chunk.path_in_schema == name or chunk.path_in_schema.startswith(f"{name}.") for name in columns):
            continue
        if chunk.total_uncompressed_size > _MAX_DECODED_BYTES + streams.MAX_RATIO * chunk.total_compressed_size:
            detail = f"a column of {chunk.total_uncompressed_size} bytes from {chunk.total_compressed_size} stored"
            raise FileRejected("over_limit", detail)
        if chunk.has_dictionary_page:
            opened.seek(chunk.dictionary_page_offset)
            size_bytes = _page_bytes(opened.read(_PAGE_HEADER_BYTES))
            if size_bytes > _MAX_DECODED_BYTES:
                raise FileRejected("over_limit", f"a dictionary of {size_bytes} bytes, more than {_MAX_DECODED_BYTES}")
            longest = max(longest, size_bytes)
    return longest


def _require_bounded_lists(group: Any, leaves: list[str]) -> None:
    """Raises FileRejected if lists have more members than their stored bytes are worth."""
    for number in range(group.num_columns):
        chunk = group.column(number)
        limit = (_MAX_DECODED_BYTES + streams.MAX_RATIO * chunk.total_compressed_size) // _MEMBER_BYTES
        if chunk.path_in_schema in leaves and chunk.num_values > limit:
            detail = f"a column of {chunk.num_values} members from {chunk.total_compressed_size} bytes stored"
            raise FileRejected("over_limit", detail)


_MEMBER_BYTES = 16  # of a member of a list, decoded as an index into a dictionary
_PAGE_HEADER_BYTES = 32


def _page_bytes(header: bytes) -> int:
    """The uncompressed size in a page's header: the second of its fields, which are 32-bit integers.

    In Thrift's compact protocol a field is a byte (0x15 for the next field, if it has 32 bits) and a zigzag varint.
    """
    at, value = 0, 0
    for _ in range(2):
        if header[at : at + 1] != b"\x15":
            raise ValueError("not the header of a page")
        at, value = at + 1, 0
        for shift in range(0, 35, 7):
            value |= (header[at] & 0x7F) << shift
            at += 1
            if not header[at - 1] & 0x80:
                break
    return (value >> 1) ^ -(value & 1)


def _arrow_rows(opened: ReadFile, settings: ReadSettings) -> Iterator[_Rows]:
    start = opened.read(len(_ARROW_MAGIC))
    if not start:
        raise FileRejected("truncated", "an Arrow file is never empty")
    is_file = _ARROW_MAGIC.startswith(start)
    if is_file:
        _require_magic(opened, _ARROW_MAGIC, "an Arrow file")
    open_reader = pa.ipc.open_file if is_file else pa.ipc.open_stream
    schema = open_reader(_source(opened)).schema
    paths = _paths(schema, settings)
    needed = sorted({schema.get_field_index(_names(path)[0]) for path in paths if path}) or [0] * (len(schema) > 0)
    for stored, unfolded in read_batch_sizes(opened, is_file):
        if unfolded > _MAX_DECODED_BYTES + streams.MAX_RATIO * stored:
            raise FileRejected("over_limit", f"a batch of {unfolded} bytes from {stored} stored")
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=needed)
    source = _source(opened)
    reader = open_reader(source, options=options)
    for batch in _file_batches(reader) if is_file else _stream_batches(reader, source, opened.size()):
        batch.validate()
        yield _Rows(batch.num_rows, *(_column(batch, path) for path in paths))


def _file_batches(reader: Any) -> Iterator[pa.RecordBatch]:
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)


def _stream_batches(reader: Any, source: Any, size_bytes: int) -> Iterator[pa.RecordBatch]:
    while True:
        position = source.tell()
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            break
        yield batch
    if source.tell() - position != _ARROW_STREAM_END_BYTES:
        raise FileRejected("truncated", "an Arrow stream ends with a mark; this one does not")
    if source.tell() != size_bytes:
        raise FileRejected("corrupt", f"{size_bytes - source.tell()} bytes follow the end of an Arrow stream")


# ------------------------------------------------------------------------------------------------------------- columns


def _paths(schema: pa.Schema, settings: ReadSettings) -> list[tuple[Step, ...]]:
    """The paths of text, id and language: steps from the top-level column inwards, () for a missing column."""
    return [_path(schema, name) for name in (settings.text, settings.id, settings.lang_field)]


def _names(path: tuple[Step, ...]) -> tuple[str, ...]:
    """The names before the first list of a path."""
    return tuple(step for step in path[: path.index(EACH) if EACH in path else None] if step is not EACH)


def _path(schema: pa.Schema, name: str) -> tuple[Step, ...]:
    if not name:
        return ()
    if schema.get_field_index(name) >= 0:
        return (name,)
    path = steps_of(name)
    if schema.get_field_index(path[0]) < 0:
        return ()
    kind = schema.field(path[0]).type
    for step in _names(path)[1:]:
        if not pa.types.is_struct(kind) or kind.get_field_index(step) < 0:
            return ()
        kind = kind.field(step).type
    return path


def _column(batch: pa.RecordBatch, path: tuple[Step, ...]) -> Any:
    """A column of a batch, validated; None if the path is empty, ListTexts if it leads into lists."""
    if not path:
        return None
    names = _names(path)
    array = batch.column(names[0])
    for step in names[1:]:
        array.validate()
        array = pc.struct_field(array, step)
    return _validate(array) if len(names) == len(path) else ListTexts(array, path[len(names) :], _validate)


def _hint(column: pa.Array | ListTexts | None, name: str) -> str:
    """How to name the texts in a column that holds none."""
    if not isinstance(column, pa.Array) or (hint := path_hint(column.type, name)) in ("", name):
        return ""
    return f'; texts are in it: write text = "{printable(hint.encode())}"'


def _texts(column: pa.Array | ListTexts | None, start: int, num_rows: int, settings: ReadSettings) -> Iterable[Any]:
    if isinstance(column, ListTexts):
        return column.texts(start, num_rows, _values, settings.max_document_bytes, _NOT_TEXT)
    return _values(column, start, num_rows)


def _validate(array: pa.Array) -> pa.Array:
    """The array, validated in full, strings as bytes: invalid UTF-8 is to cost a record, not the file."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        array.indices.validate(full=True)
        values = _validate(array.dictionary)
        if len(array) - array.null_count:
            bounds = pc.min_max(array.indices)
            if not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < len(values):
                raise ValueError("a dictionary index is out of range")
        return pa.DictionaryArray.from_arrays(array.indices, values, safe=False)
    as_bytes: dict[pa.DataType, pa.DataType] = {
        pa.string(): pa.binary(),
        pa.large_string(): pa.large_binary(),
        pa.string_view(): pa.binary_view(),
    }
    if kind in as_bytes:
        array = array.cast(as_bytes[kind])
    array.validate(full=True)
    return array.cast(pa.large_binary()) if array.type == pa.binary_view() else array


def _values(array: pa.Array | None, start: int, num_rows: int) -> list[Any]:
    """The values of some rows: bytes, int, None for null, _NOT_TEXT for anything else."""
    if array is None:
        return [None] * num_rows
    array = array.slice(start, num_rows)
    kind = array.type
    if pa.types.is_dictionary(kind):
        # Convert each value once, however many rows repeat it.
        used = pc.unique(array.indices)
        values = _values(array.dictionary.take(used), 0, len(used))
        by_index = dict(zip(used.to_pylist(), values, strict=True))
        return [by_index[index] for index in array.indices.to_pylist()]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _bytes(array)
    if pa.types.is_integer(kind):
        return list(array.to_pylist())
    return [_NOT_TEXT if is_valid else None for is_valid in array.is_valid().to_pylist()]


def _bytes(array: pa.Array) -> list[bytes | None]:
    width: Any = np.int32 if pa.types.is_binary(array.type) else np.int64
    validity, offset_buffer, data_buffer = array.buffers()
    if offset_buffer is None or not len(array):
        return [None if validity is not None else b""] * len(array)
    offsets = np.frombuffer(offset_buffer, width)[array.offset : array.offset + len(array) + 1].tolist()
    data = memoryview(data_buffer if data_buffer is not None else b"")
    texts: list[bytes | None] = [bytes(data[low:high]) for low, high in itertools.pairwise(offsets)]
    if array.null_count:
        return [text if ok else None for text, ok in zip(texts, array.is_valid().to_pylist(), strict=True)]
    return texts
