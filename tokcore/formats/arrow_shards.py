"""Token shards as Arrow IPC files: a row a document, readable by anything that reads Arrow.

    tokens: list<int32>   id: string (or null)   lang: string   source: string   ordinal: int64

The schema's metadata names the tokenizer. A file's bytes follow from its documents, the codec and pyarrow's version.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from tokcore.arrow_files import Sink
from tokcore.errors import FormatError, VersionError
from tokcore.token_batch import Rechunker, TokenBatch

FORMAT_VERSION = "1"

# Rows of one record batch; one list<int32> chunk cannot hold more than 2^31 - 1 values.
BATCH_TOKENS = 1 << 20
BATCH_DOCUMENTS = 4096
MAX_DOCUMENT_TOKENS = 2**31 - 1 - BATCH_TOKENS

_ITEMS = pa.field("item", pa.int32(), nullable=False)
_COLUMNS = [
    pa.field("id", pa.string()),
    pa.field("lang", pa.string(), nullable=False),
    pa.field("source", pa.string(), nullable=False),
    pa.field("ordinal", pa.int64(), nullable=False),
]


def schema(fingerprint: str, with_tokens: bool = True) -> pa.Schema:
    """The schema of a shard, or of the columns that go beside a shard of another format."""
    metadata = {"tokcore.format_version": FORMAT_VERSION, "tokcore.fingerprint": fingerprint}
    tokens = [pa.field("tokens", pa.list_(_ITEMS), nullable=False)] if with_tokens else []
    return pa.schema([*tokens, *_COLUMNS], metadata=metadata)


class ArrowShardWriter:
    """Writes one shard to an open binary file; close() ends the file's content, not the file."""

    def __init__(self, file: BinaryIO, fingerprint: str, compression: str, with_tokens: bool = True) -> None:
        """compression: zstd (level 1), lz4 or none. with_tokens: False writes the other columns only."""
        self._schema = schema(fingerprint, with_tokens)
        self._with_tokens = with_tokens
        codec = {"zstd": pa.Codec("zstd", 1), "lz4": pa.Codec("lz4"), "none": None}[compression]
        # One thread: with several, pyarrow's buffers are the same, but so is our wish to state it.
        options = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
        self._writer = pa.ipc.new_file(Sink(file), self._schema, options=options)
        self._rechunker = Rechunker(BATCH_TOKENS, BATCH_DOCUMENTS)

    def write(self, batch: TokenBatch) -> None:
        """Append documents. Raises FormatError for one that is too long for a list<int32>."""
        longest = int(np.diff(batch.offsets).max(initial=0))
        if longest > MAX_DOCUMENT_TOKENS:
            raise FormatError(
                f"a document of {longest} tokens: an Arrow shard holds at most {MAX_DOCUMENT_TOKENS} each"
            )
        for chunk in self._rechunker.add(batch):
            self._write(chunk)

    def close(self) -> None:
        """Write what waits, and the footer."""
        for chunk in self._rechunker.rest():
            self._write(chunk)
        self._writer.close()

    def _write(self, chunk: TokenBatch) -> None:
        columns = [
            pa.array(chunk.ids, pa.string()),
            pa.array(chunk.langs, pa.string()),
            pa.array(chunk.sources, pa.string()),
            pa.array(chunk.ordinals, pa.int64()),
        ]
        if self._with_tokens:
            columns.insert(0, _lists(chunk))
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))


def _lists(chunk: TokenBatch) -> pa.ListArray:
    start, end = int(chunk.offsets[0]), int(chunk.offsets[-1])
    offsets = pa.array((chunk.offsets - start).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(chunk.tokens[start:end]), type=pa.list_(_ITEMS))


class ArrowShard:
    """One Arrow shard, memory-mapped; record batches are decoded as they are asked for and the last one is kept."""

    def __init__(self, path: str, with_tokens: bool = True) -> None:
        """Raises FormatError if it is not a shard, VersionError if a newer release wrote it."""
        self.path = path
        self._reader = _opened(path)
        found = self._reader.schema
        metadata = found.metadata or {}
        version = metadata.get(b"tokcore.format_version", b"").decode("ascii", "replace")
        if not version:
            raise FormatError(f"{path}: not a tokcore shard: its schema names no format version")
        if version != FORMAT_VERSION:
            raise VersionError(
                f"{path}: format version {version}, this release reads {FORMAT_VERSION}: upgrade tokcore"
            )
        self.fingerprint = metadata.get(b"tokcore.fingerprint", b"").decode("ascii", "replace")
        if found.names != schema("", with_tokens).names or not found.remove_metadata().equals(
            schema("", with_tokens).remove_metadata()
        ):
            raise FormatError(f"{path}: not a tokcore shard: its columns are {found.names}")
        self._with_tokens = with_tokens
        self._starts = self._batch_starts()
        self._kept: tuple[int, pa.RecordBatch] | None = None

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def num_batches(self) -> int:
        return len(self._starts) - 1

    def tokens(self, row: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        """int32 ids of a document; read-only, a view of the decoded batch."""
        batch, i = self._row(row)
        return _values(batch.column(0), i)

    def columns(self, row: int) -> tuple[str | None, str, str, int]:
        """(id, lang, source, ordinal) of a document."""
        batch, i = self._row(row)
        first = 1 if self._with_tokens else 0
        name, lang, source, ordinal = (batch.column(first + c)[i].as_py() for c in range(4))
        return name, lang, source, ordinal

    def batches(self) -> Iterator[TokenBatch]:
        """All documents, a record batch at a time."""
        for number in range(self.num_batches):
            batch = self._batch(number)
            lists = batch.column(0)
            offsets = lists.offsets.to_numpy().astype(np.int64)
            ids, langs, sources, ordinals = (batch.column(c) for c in range(1, 5))
            yield TokenBatch(
                lists.values.to_numpy(zero_copy_only=True),
                offsets,
                ids.to_pylist(),
                langs.to_pylist(),
                sources.to_pylist(),
                ordinals.to_numpy(zero_copy_only=True),
            )

    def _batch_starts(self) -> list[int]:
        starts = [0]
        for number in range(self._reader.num_record_batches):
            # Every batch but the last is full by one of two rules, so their sizes cannot be told without reading them.
            starts.append(starts[-1] + self._batch(number).num_rows)
        return starts

    def _batch(self, number: int) -> pa.RecordBatch:
        try:
            batch = self._reader.get_batch(number)
            batch.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise FormatError(f"{self.path}: record batch {number} is damaged: {error}") from error
        return batch

    def _row(self, row: int) -> tuple[pa.RecordBatch, int]:
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        kept = self._kept
        if kept is None or kept[0] != number:
            kept = self._kept = (number, self._batch(number))
        return kept[1], row - self._starts[number]


def _values(lists: pa.ListArray, i: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    offsets = lists.offsets
    values: np.ndarray[Any, np.dtype[np.int32]] = lists.values.to_numpy(zero_copy_only=True)
    return values[offsets[i].as_py() : offsets[i + 1].as_py()]


def _opened(path: str) -> Any:
    try:
        return pa.ipc.open_file(pa.memory_map(path, "r"))
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path}: not an Arrow file, or cut off: {error}") from error
