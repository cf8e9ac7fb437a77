"""Documents between the two passes of a shuffle: tokenized, in attempt files, in the order of their places.

A file has a section for each bucket, an Arrow stream. A section is read whole, for a worker of the first pass held all
of it in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tokcore.errors import LedgerError
from tokcore.files.arrow_files import Sink
from tokcore.files.canonical_json import Sha256Writer, hash_sha256
from tokcore.formats.arrow_columns import make_own_arrays, take_own_columns
from tokcore.formats.provenance import PLACE_BYTES, Places
from tokcore.shards.labels import label_arrow
from tokcore.shards.token_batch import TokenBatch, join_batches
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import Attempts, NewFile
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.encode_job import Positions
from tokcore_schemas.refs import RunRef, ScatteredRun
from tokcore_schemas.shuffle import find_intervals

_SCHEMA = pa.schema(
    [
        pa.field("place", pa.binary(PLACE_BYTES)),
        pa.field("tokens", pa.large_list(pa.int32())),
        pa.field("id", pa.string()),
        pa.field("lang", pa.string()),
        pa.field("source", pa.string()),
        pa.field("ordinal", pa.int64()),
        pa.field("pretokens", pa.int64()),
        pa.field("is_validation", pa.bool_()),
    ]
)
_BATCH_TOKENS = 1 << 22
_BATCH_DOCUMENTS = 1 << 16


class Scattered(NamedTuple):
    """Documents on their way from the first pass of a shuffle to the second."""

    tokens: TokenBatch
    pretokens: Positions
    is_validation: np.ndarray[tuple[int], np.dtype[np.bool_]]
    places: Places

    def take(self, where: Positions) -> Scattered:
        """The documents at these positions, in that order."""
        return Scattered(
            self.tokens.take(where.tolist()), self.pretokens[where], self.is_validation[where], self.places[where]
        )

    def slice(self, start: int, end: int) -> Scattered:
        """Documents start to end, end excluded."""
        own = slice(start, end)
        return Scattered(self.tokens.slice(start, end), self.pretokens[own], self.is_validation[own], self.places[own])

    def sort(self) -> Scattered:
        """The same documents in the order of places; equal ones by source and ordinal.

        Only copies of a document have equal places. They have equal tokens, so no file of tokens tells their order.
        """
        return self.take(find_order(self.tokens, self.places))


def find_order(tokens: TokenBatch, places: Places) -> Positions:
    """The positions of documents in the order of their places; of equal ones, by source and ordinal."""
    words = np.ascontiguousarray(places).view(">u8").astype(np.uint64)
    names = tokens.sources.names
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return np.lexsort((tokens.ordinals, rank[tokens.sources.codes], words[:, 1], words[:, 0]))


def join_scattered(parts: Sequence[Scattered]) -> Scattered:
    """The documents of several, in order."""
    return Scattered(
        join_batches([part.tokens for part in parts]),
        np.concatenate([np.zeros(0, np.int64), *(part.pretokens for part in parts)]),
        np.concatenate([np.zeros(0, bool), *(part.is_validation for part in parts)]),
        np.concatenate([np.zeros((0, PLACE_BYTES), np.uint8), *(part.places for part in parts)]),
    )


def write_scattered(new: NewFile, documents: Scattered, num_buckets: int) -> tuple[ScatteredRun, ...]:
    """Write documents, in any order, to a new file: a sorted run for each bucket that has some."""
    ordered = documents.sort()
    bounds = np.searchsorted(find_intervals(ordered.places, num_buckets), np.arange(num_buckets + 1)).tolist()
    runs = []
    for bucket, (start, end) in enumerate(itertools.pairwise(bounds)):
        if end > start:
            own = ordered.slice(start, end)
            section, offset = Sha256Writer(new.file), new.file.size_bytes
            _write_section(section, own)
            run = RunRef("", bucket, new.attempt, offset, section.size_bytes, section.sha256)
            runs.append(ScatteredRun(run, end - start, own.tokens.num_tokens))
    return tuple(runs)


def read_scattered(attempts: Attempts, ref: ScatteredRun) -> Iterator[Scattered]:
    """The documents of a run, some at a time, in order. Raises LedgerError unless they are what was written."""
    run = ref.run
    url = attempts.url(run.attempt)
    data = storage.read_part(url, run.offset, run.offset + run.size_bytes)
    if hash_sha256(data) != run.sha256:
        raise LedgerError(f"{redact(url)}: at byte {run.offset}: not the documents that were written there")
    for batch in pa.ipc.open_stream(pa.BufferReader(data)):
        place, tokens, ids, langs, sources, ordinals, pretokens, is_validation, *_ = batch.columns
        offsets = tokens.offsets.to_numpy()
        yield Scattered(
            TokenBatch(
                tokens.values.to_numpy()[offsets[0] : offsets[-1]],
                offsets - offsets[0],
                ids.to_pylist(),
                label_arrow(langs),
                label_arrow(sources),
                ordinals.to_numpy(),
                take_own_columns(batch, len(_SCHEMA)),
            ),
            pretokens.to_numpy(),
            is_validation.to_numpy(zero_copy_only=False),
            np.frombuffer(place.buffers()[1], np.uint8)[: len(place) * PLACE_BYTES].reshape(-1, PLACE_BYTES),
        )


def _write_section(file: Sha256Writer, documents: Scattered) -> None:
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("lz4"), use_threads=False)
    own = documents.tokens.metadata
    schema = _SCHEMA if own is None else pa.schema([*_SCHEMA, *own.schema])
    with pa.ipc.new_stream(Sink(file), schema, options=options) as writer:
        offsets = documents.tokens.offsets
        start, num = 0, documents.tokens.num_documents
        while start < num:
            reached = int(np.searchsorted(offsets, offsets[start] + _BATCH_TOKENS, side="left"))
            end = min(max(reached, start + 1), start + _BATCH_DOCUMENTS, num)
            writer.write_batch(_make_record_batch(documents.slice(start, end), schema))
            start = end


def _make_record_batch(own: Scattered, schema: pa.Schema) -> pa.RecordBatch:
    tokens = own.tokens
    places = pa.py_buffer(np.ascontiguousarray(own.places))
    arrays = [
        pa.FixedSizeBinaryArray.from_buffers(pa.binary(PLACE_BYTES), tokens.num_documents, [None, places]),
        pa.LargeListArray.from_arrays(tokens.offsets - tokens.offsets[0], tokens.tokens),
        pa.array(tokens.ids, pa.string()),
        tokens.langs.to_arrow(),
        tokens.sources.to_arrow(),
        pa.array(tokens.ordinals, pa.int64()),
        pa.array(own.pretokens, pa.int64()),
        pa.array(own.is_validation, pa.bool_()),
        *make_own_arrays(tokens),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
