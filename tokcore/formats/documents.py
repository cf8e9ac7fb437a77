"""Documents files: id, lang, source, ordinal and length of each document of a shard, for formats that lack them.

    id: string (or null)   lang: string   source: string   ordinal: int64   length: int64, ids of the document
    and the user's own columns (tokcore.formats.metadata), if there are any

No format owns it: a shard has one documents file, `documents/[LANG/]NAME.documents`, whichever formats use it. It is an
Arrow file that does not say so in its name: a search for *.arrow finds the documents themselves, each once.
The schema's metadata names the tokenizer and its vocab_size, from which the dtype of flat files follows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from tokcore.errors import FormatError
from tokcore.formats.arrow_columns import (
    COLUMNS,
    ColumnFile,
    RecordBatches,
    make_column_arrays,
    make_columns_schema,
    make_own_arrays,
    make_rechunker,
    open_writer,
    take_own_columns,
)
from tokcore.formats.files_beside_shards import find_beside
from tokcore.formats.metadata import Told, make_metadata_fields
from tokcore.shards.labels import label_arrow
from tokcore.shards.token_batch import Offsets, TokenBatch

FOLDER = "documents"  # beside the folders of formats
SUFFIX = ".documents"

_FIELDS = (*COLUMNS, pa.field("length", pa.int64(), nullable=False))


def get_documents_path(stem: str) -> str:
    """Path of the documents file of a shard, below the folder of all shards.

    >>> get_documents_path("en/train-00003-00001")
    'documents/en/train-00003-00001.documents'
    """
    return f"{FOLDER}/{stem}{SUFFIX}"


def find_documents(path: str, suffixes: tuple[str, ...]) -> Documents | None:
    """The open documents file of the shard at path: beside it, or where a build has it; None if there is none.

    suffixes: possible ends of path that are not the shard's name.
    """
    found = find_beside(path, suffixes, FOLDER, SUFFIX)
    return Documents(found) if found is not None else None


class DocumentsWriter:
    """Writes the documents file of one shard to an open binary file; close() ends its content, not the file."""

    def __init__(
        self, file: BinaryIO, fingerprint: str, vocab_size: int, compression: str, metadata: Told = ()
    ) -> None:
        """compression: zstd (level 1), lz4 or none. metadata: the user's own columns."""
        fields = (*_FIELDS, *make_metadata_fields(metadata))
        self._schema = make_columns_schema(fields, fingerprint, vocab_size=str(vocab_size))
        self._writer = open_writer(file, self._schema, compression)
        self._rechunker = make_rechunker()
        self._lengths = np.zeros(0, np.int64)  # of the documents that wait in the rechunker

    def write(self, batch: TokenBatch) -> None:
        """Append documents."""
        self._lengths = np.concatenate([self._lengths, np.diff(batch.offsets)])
        for chunk in self._rechunker.add(batch.without_tokens()):
            self._write(chunk)

    def close(self) -> None:
        """Write what waits, and the footer."""
        for chunk in self._rechunker.rest():
            self._write(chunk)
        self._writer.close()

    def _write(self, chunk: TokenBatch) -> None:
        num = chunk.num_documents
        lengths, self._lengths = self._lengths[:num], self._lengths[num:]
        arrays = [*make_column_arrays(chunk), pa.array(lengths, pa.int64()), *make_own_arrays(chunk)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


class Documents(ColumnFile):
    """One documents file, memory-mapped. Safe to read from several threads."""

    def __init__(self, path: str) -> None:
        """Raises FormatError if it is not a documents file, VersionError if another release wrote it."""
        super().__init__(RecordBatches(path), _FIELDS, "documents file")
        told = self.metadata.get("tokcore.vocab_size", "")
        if not (told.isascii() and told.isdigit() and len(told) <= 10):
            raise FormatError(f"{path}: vocab_size {told!r} in its schema: expected a number")
        self.vocab_size = int(told)

    @functools.cached_property
    def lengths(self) -> Offsets:
        """int64, ids of each document. Raises FormatError for a negative one."""
        decoded = self._batches.only("length")
        parts = [decoded.decoded(number).column(0).to_numpy() for number in range(len(decoded))]
        return self._checked_lengths(np.concatenate([np.zeros(0, np.int64), *parts]), 0)

    def batches(self) -> Iterator[tuple[TokenBatch, Offsets]]:
        """All documents, a record batch at a time, as if all were empty, and their lengths."""
        start = 0
        for number in range(len(self._batches)):
            batch = self._batches[number]
            ids, langs, sources, ordinals, lengths, *_ = batch.columns
            num = len(lengths)
            names = TokenBatch(
                np.zeros(0, np.int32),
                np.zeros(num + 1, np.int64),
                ids.to_pylist(),
                label_arrow(langs),
                label_arrow(sources),
                ordinals.to_numpy(zero_copy_only=True),
                take_own_columns(batch, len(_FIELDS)),
            )
            yield names, self._checked_lengths(lengths.to_numpy(zero_copy_only=True), start)
            start += num

    def _checked_lengths(self, lengths: Offsets, start: int) -> Offsets:
        wrong = np.flatnonzero(lengths < 0)
        if len(wrong):
            i = int(wrong[0])
            raise FormatError(f"{self.path}: document {start + i} has length {int(lengths[i])}")
        return lengths
