"""Documents read back out of shards, where their source is gone: the tokens of a lossless tokenizer, decoded.

What a range of a file held comes from the shards of the part that holds the file: ids, languages and numbers of records
as they are stored, and the text that the tokens spell. Rejected records are in no shard, so none is found again.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tokcore.shards.labels import label_strings
from tokcore.shards.token_batch import TokenBatch
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.reading.input_range import Batch, Meter
from tokcore_pipelines.reading.records import BATCH_BYTES, BATCH_RECORDS
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.manifests import read_manifest
from tokcore_pipelines.store.tokenizers import load_tokenizer
from tokcore_pipelines.work.read_plan import read_plan
from tokcore_pipelines.work.read_shards import count_around, decode_texts, read_restored, read_shard
from tokcore_schemas.commit_log import OWN, PARTS
from tokcore_schemas.plan import AssignedRange
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import list_item_shards, list_named_shards
from tokcore_schemas.stage_table import PLAN, SHARDS


class _Document(NamedTuple):
    ordinal: int  # of the record, as shards have it
    text: bytes
    id: str | None
    lang: str
    metadata: Mapping[str, Any]


class _Held(NamedTuple):
    """A range of a file, and the shards of the work item that read it."""

    start: int
    end: int
    shards: list[ShardRef]


class _Part(NamedTuple):
    """A part whose shards are read. held: uri of an input file -> its ranges. around: as count_around gives it."""

    url: str
    around: tuple[int, int]
    tokenizer: Tokenizer
    held: dict[str, list[_Held]]
    shuffled: list[ShardRef] | None  # any of which may have documents of any file; None: it is not shuffled


def read_tokens(output: str, r: AssignedRange, meter: Meter) -> Iterator[Batch]:
    """The documents of a range, in order, in batches; at least one batch, which may be empty.

    output: URL of the part that is being made; r.settings says whose shards are read. meter: is told all bytes of the
    range at the end. Raises FormatError or StageError for a shard that is gone or damaged.
    """
    above = output.rpartition("/")[0]
    root = above.rpartition("/")[0] if above.endswith(f"/{PARTS}") else output
    path = r.settings.decoded_from
    part = _open_part(root if path == OWN else urls.join(root, path))
    streams = [_decode_shard(part, shard, r) for shard in _list_shards(part, r)]
    held: list[_Document] = []
    size = 0
    for document in heapq.merge(*streams, key=lambda one: one.ordinal):
        held.append(document)
        size += len(document.text)
        if size >= BATCH_BYTES or len(held) >= BATCH_RECORDS:
            yield _make_batch(held, r)
            held, size = [], 0
    meter.stored_bytes = r.stored_bytes
    yield _make_batch(held, r)


def _make_batch(held: list[_Document], r: AssignedRange) -> Batch:
    return Batch(
        texts=make_texts_from_strings([one.text for one in held]),
        ids=[one.id or "" for one in held] if r.settings.id else None,
        langs=label_strings([one.lang for one in held]),
        ordinals=np.array([one.ordinal - r.start for one in held], np.int64),
        rejects=[],
        num_records=len(held),
        fields={one.name: [document.metadata.get(one.name) for document in held] for one in r.settings.metadata},
    )


def _list_shards(part: _Part, r: AssignedRange) -> list[ShardRef]:
    """The shards of the work items that read something of a range; of a shuffled part, all."""
    if part.shuffled is not None:
        return part.shuffled
    found = {
        shard.facts.stem: shard
        for one in part.held.get(r.uri, ())
        if not r.is_cut or (one.start < r.end and r.start < one.end)
        for shard in one.shards
    }
    return [*found.values()]


def _decode_shard(part: _Part, shard: ShardRef, r: AssignedRange) -> Iterator[_Document]:
    """The documents of a range that are in a shard, by ordinal."""
    if part.shuffled is not None:
        # Sorted here: a shuffled shard has few of a range.
        yield from sorted(_decode_batches(part, read_restored(part.url, shard), r), key=lambda one: one.ordinal)
        return
    # A work item reads one range of a file at most, so all that its shards have of this file is of this range.
    yield from _decode_batches(part, (batch for batch, _ in read_shard(part.url, shard)), r)


def _decode_batches(part: _Part, batches: Iterable[TokenBatch], r: AssignedRange) -> Iterator[_Document]:
    """The documents of a range, in the order of the batches that some of them are in."""
    for batch in batches:
        if r.uri not in batch.sources.names:
            continue
        is_asked = batch.sources.codes == batch.sources.names.index(r.uri)
        if part.shuffled is not None and r.is_cut:
            is_asked &= (r.start <= batch.ordinals) & (batch.ordinals < r.end)
        found = batch.take(np.flatnonzero(is_asked).tolist())
        texts = decode_texts(part.tokenizer, found, part.around)
        own: Iterable[Mapping[str, Any]] = (
            found.metadata.to_pylist() if found.metadata is not None else itertools.repeat({})
        )
        yield from map(_Document, found.ordinals.tolist(), texts, found.ids, found.langs, own)


@functools.lru_cache(maxsize=4)
def _open_part(url: str) -> _Part:
    """A part, and which of its shards may have documents of which files. Kept: parts never change."""
    plan, made = read_plan(url, read_manifest(url, PLAN)), read_manifest(url, SHARDS)
    shards = list_item_shards(made)
    held: dict[str, list[_Held]] = {}
    for item in plan.items:
        for one in item.ranges:
            held.setdefault(plan.files[one.file].uri, []).append(_Held(one.start, one.end, shards.get(item.number, [])))
    shuffled = list_named_shards(made) if made.config.shuffle is not None else None
    return _Part(url, count_around(made.config), load_tokenizer(url), held, shuffled)
