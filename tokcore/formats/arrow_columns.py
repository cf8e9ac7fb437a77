"""Arrow files of documents, one row per document: what Arrow shards and documents files have in common.

    id: string (or null)   lang: string   source: string   ordinal: int64

The schema's metadata names the tokenizer. A file's bytes follow from its documents, the codec and pyarrow's version,
its content from the documents alone.
"""

from __future__ import annotations

import abc
import bisect
import functools
import threading
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from tokcore.errors import FormatError, VersionError
from tokcore.files.arrow_files import Sink
from tokcore.files.ranged_files import find_ranged
from tokcore.files.shortage import raise_shortage
from tokcore.formats.metadata import tell_fields
from tokcore.shards.token_batch import Rechunker, TokenBatch

FORMAT_VERSION = "1"
COMPRESSIONS = ("zstd", "lz4", "none")

# A record batch ends with the first document that reaches one of these. They bound what a reader must decode to get
# at one document, and what waits in memory while a shard is written.
BATCH_TOKENS = 1 << 20
BATCH_DOCUMENTS = 4096
BATCH_CHARS = 1 << 24  # of ids, langs and sources
EVEN_ROWS = 1 << 16  # of a batch of EvenWriter

COLUMNS = (
    pa.field("id", pa.string()),
    pa.field("lang", pa.string(), nullable=False),
    pa.field("source", pa.string(), nullable=False),
    pa.field("ordinal", pa.int64(), nullable=False),
)

_VERSION_KEY, _FINGERPRINT_KEY = "tokcore.format_version", "tokcore.fingerprint"


def make_columns_schema(fields: Iterable[pa.Field], fingerprint: str, **more: str) -> pa.Schema:
    """The schema of a file with these columns. more: further metadata, each key after `tokcore.`."""
    named = {f"tokcore.{name}": value for name, value in more.items()}
    return pa.schema(list(fields), metadata={_VERSION_KEY: FORMAT_VERSION, _FINGERPRINT_KEY: fingerprint, **named})


def open_writer(file: BinaryIO, schema: pa.Schema, compression: str) -> pa.RecordBatchFileWriter:
    """A writer to an open binary file, which it does not close. compression: zstd (level 1), lz4 or none."""
    if compression not in COMPRESSIONS:
        raise ValueError(f"compression = {compression!r}: expected one of {', '.join(COMPRESSIONS)}")
    codec = {"zstd": pa.Codec("zstd", 1), "lz4": pa.Codec("lz4"), "none": None}[compression]
    # Each processor already has a worker: threads of the writer would only compete with them.
    return pa.ipc.new_file(Sink(file), schema, options=pa.ipc.IpcWriteOptions(compression=codec, use_threads=False))


class EvenWriter:
    """Writes record batches whose sizes follow from the rows alone, not from how they arrived."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, compression: str) -> None:
        """compression: zstd (level 1), lz4 or none."""
        self._schema = schema
        self._writer = open_writer(file, schema, compression)
        self._waiting: list[pa.RecordBatch] = []

    def write(self, arrays: Sequence[pa.Array]) -> None:
        """Append rows: a column of each field of the schema."""
        self._waiting.append(pa.RecordBatch.from_arrays(list(arrays), schema=self._schema))
        self._flush(EVEN_ROWS)

    def close(self) -> None:
        """Write what waits, and the footer."""
        self._flush(1)
        self._writer.close()

    def _flush(self, least: int) -> None:
        table = pa.Table.from_batches(self._waiting, self._schema)
        while len(table) >= least:
            (one,) = table.slice(0, EVEN_ROWS).combine_chunks().to_batches()
            self._writer.write_batch(one)
            table = table.slice(EVEN_ROWS)
        self._waiting = table.to_batches()


def make_rechunker() -> Rechunker:
    """Cuts documents into record batches."""
    return Rechunker(BATCH_TOKENS, BATCH_DOCUMENTS, BATCH_CHARS)


def make_column_arrays(chunk: TokenBatch) -> list[pa.Array]:
    """The values of COLUMNS."""
    return [
        pa.array(chunk.ids, pa.string()),
        chunk.langs.to_arrow(),
        chunk.sources.to_arrow(),
        pa.array(chunk.ordinals, pa.int64()),
    ]


def make_own_arrays(chunk: TokenBatch) -> list[pa.Array]:
    """The values of the user's own columns, as new arrays.

    Those of a slice would have bits of its neighbours behind the last row, which files would then have, too.
    """
    if chunk.metadata is None:
        return []
    rows = pa.array(np.arange(chunk.num_documents))
    return [column.take(rows) for column in chunk.metadata.columns]


def take_own_columns(batch: pa.RecordBatch, first: int) -> pa.RecordBatch | None:
    """The user's own columns of a batch, from the first on; None if there are none."""
    return batch.select(batch.schema.names[first:]).replace_schema_metadata() if batch.num_columns > first else None


def is_ours(schema: pa.Schema) -> bool:
    """Whether a file with this schema says that tokcore wrote it."""
    return _VERSION_KEY.encode() in (schema.metadata or {})


class ColumnFile:
    """An open file of documents, memory-mapped. Safe to read from several threads.

    A record batch is decoded when a document of it is asked for, and kept until another one is.
    """

    def __init__(self, batches: Batches, fields: Sequence[pa.Field], what: str) -> None:
        """fields: the columns it must have. what: a file of that kind is called so in errors.

        Raises FormatError if it is not such a file, VersionError if another release wrote it.
        """
        self.path = path = batches.path
        self._batches = batches
        self.metadata = _check_metadata(path, self._batches.schema, pa.schema(list(fields)), what)
        self.told = tell_fields(list(self._batches.schema)[len(fields) :]) or ()  # the user's own columns

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the tokenizer."""
        return self.metadata[_FINGERPRINT_KEY]

    def columns(self, row: int) -> tuple[str | None, str, str, int]:
        """(id, lang, source, ordinal) of a document."""
        number, i = self._find(row)
        batch = self._name_batches[number]
        name, lang, source, ordinal = (column[i].as_py() for column in batch.columns)
        return name, lang, source, ordinal

    def metadata_of(self, row: int) -> dict[str, Any]:
        """Name -> value of the user's own columns of a document; None where it has none."""
        if not self.told:
            return {}
        number, i = self._find(row)
        batch = self._own_batches[number]
        return {name: column[i].as_py() for name, column in zip(batch.schema.names, batch.columns, strict=True)}

    @functools.cached_property
    def _own_batches(self) -> Batches:
        return self._batches.only(*(name for name, _ in self.told))

    @functools.cached_property
    def _starts(self) -> list[int]:
        # How many rows a batch has, only the batch says. Of its columns, the ordinals are the cheapest to decode.
        ordinals = self._batches.only("ordinal")
        return [0, *accumulate(ordinals.decoded(number).num_rows for number in range(len(ordinals)))]

    @functools.cached_property
    def _name_batches(self) -> Batches:
        return self._batches.only(*(field.name for field in COLUMNS))

    def _find(self, row: int) -> tuple[int, int]:
        number = bisect.bisect_right(self._starts, row) - 1
        return number, row - self._starts[number]


class Batches(abc.ABC):
    """The record batches of a file, each checked; the last one asked for is kept."""

    path: str
    schema: pa.Schema

    def __init__(self) -> None:
        self._kept: tuple[int, pa.RecordBatch] | None = None
        # Readers keep state of their own between batches.
        self._lock = threading.Lock()

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def only(self, *names: str) -> Batches:
        """The same batches with these columns alone."""

    @abc.abstractmethod
    def _decode(self, number: int) -> pa.RecordBatch:
        """The batch, unchecked. Raises an error of Arrow, or OSError, if it is damaged."""

    def __getitem__(self, number: int) -> pa.RecordBatch:
        kept = self._kept
        if kept is None or kept[0] != number:
            with self._lock:
                kept = self._kept = (number, self.decoded(number))
        return kept[1]

    def decoded(self, number: int) -> pa.RecordBatch:
        """The batch, without keeping it. Raises FormatError if it is damaged."""
        try:
            batch = self._decode(number)
            batch.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise_shortage(error)
            raise FormatError(f"{self.path}: record batch {number} is damaged: {error}") from error
        for field, column in zip(batch.schema, batch.columns, strict=True):
            is_list = pa.types.is_list(field.type) and not field.type.value_field.nullable
            items = column.values.null_count if is_list else 0
            if items or (column.null_count and not field.nullable):
                raise FormatError(f"{self.path}: record batch {number} is damaged: nulls in column {field.name}")
        return batch


class RecordBatches(Batches):
    """The record batches of an Arrow IPC file, memory-mapped."""

    def __init__(self, path: str, file: Any = None, columns: Sequence[int] | None = None) -> None:
        """file: the open map of it, if there is one. columns: those to decode; None: all.

        Only with all of them are uncompressed ones views of the file. Raises FormatError if it is no such file.
        """
        super().__init__()
        self.path = path
        self._file = map_arrow_file(path) if file is None else file
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=None if columns is None else list(columns))
        try:
            self._reader = pa.ipc.open_file(self._file, options=options)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise_shortage(error)
            raise FormatError(f"{path}: not an Arrow file, or cut off: {error}") from error
        self.schema = self._reader.schema

    def __len__(self) -> int:
        return int(self._reader.num_record_batches)

    def only(self, *names: str) -> RecordBatches:
        return RecordBatches(self.path, self._file, [self.schema.get_field_index(name) for name in names])

    def _decode(self, number: int) -> pa.RecordBatch:
        return self._reader.get_batch(number)


def map_arrow_file(path: str) -> Any:
    """An open memory map of a file, or what reads one at a URL. Raises FormatError if it cannot be opened."""
    if (ranged := find_ranged(path)) is not None:
        return pa.PythonFile(ranged, "r")
    try:
        return pa.memory_map(path, "r")
    except (pa.ArrowException, OSError) as error:
        raise_shortage(error)
        raise FormatError(f"{path}: cannot be opened: {error}") from error


def _check_metadata(path: str, found: pa.Schema, expected: pa.Schema, what: str) -> dict[str, str]:
    try:
        metadata: dict[str, str] = {key.decode(): value.decode() for key, value in (found.metadata or {}).items()}
        names = found.names
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: its schema is damaged: {error}") from error
    version = metadata.get(_VERSION_KEY)
    if version is None:
        raise FormatError(f"{path}: not a tokcore shard: its schema names no format version")
    if version != FORMAT_VERSION:
        raise VersionError(f"{path}: format version {version}, this release reads {FORMAT_VERSION}: upgrade tokcore")
    own = list(found)[len(expected) :]
    is_ours = pa.schema(list(found)[: len(expected)]).equals(expected) and len({*names}) == len(names)
    if not is_ours or tell_fields(own) is None:
        raise FormatError(f"{path}: its columns are {names}, expected {expected.names} of the types of a {what}")
    if _FINGERPRINT_KEY not in metadata:
        raise FormatError(f"{path}: its schema does not name the tokenizer's fingerprint")
    return metadata
