"""Token shards as Megatron's indexed datasets: `.bin` (int32 ids, back to back) and `.idx`, one sequence a document.

    .idx   9 bytes "MMIDIDX" 00 00 | uint64 version 1 | uint8 dtype code | uint64 sequences | uint64 documents + 1
           | int32 length of each sequence | int64 byte offset of each in .bin | int64 first sequence of each document,
           then the number of sequences                                             (integers little-endian)

Beside them, `.documents.arrow` holds what the layout has no room for: id, lang, source, ordinal of each document.
Layout: NVIDIA/Megatron-LM, megatron/core/datasets/indexed_dataset.py.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tokcore.errors import FormatError, VersionError
from tokcore.formats.arrow_shards import ArrowShard, ArrowShardWriter
from tokcore.token_batch import Ids, Offsets, TokenBatch

MAGIC = b"MMIDIDX\x00\x00"
OLD_MAGIC = b"TNTIDX\x00\x00"
VERSION = 1
INT32 = 4  # dtype code
MAX_DOCUMENT_TOKENS = 2**31 - 1  # lengths are int32
BIN, IDX, DOCUMENTS = ".bin", ".idx", ".documents.arrow"

_HEADER = struct.Struct("<9sQBQQ")


class MegatronShardWriter:
    """Writes one shard to three open binary files; close() ends their content, not the files."""

    def __init__(
        self, bin_file: BinaryIO, idx_file: BinaryIO, documents_file: BinaryIO, fingerprint: str, compression: str
    ) -> None:
        """compression: of the documents file, as ArrowShardWriter takes it."""
        self._bin = bin_file
        self._idx = idx_file
        self._documents = ArrowShardWriter(documents_file, fingerprint, compression, with_tokens=False)
        self._lengths: list[np.ndarray[Any, np.dtype[np.int32]]] = []

    def write(self, batch: TokenBatch) -> None:
        """Append documents. Raises FormatError for one whose length does not fit the layout's int32."""
        lengths = np.diff(batch.offsets)
        longest = int(lengths.max(initial=0))
        if longest > MAX_DOCUMENT_TOKENS:
            raise FormatError(f"a document of {longest} tokens: an .idx file holds lengths up to {MAX_DOCUMENT_TOKENS}")
        self._bin.write(np.ascontiguousarray(batch.tokens[batch.offsets[0] : batch.offsets[-1]], "<i4").data.cast("B"))
        self._lengths.append(lengths.astype("<i4"))
        self._documents.write(batch)

    def close(self) -> None:
        """Write the index and what waits of the documents file."""
        self._idx.write(index_bytes(np.concatenate(self._lengths) if self._lengths else np.zeros(0, "<i4")))
        self._documents.close()


def index_bytes(lengths: np.ndarray[Any, np.dtype[np.int32]]) -> bytes:
    """The .idx file of documents with these numbers of int32 ids.

    >>> len(index_bytes(np.array([3, 2], np.int32)))
    82
    """
    num = len(lengths)
    offsets = np.zeros(num + 1, "<i8")
    np.cumsum(lengths, out=offsets[1:], dtype="<i8")
    header = _HEADER.pack(MAGIC, VERSION, INT32, num, num + 1)
    first_sequences = np.arange(num + 1, dtype="<i8")
    return header + lengths.astype("<i4").tobytes() + (offsets[:-1] * 4).tobytes() + first_sequences.tobytes()


class MegatronShard:
    """One shard, memory-mapped and checked before anything is used; ids are views of the .bin file."""

    def __init__(self, prefix: str) -> None:
        """prefix: path without .bin. Raises FormatError naming file and place, VersionError for another version."""
        self.prefix = prefix
        self._offsets = read_index(prefix)
        tokens_path = Path(prefix + BIN)
        size = int(self._offsets[-1]) * 4
        try:
            found = tokens_path.stat().st_size
        except OSError as error:
            raise FormatError(f"{tokens_path}: {error.strerror}") from error
        if found != size:
            raise FormatError(f"{tokens_path}: {found} bytes, its index accounts for {size}")
        self._tokens: Ids = np.memmap(tokens_path, "<i4", "r") if size else np.zeros(0, np.int32)
        self._documents: ArrowShard | None = None

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def fingerprint(self) -> str:
        return self._columns().fingerprint

    def tokens(self, row: int) -> Ids:
        """int32 ids of a document: a read-only view of the mapped file."""
        return np.asarray(self._tokens)[self._offsets[row] : self._offsets[row + 1]]

    def columns(self, row: int) -> tuple[str | None, str, str, int]:
        """(id, lang, source, ordinal) of a document."""
        return self._columns().columns(row)

    def _columns(self) -> ArrowShard:
        if self._documents is None:
            self._documents = ArrowShard(self.prefix + DOCUMENTS, with_tokens=False)
            if len(self._documents) != len(self):
                raise FormatError(
                    f"{self.prefix}{DOCUMENTS}: {len(self._documents)} documents, its .idx file has {len(self)}"
                )
        return self._documents


def read_index(prefix: str) -> Offsets:
    """int64 [documents + 1], where each document begins in the .bin file, counted in ids.

    Raises FormatError unless every count, length, offset and index of the file is what the layout says.
    """
    path = prefix + IDX
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror}") from error
    if data.startswith(OLD_MAGIC):
        raise FormatError(f"{path}: an index of the older fairseq layout (TNTIDX), which is not read: convert it first")
    if len(data) < _HEADER.size or not data.startswith(MAGIC):
        raise FormatError(f"{path}: byte 0: not an index file of Megatron")
    _, version, code, sequences, documents = _HEADER.unpack_from(data)
    if version != VERSION:
        raise VersionError(f"{path}: byte 9: index version {version}, only {VERSION} is known")
    if code != INT32:
        raise FormatError(f"{path}: byte 17: dtype code {code}, expected {INT32} (int32)")
    if documents != sequences + 1:
        raise FormatError(f"{path}: byte 26: {documents} document bounds for {sequences} sequences, expected one more")
    if len(data) != _HEADER.size + 12 * sequences + 8 * documents:
        raise FormatError(f"{path}: {len(data)} bytes, but its header accounts for another number")
    lengths = np.frombuffer(data, "<i4", sequences, _HEADER.size)
    places = np.frombuffer(data, "<i8", sequences, _HEADER.size + 4 * sequences)
    firsts = np.frombuffer(data, "<i8", documents, _HEADER.size + 12 * sequences)
    if sequences and int(lengths.min()) < 0:
        raise FormatError(f"{path}: sequence {int(lengths.argmin())} has a negative length")
    offsets = np.zeros(sequences + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:], dtype=np.int64)
    for what, found, expected in (("offset", places, offsets[:-1] * 4), ("document", firsts, np.arange(documents))):
        if not np.array_equal(found, expected):
            wrong = int(np.flatnonzero(found != expected)[0])
            raise FormatError(f"{path}: {what} {wrong} is {int(found[wrong])}, expected {int(expected[wrong])}")
    return offsets
