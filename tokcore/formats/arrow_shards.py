"""Token shards as Arrow IPC files: a row a document, readable by anything that reads Arrow.

    tokens: list<int32>   id: string (or null)   lang: string   source: string   ordinal: int64

The schema's metadata names the tokenizer. A file's bytes follow from its documents, the codec and pyarrow's version,
its content from the documents alone.
"""

from __future__ import annotations

import bisect
import functools
import threading
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from tokcore.arrow_files import Sink
from tokcore.errors import FormatError, VersionError
from tokcore.labels import label_arrow
from tokcore.token_batch import Ids, Rechunker, TokenBatch

FORMAT_VERSION = "1"
DTYPE = "int32"
COMPRESSIONS = ("zstd", "lz4", "none")

# A record batch ends with the first document that reaches one of these: they bound what a reader must decode to get
# at one document, and what waits in memory while a shard is written.
BATCH_TOKENS = 1 << 20
BATCH_DOCUMENTS = 4096
BATCH_CHARS = 1 << 24  # of ids, langs and sources

# One list<int32> column of a record batch holds at most 2^31 - 1 values, and all but the last of a batch's documents
# together fewer than BATCH_TOKENS.
MAX_DOCUMENT_TOKENS = 2**31 - 1 - BATCH_TOKENS

_ITEMS = pa.field("item", pa.int32(), nullable=False)
_TOKENS = pa.field("tokens", pa.list_(_ITEMS), nullable=False)
_COLUMNS = [
    pa.field("id", pa.string()),
    pa.field("lang", pa.string(), nullable=False),
    pa.field("source", pa.string(), nullable=False),
    pa.field("ordinal", pa.int64(), nullable=False),
]


def schema(fingerprint: str, with_tokens: bool = True) -> pa.Schema:
    """The schema of a shard, or of the columns that go beside a shard of another format."""
    metadata = {"tokcore.format_version": FORMAT_VERSION, "tokcore.fingerprint": fingerprint, "tokcore.dtype": DTYPE}
    return pa.schema([_TOKENS, *_COLUMNS] if with_tokens else _COLUMNS, metadata=metadata)


def check_lengths(batch: TokenBatch, limit: int, format_name: str) -> None:
    """Raise FormatError if a document has more tokens than the format can hold."""
    longest = int(np.diff(batch.offsets).max(initial=0))
    if longest > limit:
        raise FormatError(
            f"a document of {longest} tokens: {format_name} holds at most {limit} in one document. "
            f"Lower max_document_bytes of its source."
        )


class ArrowShardWriter:
    """Writes one shard to an open binary file; close() ends the file's content, not the file."""

    def __init__(self, file: BinaryIO, fingerprint: str, compression: str, with_tokens: bool = True) -> None:
        """compression: zstd (level 1), lz4 or none. with_tokens: False writes the other columns only."""
        if compression not in COMPRESSIONS:
            raise ValueError(f"compression = {compression!r}: expected one of {', '.join(COMPRESSIONS)}")
        codec = {"zstd": pa.Codec("zstd", 1), "lz4": pa.Codec("lz4"), "none": None}[compression]
        self._schema = schema(fingerprint, with_tokens)
        self._with_tokens = with_tokens
        # The workers around it use the processors; its own threads would only add to theirs.
        options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
        self._writer = pa.ipc.new_file(Sink(file), self._schema, options=options)
        self._rechunker = Rechunker(BATCH_TOKENS, BATCH_DOCUMENTS, BATCH_CHARS)

    def write(self, batch: TokenBatch) -> None:
        """Append documents. Raises FormatError, before any of them is written, for one that is too long."""
        if self._with_tokens:
            check_lengths(batch, MAX_DOCUMENT_TOKENS, "an Arrow shard")
        for chunk in self._rechunker.add(batch if self._with_tokens else batch.without_tokens()):
            self._write(chunk)

    def close(self) -> None:
        """Write what waits, and the footer."""
        for chunk in self._rechunker.rest():
            self._write(chunk)
        self._writer.close()

    def _write(self, chunk: TokenBatch) -> None:
        columns = [
            pa.array(chunk.ids, pa.string()),
            chunk.langs.to_arrow(),
            chunk.sources.to_arrow(),
            pa.array(chunk.ordinals, pa.int64()),
        ]
        if self._with_tokens:
            columns.insert(0, _lists(chunk))
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))


class ArrowShard:
    """One Arrow shard, memory-mapped. Safe to read from several threads.

    A record batch is decoded when a document of it is asked for, and kept until another one is. Without tokens, if
    only the other columns are asked for.
    """

    def __init__(self, path: str, with_tokens: bool = True) -> None:
        """Raises FormatError if it is not a shard, VersionError if another release wrote it."""
        self.path = path
        self._with_tokens = with_tokens
        self._file = _mapped(path)
        self._batches = _Batches(path, self._file)
        self.fingerprint = _checked_fingerprint(path, self._batches.schema, with_tokens)

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def num_tokens(self) -> int:
        """Of all documents; decodes the tokens of every record batch, and nothing else."""
        if not self._with_tokens:
            return 0
        batches = _Batches(self.path, self._file, [0])
        offsets = (batches.decoded(number).column(0).offsets for number in range(len(batches)))
        return sum(of_batch[-1].as_py() - of_batch[0].as_py() for of_batch in offsets)

    def tokens(self, row: int) -> Ids:
        """int32 ids of a document; read-only, a view of the decoded batch, or of the mapped file if uncompressed."""
        number, i = self._find(row)
        lists = self._batches[number].column(0)
        values: Ids = lists.values.to_numpy(zero_copy_only=True)
        return values[lists.offsets[i].as_py() : lists.offsets[i + 1].as_py()]

    def columns(self, row: int) -> tuple[str | None, str, str, int]:
        """(id, lang, source, ordinal) of a document."""
        number, i = self._find(row)
        batch = self._name_batches[number]
        name, lang, source, ordinal = (column[i].as_py() for column in batch.columns)
        return name, lang, source, ordinal

    def batches(self) -> Iterator[TokenBatch]:
        """All documents, a record batch at a time; as if all were empty where there are no tokens."""
        for number in range(len(self._batches)):
            batch = self._batches[number]
            ids, langs, sources, ordinals = batch.columns[-len(_COLUMNS) :]
            if self._with_tokens:
                lists = batch.column(0)
                tokens, offsets = lists.values.to_numpy(zero_copy_only=True), lists.offsets.to_numpy().astype(np.int64)
            else:
                tokens, offsets = np.zeros(0, np.int32), np.zeros(batch.num_rows + 1, np.int64)
            yield TokenBatch(
                tokens,
                offsets,
                ids.to_pylist(),
                label_arrow(langs),
                label_arrow(sources),
                ordinals.to_numpy(zero_copy_only=True),
            )

    @functools.cached_property
    def _starts(self) -> list[int]:
        # How many rows a batch has, only the batch says. Of its columns, the ordinals are the cheapest to decode.
        ordinals = _Batches(self.path, self._file, [len(self._batches.schema) - 1])
        return [0, *accumulate(ordinals.decoded(number).num_rows for number in range(len(ordinals)))]

    @functools.cached_property
    def _name_batches(self) -> _Batches:
        num = len(self._batches.schema)
        return _Batches(self.path, self._file, range(num - len(_COLUMNS), num)) if self._with_tokens else self._batches

    def _find(self, row: int) -> tuple[int, int]:
        number = bisect.bisect_right(self._starts, row) - 1
        return number, row - self._starts[number]


class _Batches:
    """The record batches of a file, each checked; the last one asked for is kept."""

    def __init__(self, path: str, file: Any, columns: Sequence[int] | None = None) -> None:
        """columns: those to decode. None is all: only then are uncompressed ones views of the file."""
        self._path = path
        self._kept: tuple[int, pa.RecordBatch] | None = None
        # Readers keep state of their own between batches.
        self._lock = threading.Lock()
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=None if columns is None else list(columns))
        try:
            self._reader = pa.ipc.open_file(file, options=options)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FormatError(f"{path}: not an Arrow file, or cut off: {error}") from error

    @property
    def schema(self) -> pa.Schema:
        return self._reader.schema

    def __len__(self) -> int:
        return int(self._reader.num_record_batches)

    def __getitem__(self, number: int) -> pa.RecordBatch:
        kept = self._kept
        if kept is None or kept[0] != number:
            with self._lock:
                kept = self._kept = (number, self.decoded(number))
        return kept[1]

    def decoded(self, number: int) -> pa.RecordBatch:
        """The batch, without keeping it. Raises FormatError if it is damaged."""
        try:
            batch = self._reader.get_batch(number)
            batch.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FormatError(f"{self._path}: record batch {number} is damaged: {error}") from error
        for field, column in zip(batch.schema, batch.columns, strict=True):
            items = column.values.null_count if pa.types.is_list(column.type) else 0
            if items or (column.null_count and not field.nullable):
                raise FormatError(f"{self._path}: record batch {number} is damaged: nulls in column {field.name}")
        return batch


def _lists(chunk: TokenBatch) -> pa.ListArray:
    start, end = int(chunk.offsets[0]), int(chunk.offsets[-1])
    offsets = pa.array((chunk.offsets - start).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(chunk.tokens[start:end]), type=_TOKENS.type)


def _mapped(path: str) -> Any:
    try:
        return pa.memory_map(path, "r")
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path}: cannot be opened: {error}") from error


def _checked_fingerprint(path: str, found: pa.Schema, with_tokens: bool) -> str:
    try:
        metadata: dict[str, str] = {key.decode(): value.decode() for key, value in (found.metadata or {}).items()}
        names = found.names
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: its schema is damaged: {error}") from error
    version = metadata.get("tokcore.format_version")
    if version is None:
        raise FormatError(f"{path}: not a tokcore shard: its schema names no format version")
    if version != FORMAT_VERSION:
        raise VersionError(f"{path}: format version {version}, this release reads {FORMAT_VERSION}: upgrade tokcore")
    expected = schema("", with_tokens)
    if not found.equals(expected):
        raise FormatError(f"{path}: its columns are {names}, expected {expected.names} of the types of a shard")
    if "tokcore.fingerprint" not in metadata:
        raise FormatError(f"{path}: its schema does not name the tokenizer's fingerprint")
    return metadata["tokcore.fingerprint"]
