"""Parquet and Arrow: each row is a document. Reads only the columns it needs, and validates all that it uses.

The Arrow libraries trust their input: a forged offset or dictionary index makes them read past a buffer, and a stream
cut between two messages looks like a shorter stream. So every array is validated in full, and every file must have its
proper end. Some files end the process all the same, so this runs in a process of its own: see column_reader.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tokcore_pipelines.reading.arrow_messages import read_batch_sizes
from tokcore_pipelines.reading.column_ids import extract_fields, extract_ids, validate_ids
from tokcore_pipelines.reading.fields import NoText, add_document, fill
from tokcore_pipelines.reading.limits import FREE_BYTES, MAX_RATIO, read_to_end_first
from tokcore_pipelines.reading.list_texts import ListTexts, find_text_leaves, suggest_path
from tokcore_pipelines.reading.parquet_layout import RowGroup, find_groups, read_row_groups, require_bounded
from tokcore_pipelines.reading.records import BATCH_BYTES, Batch, BatchBuilder, FileRejected, make_printable
from tokcore_pipelines.reading.row_file import MAX_DECODED_BYTES, RowFile, require_magic
from tokcore_schemas.field_path import EACH, JOINER, Step, parse_steps
from tokcore_schemas.field_template import is_template, list_paths, parse_template
from tokcore_schemas.plan import ReadSettings

# Rows decoded at once. This bounds memory: a few stored bytes may repeat one long text in every row.
MAX_ROWS = 1 << 8

_ARROW_MAGIC = b"ARROW1"
_ARROW_STREAM_END_BYTES = 8

# What the libraries raise for bytes they cannot read.
_DECODE_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, TypeError, OverflowError)


class _Rows(NamedTuple):
    """Some rows. A column is None if the file does not have it."""

    num_rows: int
    columns: tuple[pa.Array | ListTexts | None, ...]  # as _list_wanted() names them
    twice: str = ""  # which of them the file has more than once, so that nothing tells which is meant

    @property
    def size_bytes(self) -> int:
        return self.num_rows + sum(int(column.nbytes) for column in self.columns if column is not None)


class _Wanted(NamedTuple):
    """A field that rows are asked for."""

    name: str  # or a path
    use: Literal["text", "name", "lang", "value"]  # a name is an id, a group or a part of a template
    joiner: str = JOINER


@functools.lru_cache(maxsize=64)
def _list_wanted(settings: ReadSettings) -> tuple[_Wanted, ...]:
    """The fields of the text, those of the id, the language and the group, then those of filters."""
    wanted = []
    for use, setting in _list_named(settings):
        parts = parse_template(setting).parts if setting else ()
        wanted += [_Wanted(part.name, "name" if is_template(setting) else use, part.joiner) for part in parts]
    return (*wanted, *(_Wanted(field.name, "value") for field in settings.fields))


def _list_named(settings: ReadSettings) -> tuple[tuple[Literal["text", "name", "lang"], str], ...]:
    return ("text", settings.text), ("name", settings.id), ("lang", settings.lang_field), ("name", settings.group)


def decode_columns(file: RowFile, settings: ReadSettings, start: int = 0, end: int = 0) -> Iterator[Batch]:
    """The rows of a parquet or Arrow file, in batches. Raises FileRejected before the first batch if it is damaged.

    start, end: as for read_columns; of some rows FileRejected may come after any batch.
    """
    name = "parquet" if settings.format == "parquet" else "Arrow"

    def rows() -> Iterator[_Rows]:
        limit = FREE_BYTES + MAX_RATIO * file.size_bytes
        size_bytes = 0
        try:
            if settings.format == "parquet":
                parts = _read_parquet_rows(file, settings, start, end)
            else:
                parts = _read_arrow_rows(file, settings)
            for part in parts:
                size_bytes += part.size_bytes
                if size_bytes > limit:
                    detail = f"more than {limit} bytes of columns from {file.size_bytes} stored"
                    raise FileRejected("over_limit", detail)
                yield part
        except MemoryError:  # says nothing about the bytes; some of the library's are ArrowExceptions, too
            raise
        except _DECODE_ERRORS as error:
            raise FileRejected("corrupt", f"{name} data that cannot be decoded") from error

    builder = BatchBuilder(settings)
    wanted = _list_wanted(settings)
    for part in rows() if end else read_to_end_first(rows, lambda part: part.size_bytes):
        for first in range(0, part.num_rows, MAX_ROWS):
            num_rows = min(MAX_ROWS, part.num_rows - first)
            columns = [
                _extract(one, column, first, num_rows, settings)
                for one, column in zip(wanted, part.columns, strict=True)
            ]
            hint = "" if is_template(settings.text) else _suggest(part.columns[0], settings.text)
            for row in zip(*columns, strict=True):
                text, document_id, lang, group, *values = _fill_row(settings, row)
                add_document(builder, settings, "column", text, document_id, lang, part.twice, hint, group, values)
                if builder.is_full:
                    yield builder.take()
    yield builder.take()


def _fill_row(settings: ReadSettings, row: tuple[Any, ...]) -> list[Any]:
    """Text, id, language, group, and the values of filters' fields, from the values of _list_wanted()."""
    filled, at = [], 0
    for _, setting in _list_named(settings):
        num = len(list_paths(setting))
        filled.append(fill(setting, row[at : at + num]) if setting else None)
        at += num
    return [*filled, *row[at:]]


# ------------------------------------------------------------------------------------------------------------- formats


def _read_parquet_rows(file: RowFile, settings: ReadSettings, start: int, end: int) -> Iterator[_Rows]:
    groups = read_row_groups(file)
    numbers = [*range(len(groups))] if not end else find_groups([group.num_rows for group in groups], start, end)
    library = _open_parquet(file, [])
    if library.num_row_groups != len(groups):
        raise ValueError("another number of row groups for the library")
    paths, twice = _find_paths(library.schema_arrow, settings), _describe_twice(library.schema_arrow, settings)
    leaves = [leaf for path in paths for leaf in find_text_leaves(library.schema, path)]
    has_text = any(path for path in paths[: len(list_paths(settings.text))])
    if leaves:  # as dictionaries, or a few stored bytes could repeat a long text in every member of a list
        library = _open_parquet(file, leaves)
    columns = sorted({".".join(_list_names(path)) for path in paths if path})
    num_rows = 0
    for number in numbers:
        group = groups[number]
        if not columns or not has_text:
            yield _Rows(group.num_rows, (None,) * len(paths), twice)
            num_rows += group.num_rows
            continue
        rows_at_once = _count_rows_at_once(file, group, columns)
        _require_bounded_lists(group, leaves)
        for batch in library.iter_batches(rows_at_once, row_groups=[number], columns=columns, use_threads=False):
            yield _Rows(batch.num_rows, _find_columns(batch, paths, settings), twice)
            num_rows += batch.num_rows
    promised = sum(groups[number].num_rows for number in numbers)
    if num_rows != promised:
        raise FileRejected("corrupt", f"{promised} rows promised, {num_rows} found")


def _count_rows_at_once(file: RowFile, group: RowGroup, columns: list[str]) -> int:
    """How many rows of a group to decode at once: each may repeat the largest entry of a dictionary."""
    longest = 1
    for column in group.columns:
        if any(column.path == name or column.path.startswith(f"{name}.") for name in columns):
            longest = max(longest, require_bounded(file, column))
    per_row = group.unfolded_bytes // max(1, group.num_rows)
    return max(1, min(MAX_ROWS, BATCH_BYTES // max(1, per_row), MAX_DECODED_BYTES // longest))


def _require_bounded_lists(group: RowGroup, leaves: list[str]) -> None:
    """Raises FileRejected if lists have more members than their stored bytes are worth."""
    for column in group.columns:
        limit = (MAX_DECODED_BYTES + MAX_RATIO * column.stored_bytes) // _MEMBER_BYTES
        if column.path in leaves and column.num_values > limit:
            detail = f"a column of {column.num_values} members from {column.stored_bytes} bytes stored"
            raise FileRejected("over_limit", detail)


_MEMBER_BYTES = 16  # of a member of a list, decoded as an index into a dictionary


def _open_parquet(file: RowFile, as_dictionaries: list[str]) -> pq.ParquetFile:
    return pq.ParquetFile(
        file.source(),
        buffer_size=1 << 20,
        pre_buffer=False,
        page_checksum_verification=True,
        read_dictionary=as_dictionaries,
    )


def _read_arrow_rows(file: RowFile, settings: ReadSettings) -> Iterator[_Rows]:
    start = file.read_at(0, len(_ARROW_MAGIC))
    if not start:
        raise FileRejected("truncated", "an Arrow file is never empty")
    is_file = _ARROW_MAGIC.startswith(start)
    if is_file:
        require_magic(file, _ARROW_MAGIC, "an Arrow file")
    for stored, unfolded in read_batch_sizes(file, is_file):
        if unfolded > MAX_DECODED_BYTES + MAX_RATIO * stored:
            raise FileRejected("over_limit", f"a batch of {unfolded} bytes from {stored} stored")
    open_reader = pa.ipc.open_file if is_file else pa.ipc.open_stream
    schema = open_reader(file.source()).schema
    paths = _find_paths(schema, settings)
    needed = sorted({schema.get_field_index(_list_names(path)[0]) for path in paths if path}) or [0] * (len(schema) > 0)
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=needed)
    source = file.source()
    reader = open_reader(source, options=options)
    for batch in _read_file_batches(reader) if is_file else _read_stream_batches(reader, source, file.size_bytes):
        batch.validate()
        yield _Rows(batch.num_rows, _find_columns(batch, paths, settings), _describe_twice(schema, settings))


def _read_file_batches(reader: Any) -> Iterator[pa.RecordBatch]:
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)


def _read_stream_batches(reader: Any, source: Any, size_bytes: int) -> Iterator[pa.RecordBatch]:
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


def _find_paths(schema: pa.Schema, settings: ReadSettings) -> list[tuple[Step, ...]]:
    """The paths of _list_wanted(): steps from the top-level column inwards, () for a missing column."""
    return [_find_path(schema, one.name) for one in _list_wanted(settings)]


def _describe_twice(schema: pa.Schema, settings: ReadSettings) -> str:
    named = () if settings.as_before else [one.name for one in _list_wanted(settings)]
    nums = {name: len(schema.get_all_field_indices(name)) for name in named}
    found = (f"{num} columns are called {make_printable(name.encode())}" for name, num in nums.items() if num > 1)
    return "".join(f": {one}" for one in found)


def _list_names(path: tuple[Step, ...]) -> tuple[str, ...]:
    """The names before the first list of a path."""
    return tuple(step for step in path[: path.index(EACH) if EACH in path else None] if step is not EACH)


def _find_path(schema: pa.Schema, name: str) -> tuple[Step, ...]:
    if not name:
        return ()
    if schema.get_field_index(name) >= 0:
        return (name,)
    path = parse_steps(name)
    if schema.get_field_index(path[0]) < 0:
        return ()
    kind = schema.field(path[0]).type
    for step in _list_names(path)[1:]:
        if not pa.types.is_struct(kind) or kind.get_field_index(step) < 0:
            return ()
        kind = kind.field(step).type
    return path


def _find_columns(batch: pa.RecordBatch, paths: list[tuple[Step, ...]], settings: ReadSettings) -> tuple[Any, ...]:
    """The columns of _list_wanted() of a batch."""
    as_before = settings.as_before
    knows_ids = {"name": _know_nothing if as_before else validate_ids, "value": validate_ids}
    return tuple(
        _find_column(batch, path, as_before, knows_ids.get(one.use, _know_nothing))
        for one, path in zip(_list_wanted(settings), paths, strict=True)
    )


def _know_nothing(_: pa.Array) -> None:
    return None


def _find_column(
    batch: pa.RecordBatch,
    path: tuple[Step, ...],
    as_before: bool,
    validate: Callable[[pa.Array], pa.Array | None] = _know_nothing,
) -> Any:
    """A column of a batch, validated; None if the path is empty, ListTexts if it leads into lists.

    as_before: see ReadSettings. validate: is asked first; None for what it does not know.
    """
    if not path:
        return None
    names = _list_names(path)
    array = batch.column(names[0])
    for step in names[1:]:
        array.validate()
        array = pc.struct_field(array, step)
    validate_all = functools.partial(_validate, unfolds_runs=not as_before)
    if len(names) < len(path):
        return ListTexts(array, path[len(names) :], validate_all, takes_views=not as_before)
    known = validate(array)
    return validate_all(array) if known is None else known


def _suggest(column: pa.Array | ListTexts | None, name: str) -> str:
    """How to name the texts in a column that holds none."""
    if not isinstance(column, pa.Array) or (hint := suggest_path(column.type, name)) in ("", name):
        return ""
    return f'; texts are in it: write text = "{make_printable(hint.encode())}"'


def _extract(
    one: _Wanted, column: pa.Array | ListTexts | None, start: int, num_rows: int, settings: ReadSettings
) -> Iterable[Any]:
    """What some rows hold of a field, as its use asks for it."""
    if isinstance(column, ListTexts):
        return column.texts(start, num_rows, _extract_values, settings.max_document_bytes, NoText(), one.joiner)
    if one.use == "value":
        return extract_fields(column, start, num_rows, _extract_values)
    is_name = one.use == "name" and not settings.as_before
    return (_extract_ids if is_name else _extract_values)(column, start, num_rows)


def _validate(array: pa.Array, *, unfolds_runs: bool = True) -> pa.Array:
    """The array, validated in full, strings as bytes: invalid UTF-8 is to cost a record, not the file.

    unfolds_runs: whether run-end encoded values are values.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        array.indices.validate(full=True)
        values = _validate(array.dictionary, unfolds_runs=unfolds_runs)
        if len(array) - array.null_count:
            bounds = pc.min_max(array.indices)
            if not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < len(values):
                raise ValueError("a dictionary index is out of range")
        return pa.DictionaryArray.from_arrays(array.indices, values, safe=False)
    if unfolds_runs and pa.types.is_run_end_encoded(kind):
        return _index_runs(array)
    as_bytes: dict[pa.DataType, pa.DataType] = {
        pa.string(): pa.binary(),
        pa.large_string(): pa.large_binary(),
        pa.string_view(): pa.binary_view(),
    }
    if kind in as_bytes:
        array.validate()
        array = array.view(as_bytes[kind])  # unlike a cast it does not touch the values, which are not validated yet
    array.validate(full=True)
    return _unfold_views(array) if array.type == pa.binary_view() else array


def _index_runs(array: pa.Array) -> pa.Array:
    """The same values, a number for each row: a run may be of any length, and its value is kept once."""
    array.validate()
    ends = array.run_ends
    ends.validate(full=True)
    if len(array) * _INDEX_BYTES > MAX_DECODED_BYTES:
        raise FileRejected("over_limit", f"runs of {len(array)} rows")
    found = ends.to_numpy(zero_copy_only=False).astype(np.int64)
    first, last = array.offset, array.offset + len(array)
    if np.any(np.diff(found, prepend=0) <= 0) or len(found) > len(array.values) or (last > first and found[-1] < last):
        raise ValueError("ends of runs are out of range")
    indices = np.searchsorted(found, np.arange(first, last), side="right").astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(indices), _validate(array.values), safe=False)


_INDEX_BYTES = 4


def _unfold_views(array: pa.Array) -> pa.Array:
    """The same values, each with bytes of its own. The library's own cast reads what a view says whose row is null."""
    if not len(array):
        return pa.array([], pa.large_binary())
    views = np.frombuffer(array.buffers()[1], np.int32, 4 * len(array), 16 * array.offset).reshape(-1, 4)
    size_bytes = int(views[array.is_valid().to_numpy(zero_copy_only=False), 0].sum(dtype=np.int64))
    if size_bytes > MAX_DECODED_BYTES + array.nbytes:  # any number of views may show the same bytes
        raise FileRejected("over_limit", f"views of {size_bytes} bytes in {array.nbytes}")
    return pa.array(array.to_pylist(), pa.large_binary())


def _extract_values(array: pa.Array | None, start: int, num_rows: int) -> list[Any]:
    """The values of some rows: bytes, int, None for null, NoText for anything else."""
    if array is None:
        return [None] * num_rows
    array = array.slice(start, num_rows)
    kind = array.type
    if pa.types.is_dictionary(kind):
        # Convert each value once, however many rows repeat it.
        used = pc.unique(array.indices)
        values = _extract_values(array.dictionary.take(used), 0, len(used))
        by_index = dict(zip(used.to_pylist(), values, strict=True))
        return [by_index[index] for index in array.indices.to_pylist()]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _extract_bytes(array)
    if pa.types.is_integer(kind):
        return list(array.to_pylist())
    no_text = NoText(str(kind))
    return [no_text if is_valid else None for is_valid in array.is_valid().to_pylist()]


def _extract_ids(array: pa.Array | None, start: int, num_rows: int) -> list[Any]:
    """As _extract_values, with ids of other types as text: see column_ids."""
    return extract_ids(array, start, num_rows, _extract_values)


def _extract_bytes(array: pa.Array) -> list[bytes | None]:
    width: Any = np.int32 if pa.types.is_binary(array.type) else np.int64
    validity, offset_buffer, data_buffer = array.buffers()
    if offset_buffer is None or not len(array):
        return [None if validity is not None else b""] * len(array)
    # By count: a hostile buffer need not hold a whole number of offsets.
    offsets = np.frombuffer(offset_buffer, width, len(array) + 1, array.offset * np.dtype(width).itemsize).tolist()
    data = memoryview(data_buffer if data_buffer is not None else b"")
    texts: list[bytes | None] = [bytes(data[low:high]) for low, high in itertools.pairwise(offsets)]
    if array.null_count:
        return [text if ok else None for text, ok in zip(texts, array.is_valid().to_pylist(), strict=True)]
    return texts
