"""Token batches: documents as token ids with the columns that go beside them, and what digests make of them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tokcore.errors import FormatError
from tokcore.formats.metadata import count_chars, pack_values
from tokcore.shards.labels import Labels, join_labels

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]

_CONTENT_PREFIX = b"tokcore-shard-v1"
_DOCUMENT_PREFIX = b"tokcore-document-tokens-v1\0"
_PRESENCE_AND_LENGTH = struct.Struct("<BI")


class Replacer(Protocol):
    """Other ids for documents: tokcore.kernel.IdReplacer is one."""

    def replace(self, ids: Ids, offsets: Offsets) -> tuple[Ids, Offsets]:
        """(ids, offsets) of the same documents, from 0 on. Raises ValueError for an id that it does not know."""


class TokenBatch(NamedTuple):
    """n documents in order.

    tokens: int32, the ids of all of them, back to back. offsets: int64, n + 1 positions in tokens.
    ids: document ids, None where the source names none. langs, sources: n each, coded.
    ordinals: int64, n; with the source it says where the document came from.
    metadata: n rows of the user's own columns (tokcore.formats.metadata); None: there are none.
    """

    tokens: Ids
    offsets: Offsets
    ids: Sequence[str | None]
    langs: Labels
    sources: Labels
    ordinals: Offsets
    metadata: pa.RecordBatch | None = None

    @property
    def num_documents(self) -> int:
        return len(self.langs)

    @property
    def num_tokens(self) -> int:
        return int(self.offsets[-1] - self.offsets[0])

    def slice(self, start: int, end: int) -> TokenBatch:
        """Documents start to end, end excluded; shares the tokens."""
        if start == 0 and end == self.num_documents:
            return self
        first, last = int(self.offsets[start]), int(self.offsets[end])
        return TokenBatch(
            self.tokens[first:last],
            self.offsets[start : end + 1] - first,
            self.ids[start:end],
            self.langs[start:end],
            self.sources[start:end],
            self.ordinals[start:end],
            None if self.metadata is None else self.metadata.slice(start, end - start),
        )

    def without_tokens(self) -> TokenBatch:
        """The same documents, as if all were empty."""
        return self._replace(tokens=np.zeros(0, np.int32), offsets=np.zeros(self.num_documents + 1, np.int64))

    def replace_ids(self, replacer: Replacer) -> TokenBatch:
        """The same documents with other ids. Raises FormatError for an id that the replacer does not know."""
        try:
            tokens, offsets = replacer.replace(self.tokens, self.offsets)
        except ValueError as error:
            raise FormatError(f"{error}: were the ids made by another tokenizer?") from error
        return self._replace(tokens=tokens, offsets=offsets)

    def take(self, where: Sequence[int]) -> TokenBatch:
        """The documents at these positions, in that order."""
        lengths = np.diff(self.offsets)[where]
        offsets = np.zeros(len(where) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        parts = [self.tokens[self.offsets[i] : self.offsets[i + 1]] for i in where]
        return TokenBatch(
            np.concatenate(parts) if parts else np.zeros(0, np.int32),
            offsets,
            [self.ids[i] for i in where],
            self.langs.take(where),
            self.sources.take(where),
            self.ordinals[where],
            None if self.metadata is None else self.metadata.take(pa.array(where, pa.int64())),
        )


def count_in_rows(batch: TokenBatch, id: int) -> npt.NDArray[np.int64]:
    """How often each document of the batch has that id, int64."""
    before = np.zeros(len(batch.tokens) + 1, np.int64)
    np.cumsum(batch.tokens == id, out=before[1:])
    start = batch.offsets[0]
    found: npt.NDArray[np.int64] = np.diff(before[batch.offsets - start])
    return found


def join_batches(batches: Sequence[TokenBatch]) -> TokenBatch:
    """One batch with the documents of several, in order."""
    if len(batches) == 1:
        return batches[0]
    offsets = np.zeros(1 + sum(batch.num_documents for batch in batches), np.int64)
    lengths = [np.diff(batch.offsets) for batch in batches]
    np.cumsum(np.concatenate(lengths) if lengths else np.zeros(0, np.int64), out=offsets[1:])
    tokens = [batch.tokens[batch.offsets[0] : batch.offsets[-1]] for batch in batches]
    return TokenBatch(
        np.concatenate(tokens) if tokens else np.zeros(0, np.int32),
        offsets,
        [name for batch in batches for name in batch.ids],
        join_labels([batch.langs for batch in batches]),
        join_labels([batch.sources for batch in batches]),
        np.concatenate([batch.ordinals for batch in batches]) if batches else np.zeros(0, np.int64),
        _join_metadata([batch.metadata for batch in batches if batch.metadata is not None]),
    )


def _join_metadata(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    if not parts:
        return None
    columns = [pa.concat_arrays([part.column(i) for part in parts]) for i in range(parts[0].num_columns)]
    return pa.RecordBatch.from_arrays(columns, schema=parts[0].schema)


def add_ids(ids: Ids, offsets: Offsets, prepend: Sequence[int], append: Sequence[int]) -> tuple[Ids, Offsets]:
    """Every document's ids between the prepended and the appended ones."""
    if not prepend and not append:
        return ids, offsets
    num = len(offsets) - 1
    grown = offsets + (len(prepend) + len(append)) * np.arange(num + 1)
    out = np.empty(len(ids) + int(grown[-1] - offsets[-1]), np.int32)
    own = np.ones(len(out), bool)
    for added, places in (
        (prepend, grown[:-1, None] + np.arange(len(prepend))),
        (append, grown[1:, None] - np.arange(len(append), 0, -1)),
    ):
        own[places.ravel()] = False
        out[places.ravel()] = np.tile(np.asarray(added, np.int32), num)
    out[own] = ids
    return out, grown


class Rechunker:
    """Cuts a stream of documents into batches whose bounds depend on the documents alone, not on how they arrive.

    A batch ends with the first document with which it reaches max_tokens, max_documents or max_chars, the characters
    of ids, langs, sources and metadata. What waits are views of the arrays that were added: do not write to them any
    more.
    """

    def __init__(self, max_tokens: int, max_documents: int, max_chars: int) -> None:
        self._limits = (max_tokens, max_documents, max_chars)
        self._waiting: list[TokenBatch] = []
        self._filled = (0, 0, 0)

    def add(self, batch: TokenBatch) -> Iterator[TokenBatch]:
        """The batches that these documents complete."""
        num = batch.num_documents
        lengths = np.fromiter((len(name or "") for name in batch.ids), np.int64, num)
        for labels in (batch.langs, batch.sources):
            lengths += np.fromiter(map(len, labels.names), np.int64, len(labels.names))[labels.codes]
        if batch.metadata is not None:
            lengths += count_chars(batch.metadata)
        chars = np.zeros(num + 1, np.int64)
        np.cumsum(lengths, out=chars[1:])
        measures = (batch.offsets, np.arange(num + 1), chars)
        start = 0
        while start < num:
            ends = [
                int(np.searchsorted(measure, measure[start] + limit - filled, side="left"))
                for measure, limit, filled in zip(measures, self._limits, self._filled, strict=True)
            ]
            end = min(*ends, num)
            self._waiting.append(batch.slice(start, end))
            tokens, documents, letters = (int(measure[end] - measure[start]) for measure in measures)
            self._filled = (self._filled[0] + tokens, self._filled[1] + documents, self._filled[2] + letters)
            if any(filled >= limit for filled, limit in zip(self._filled, self._limits, strict=True)):
                yield from self.rest()
            start = end

    def rest(self) -> Iterator[TokenBatch]:
        """The documents that wait for more, as a last batch, if there are any."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._filled = (0, 0, 0)
            yield join_batches(waiting)


class ShardContent:
    """The digest of what is in a shard, whatever format and codec hold it.

    sha256 of "tokcore-shard-v1" and the sha256 of each column's stream, in this order: document_digests, 32 bytes each,
    ids, langs, sources (each value: a byte 1 if it is there, else 0; its UTF-8 length as uint32; the UTF-8), ordinals
    (int64); integers little-endian. Tokens are in it by the documents' digests, so that they are hashed once. Then,
    for each column of metadata in the order of names, the sha256 of its name and of what pack_values gives.
    """

    def __init__(self) -> None:
        self._columns = [hashlib.sha256() for _ in range(5)]
        self._metadata: dict[str, list[hashlib._Hash]] = {}
        self.num_documents = 0
        self.num_tokens = 0
        self.max_token_id = -1

    def update(self, batch: TokenBatch, digests: Sequence[bytes]) -> None:
        """Add documents and their document_digests; how they are dealt into batches does not matter."""
        tokens = batch.tokens[batch.offsets[0] : batch.offsets[-1]]
        parts = (
            b"".join(digests),
            pack_strings(batch.ids),
            pack_labels(batch.langs),
            pack_labels(batch.sources),
            np.ascontiguousarray(batch.ordinals, "<i8").tobytes(),
        )
        for column, part in zip(self._columns, parts, strict=True):
            column.update(part)
        if batch.metadata is not None and batch.num_documents:
            for name, values in zip(batch.metadata.schema.names, batch.metadata.columns, strict=True):
                packed = [*pack_values(values)]
                own = self._metadata.setdefault(name, [hashlib.sha256() for _ in packed])
                for hasher, part in zip(own, packed, strict=True):
                    hasher.update(part)
        self.num_documents += batch.num_documents
        self.num_tokens += len(tokens)
        if len(tokens):
            self.max_token_id = max(self.max_token_id, int(tokens.max()))

    def hexdigest(self) -> str:
        digests = [column.digest() for column in self._columns]
        for name, own in sorted(self._metadata.items()):
            digests += [hashlib.sha256(name.encode()).digest(), *(part.digest() for part in own)]
        return hashlib.sha256(_CONTENT_PREFIX + b"".join(digests)).hexdigest()


def compute_document_digests(langs: Labels, tokens: Ids, offsets: Offsets) -> list[bytes]:
    """The digest of each document, 32 bytes: sha256 of its language and token ids, and of nothing else.

    Of "tokcore-document-tokens-v1", a zero byte, the language's UTF-8 length (uint32), the language, the ids (int32).
    """
    data = np.ascontiguousarray(tokens, "<i4").view(np.uint8).data
    bounds = (offsets * 4).tolist()
    prefixes = [_start_document_hash(lang) for lang in langs.names]
    digests = []
    for i, code in enumerate(langs.codes.tolist()):
        hasher = prefixes[code].copy()
        hasher.update(data[bounds[i] : bounds[i + 1]])
        digests.append(hasher.digest())
    return digests


def _start_document_hash(lang: str) -> hashlib._Hash:
    encoded = lang.encode()
    return hashlib.sha256(_DOCUMENT_PREFIX + struct.pack("<I", len(encoded)) + encoded)


def pack_labels(labels: Labels) -> bytes:
    """What digests take of strings: of each a byte 1, its UTF-8 length (uint32), the UTF-8."""
    return labels.map_to_bytes([_pack(name) for name in labels.names])


def pack_strings(values: Sequence[str | None]) -> bytes:
    """The same of strings that may be absent: of None, a byte 0 and a length of 0."""
    none = _PRESENCE_AND_LENGTH.pack(False, 0)
    return b"".join([none if value is None else _pack(value) for value in values])


def _pack(value: str) -> bytes:
    encoded = value.encode()
    return _PRESENCE_AND_LENGTH.pack(True, len(encoded)) + encoded
