"""Documents in shards that tombstones say were removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from tokcore.shards.labels import Labels
from tokcore.shards.token_batch import TokenBatch
from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore.shards.tombstones import Kind
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.store.stored_shards import read_batches
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_manifests import MixtureManifest, ShardsManifest

# With fewer documents, this process is done before workers have started.
WORTH_WORKERS = 500_000


class FoundDocument(NamedTuple):
    """A document that is still in a shard."""

    source: str
    ordinal: int
    tombstones: tuple[str, ...]  # those that it has
    tokens: int = 0
    shard: str = ""  # that it is in
    number: int = 0  # there


def find_removed(
    places: Iterable[tuple[str, ShardsManifest | MixtureManifest]], removed: TombstoneLookup, workers: Workers
) -> Iterator[tuple[str, FoundDocument]]:
    """(place, document) for the documents in shards that have one of these tombstones. Reads all shards.

    They come shard by shard, in any order, since there may be too many for memory.

    places: (URL of a build's output, manifest of its shards, or of its mixture). workers: used if there are many
    documents; each takes a shard at a time. Raises FormatError for a damaged shard.
    """
    shards = [(output, shard, made.stage) for output, made in places for shard in list_named_shards(made)]
    is_worth_it = sum(shard.facts.documents for _, shard, _ in shards) >= WORTH_WORKERS
    pool = workers.start() if is_worth_it else None
    if pool is None:
        for output, shard, stage in shards:
            yield from ((output, found) for found in look_through(output, shard, stage, removed))
        return
    for number, looked in pool.run_all((look_through, (*one, removed)) for one in shards):
        output = shards[number][0]
        yield from ((output, found) for found in looked)


def look_through(output: str, shard: ShardRef, stage: str, removed: TombstoneLookup) -> list[FoundDocument]:
    """The documents of a shard of an output that have one of these tombstones. stage: that wrote it."""
    looked, first = [], 0
    for batch in read_batches(output, shard, stage, names_sources=True):
        for found in find_removed_documents(batch, removed):
            looked.append(found._replace(shard=shard.facts.stem, number=first + found.number))
        first += batch.num_documents
    return looked


def find_removed_documents(batch: TokenBatch, removed: TombstoneLookup) -> list[FoundDocument]:
    """The documents of a batch that have one of these tombstones, numbered from its first one."""

    def has(kind: Kind, name: str) -> str:
        tombstone = removed.spell(kind, name)
        return tombstone if tombstone in removed else ""

    def look_up(kind: Kind, labels: Labels) -> list[str]:
        found = [has(kind, name) for name in labels.names]
        return [found[code] for code in labels.codes.tolist()]

    documents = []
    langs, sources = look_up("lang", batch.langs), look_up("source", batch.sources)
    ids = [""] * batch.num_documents
    for i in np.flatnonzero(removed.mark("id", batch.ids)).tolist():
        ids[i] = removed.spell("id", batch.ids[i] or "")
    for i, tombstones in enumerate(zip(ids, langs, sources, strict=True)):
        if any(tombstones):
            kept = tuple(filter(None, tombstones))
            tokens = int(batch.offsets[i + 1]) - int(batch.offsets[i])
            documents.append(FoundDocument(batch.sources[i], int(batch.ordinals[i]), kept, tokens, number=i))
    return documents
