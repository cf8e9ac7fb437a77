"""A look at the start of a file, in bounded time and memory: what it holds, its fields, its first documents.

Nothing here decides what a build reads: a file's end, which makes it whole, is not looked at.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import orjson

from tokcore.errors import FormatError
from tokcore_pipelines.reading.beside import leave_attributes
from tokcore_pipelines.reading.column_names import read_arrow_columns, read_parquet_columns, read_parquet_rows
from tokcore_pipelines.reading.compressed import decompress
from tokcore_pipelines.reading.delimited import read_delimited
from tokcore_pipelines.reading.input_range import read_documents, settle_batch
from tokcore_pipelines.reading.json_line import parse_json_line
from tokcore_pipelines.reading.jsonl import name_json_type, read_json_lines
from tokcore_pipelines.reading.plain import read_plain_text
from tokcore_pipelines.reading.plugins import find_reader, read_records
from tokcore_pipelines.reading.records import Batch, FileRejected
from tokcore_pipelines.reading.sniff import COMPRESSED, Content, detect_content
from tokcore_pipelines.reading.utf8 import convert_to_utf8
from tokcore_pipelines.store import storage
from tokcore_schemas.input_format import COLUMN_FORMATS, Compression
from tokcore_schemas.plan import ReadSettings

# Of a larger file of columns only the first row group is decoded, if that is no larger: the rows of a whole file are
# known only when it was read to its end.
_MAX_COLUMNS_BYTES = 1 << 24
# bzip2 gives nothing before the end of its first block.
_LEAST_STORED_BYTES: Mapping[Compression, int] = {"bz2": 1 << 20, "xz": 1 << 20}
_TAIL_BYTES = 1 << 16  # in which most footers lie
_MAX_FOOTER_BYTES = 1 << 22
_NEXT_ANSWER = b"\r\n\r\nWARC/"
MAX_LINE_BYTES = 1 << 22  # as stored, that are read to see the end of a file's first line
_MAX_VALUES = 200  # records whose fields are looked at
_MAX_NAMES = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A field of the records at the start of a file."""

    name: str  # "a.b" for b inside a, "a[*].b" for b of each object in the array a
    kind: str  # a string, a number, an array ... as JSON calls it; of columns the Arrow type
    values: tuple[Any, ...] = ()  # the first ones that are no nulls

    @property
    def is_text(self) -> bool:
        return self.kind in ("a string", "string", "large_string", "string_view", "binary", "large_binary")


@dataclasses.dataclass(frozen=True, slots=True)
class Peek:
    """The start of a file."""

    file: storage.FileId
    stored: Content  # of the bytes as stored
    inner: Content  # of what they unfold to
    head: bytes  # what the first bytes unfold to
    stored_bytes: int  # of which these are
    is_whole: bool  # whether that is all of the file

    @property
    def unfolded_bytes(self) -> int:
        """What the file unfolds to, if it goes on as it starts."""
        return self.file.size_bytes * len(self.head) // max(1, self.stored_bytes)


def peek(file: storage.FileId, size_bytes: int) -> Peek:
    """The start of a file, about size_bytes of it as stored: more if its first record, of JSON lines, is longer.

    Raises StageError if the store does not answer.
    """
    seen = _look(file, size_bytes)
    while seen.inner == "json lines" and not seen.is_whole and b"\n" not in seen.head and size_bytes < MAX_LINE_BYTES:
        size_bytes *= 4
        seen = _look(file, size_bytes)
    return seen


def _look(file: storage.FileId, size_bytes: int) -> Peek:
    start = storage.read_part(file.url, 0, min(size_bytes, file.size_bytes))
    stored = detect_content(start)
    head, is_unfolded = start, True
    if stored in COMPRESSED:
        compression: Compression = stored  # type: ignore[assignment]  # the names are the same
        if (more := _LEAST_STORED_BYTES.get(compression, 0)) > size_bytes:
            start = storage.read_part(file.url, 0, min(more, file.size_bytes))
        head, is_unfolded = _unfold(start, compression, 8 * size_bytes)
    is_whole = len(start) == file.size_bytes and is_unfolded
    return Peek(file, stored, detect_content(head), head, len(start), is_whole)


class _Start(io.BytesIO):
    """The start of a file, as the decompressors want one."""

    def size(self) -> int:
        return len(self.getbuffer())


def _unfold(start: bytes, compression: Compression, most: int) -> tuple[bytes, bool]:
    """(what bytes unfold to, about the first most bytes of it; whether that is all)."""
    pieces: list[bytes] = []
    size_bytes = 0
    try:
        for piece in decompress(_Start(start), compression):
            if size_bytes >= most:
                return b"".join(pieces), False
            pieces.append(piece)
            size_bytes += len(piece)
    except FileRejected:
        return b"".join(pieces), False  # it goes on after the start, or it is damaged: reading will tell
    return b"".join(pieces), True


def read_first_documents(seen: Peek, settings: ReadSettings) -> Batch | None:
    """The documents and rejects at the start of a file; None if nothing can be told without reading all of it.

    A record that the start ends in is not among them, unless it is plain text: what its rest would say is unknown.
    Raises FileRejected if the file is rejected whole for what its start says of its encoding.
    """
    if settings.format in COLUMN_FORMATS:
        try:
            if seen.file.size_bytes > _MAX_COLUMNS_BYTES:
                return _read_first_group(seen, settings) if settings.format == "parquet" else None
            return next(read_documents(seen.file, 0, seen.file.size_bytes, settings), None)
        except FileRejected:
            return None
    batch = _read_first_as_written(seen, leave_attributes(settings))
    return settle_batch(batch, settings, seen.file.url) if batch is not None else None


def _read_first_group(seen: Peek, settings: ReadSettings) -> Batch | None:
    """The first rows of a long parquet file; None if its first row group is long, too."""
    # They load pyarrow.
    from tokcore_pipelines.reading.parquet_layout import find_groups, read_row_groups
    from tokcore_pipelines.reading.row_file import RowFile

    try:
        with storage.open_pinned(seen.file) as opened:
            groups = read_row_groups(RowFile(opened, reads_at_once=False))
    except (ValueError, KeyError, IndexError, TypeError, OverflowError):
        return None
    rows = [group.num_rows for group in groups]
    first = [groups[number] for number in find_groups(rows, 0, 1)]
    if sum(column.stored_bytes for group in first for column in group.columns) > _MAX_COLUMNS_BYTES:
        return None
    return next(read_documents(seen.file, 0, 1, settings, extent=sum(rows)), None)


def _read_first_as_written(seen: Peek, settings: ReadSettings) -> Batch | None:
    if settings.plugin:  # whose records may be anywhere in a file
        try:
            return next(read_records(find_reader(settings), [seen.head], settings)) if seen.is_whole else None
        except FileRejected:
            return None
    if settings.format == "warc":
        return _read_first_answers(seen, settings)
    data = _cut_to_whole_records(seen, settings)
    if settings.format == "jsonl":
        return next(read_json_lines([data], settings), None)
    if settings.format == "text":
        return next(read_plain_text([data], settings), None)
    while data:
        try:
            return next(read_delimited([data], settings), None)
        except FileRejected:  # the start may end within quotes
            data = data[: data.rfind(b"\n", 0, len(data) // 2) + 1]
    return None


def _read_first_answers(seen: Peek, settings: ReadSettings) -> Batch | None:
    from tokcore_pipelines.reading.warc import read_warc  # loads warcio

    end = len(seen.head) if seen.is_whole else seen.head.rfind(_NEXT_ANSWER)
    if end < 0:
        return None
    if not seen.is_whole:
        end += len(_NEXT_ANSWER) - len(b"WARC/")
    try:
        return next(read_warc([seen.head[:end]], settings), None)
    except FileRejected:
        return None


def _cut_to_whole_records(seen: Peek, settings: ReadSettings) -> bytes:
    """The start of a file as UTF-8, up to the end of a line; nothing if it ends in its first line of several fields."""
    data = b"".join(convert_to_utf8([seen.head], settings, True))
    if seen.is_whole:
        return data
    lines = data[: data.rfind(b"\n") + 1]
    return lines or (data.decode(errors="ignore").encode() if settings.format == "text" else b"")


def find_fields(seen: Peek, settings: ReadSettings) -> list[Field]:
    """The fields of the records at the start of a file, in their order; none if they have none or cannot be read."""
    if settings.format in COLUMN_FORMATS:
        return find_column_fields(seen)
    if settings.plugin:
        return _find_fields_of_plugin(seen, settings)
    if settings.format in ("text", "warc"):
        return []
    try:
        data = _cut_to_whole_records(seen, settings)
    except FileRejected:
        return []
    if settings.format in ("csv", "tsv"):
        return _find_header_fields(data, settings)
    return find_record_fields(data)


def _find_fields_of_plugin(seen: Peek, settings: ReadSettings) -> list[Field]:
    found: dict[str, list[Any]] = {}
    try:
        records = find_reader(settings).read(io.BytesIO(seen.head)) if seen.is_whole else iter(())
        for record in itertools.islice(records, _MAX_VALUES):
            for name, value in record.items():
                found.setdefault(name, []).append(value.decode() if isinstance(value, bytes) else value)
    except (FormatError, UnicodeDecodeError):
        return []
    return [Field(name, name_json_type(values[0]), tuple(values)) for name, values in found.items()]


def _find_header_fields(data: bytes, settings: ReadSettings) -> list[Field]:
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if settings.quotes else csv.QUOTE_NONE
    text = io.StringIO(data.decode(errors="replace"), newline="")
    rows = [*itertools.islice(csv.reader(text, delimiter=settings.delimiter, quoting=quoting), _MAX_VALUES)]
    header, values = (rows[0] if rows else []), rows[1:]
    return [Field(name, "a string", tuple(row[i] for row in values if i < len(row))) for i, name in enumerate(header)]


def find_record_fields(head: bytes) -> list[Field]:
    """The fields of JSON lines; those of nested objects, and of objects in arrays, as paths."""
    kinds: dict[str, str] = {}
    values: dict[str, list[Any]] = {}
    for line in head.split(b"\n")[:_MAX_VALUES]:
        try:
            record = parse_json_line(line)
        except orjson.JSONDecodeError:
            continue
        for name, value in _iterate_paths(record, ""):
            if value is not None and len(kinds) < _MAX_NAMES:
                kinds.setdefault(name, name_json_type(value))
                values.setdefault(name, []).append(value)
    return [Field(name, kind, tuple(values[name])) for name, kind in kinds.items()]


def _iterate_paths(record: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(record, dict):
        return
    for name, value in record.items():
        if isinstance(value, dict) and value and prefix.count(".") < 3:
            yield from _iterate_paths(value, f"{prefix}{name}.")
        elif "[" not in prefix and isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            for one in value:
                yield from _iterate_paths(one, f"{prefix}{name}[*].")
        else:
            yield f"{prefix}{name}", value


def find_column_fields(seen: Peek) -> list[Field]:
    """The columns of a parquet or Arrow file, those of structs as paths; none if they cannot be read."""
    try:
        columns = (
            read_parquet_columns(_read_footer(seen)) if seen.stored == "parquet" else read_arrow_columns(seen.head)
        )
    except ValueError:
        return []
    return [Field(column.name, column.kind) for column in columns]


def count_rows(seen: Peek) -> int | None:
    """The rows that a parquet file says it has; None if it is another file, or says nothing."""
    if seen.stored != "parquet":
        return None
    try:
        return read_parquet_rows(_read_footer(seen))
    except ValueError:
        return None


def _read_footer(seen: Peek) -> bytes:
    """What a parquet file says of itself: before its last eight bytes, which are its length and a mark."""
    size_bytes = seen.file.size_bytes
    end = storage.read_part(seen.file.url, max(0, size_bytes - _TAIL_BYTES), size_bytes)
    length = int.from_bytes(end[-8:-4], "little") + 8
    if length > min(size_bytes, _MAX_FOOTER_BYTES):
        raise ValueError(f"a footer of {length} bytes")
    if length > len(end):
        end = storage.read_part(seen.file.url, size_bytes - length, size_bytes)
    return end[len(end) - length : -8]
