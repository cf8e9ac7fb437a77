"""Shuffled shards, read by intervals of places: what a mixture is made of. No Beam."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterator
from typing import cast

import numpy as np

from tokcore.errors import LedgerError
from tokcore.formats.provenance import Places, Provenance, get_provenance_path
from tokcore.shards.token_batch import TokenBatch
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.local_copies import copy_if_remote
from tokcore_pipelines.work.derived_shards import ShardSource
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shuffle import get_heads, get_interval

# Shards that are read at a time, each of which holds a decoded batch of up to 2^20 tokens.
_MOST_OPEN = 64

# Provenance files that are kept, each about 50 bytes for a document.
_MOST_PROVENANCES = 256


class OrderedShards:
    """The documents of shuffled shards. Neighbouring intervals are read best in ascending order. Close it then."""

    def __init__(self, source: ShardSource, num_parts: int) -> None:
        """num_parts: of the shuffle. Raises StageError if the shards are not those that the stage was started with."""
        self._source = source
        self._num_parts = num_parts
        self._parts: dict[int, list[ShardRef]] = {}
        for shard in source.list_shards():
            self._parts.setdefault(shard.facts.item, []).append(shard)
        self._open: OrderedDict[tuple[int, str], _Cursor] = OrderedDict()
        self._provenances: OrderedDict[str, Provenance] = OrderedDict()

    def read(self, number: int, of: int = 0, reader: int = 0) -> Iterator[tuple[str, TokenBatch, Places]]:
        """(split, documents with the records that they came from, places) of an interval of places, some at a time.

        number, of: the interval is number `number` of `of` equal ones, a power of two that is at least that of the
        parts; 0: of as many as there are parts. reader: intervals that are asked for by the same number in ascending
        order are read in one go. Documents are in order within each shard only.
        """
        of = of or self._num_parts
        start, end = get_interval(number, of)
        for shard in self._parts.get(number * self._num_parts // of, []):
            for batch, places in self.read_shard(shard, start, end, reader):
                yield shard.facts.split, batch, places

    def read_shard(self, shard: ShardRef, start: int, end: int, reader: int = 0) -> Iterator[tuple[TokenBatch, Places]]:
        """The same of one shard: documents with heads from start to end, end excluded."""
        provenance = self.get_provenance(shard)
        heads = get_heads(provenance.places)
        first = int(np.searchsorted(heads, np.uint64(start), side="left"))
        last = int(np.searchsorted(heads, np.uint64(end - 1), side="right"))
        if first == last:
            return
        for at, batch in self._get_cursor(reader, shard).read(first, last):
            yield provenance.restore(batch, at), provenance.places[at : at + batch.num_documents]

    def get_provenance(self, shard: ShardRef) -> Provenance:
        """Where the documents of a shard came from, and their places."""
        stem = shard.facts.stem
        if stem not in self._provenances:
            path = get_provenance_path(stem)
            with copy_if_remote(urls.join(self._source.output, self._source.stage), [path]) as folder:
                self._provenances[stem] = Provenance(f"{folder}/{path}")
            if len(self._provenances) > _MOST_PROVENANCES:
                self._provenances.popitem(last=False)
        self._provenances.move_to_end(stem)
        return self._provenances[stem]

    def close(self) -> None:
        """Free what reading holds: of a shard in a store, its copy on this machine."""
        for cursor in self._open.values():
            cursor.close()
        self._open.clear()

    def _get_cursor(self, reader: int, shard: ShardRef) -> _Cursor:
        key = (reader, shard.facts.stem)
        if key not in self._open:
            self._open[key] = _Cursor(self._source, shard)
            if len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(key)
        return self._open[key]


class _Cursor:
    """The documents of a shard, read on from where it stands; from the beginning if those asked for are before that."""

    def __init__(self, source: ShardSource, shard: ShardRef) -> None:
        self._source = source
        self._shard = shard
        self._begin()

    def _begin(self) -> None:
        self._batches = cast("Generator[TokenBatch, None, None]", self._source.read_batches(self._shard))
        self._batch: TokenBatch | None = None
        self._first = 0  # number of the batch's first document

    def read(self, start: int, end: int) -> Iterator[tuple[int, TokenBatch]]:
        """Documents start to end, end excluded, some at a time; before each, the number of the first."""
        if start < self._first:
            self.close()
            self._begin()
        while start < end:
            self._batch = self._batch or next(self._batches, None)
            if self._batch is None:
                raise LedgerError(f"{self._shard.facts.place}: ends before document {end}, which its provenance has")
            after = self._first + self._batch.num_documents
            if start < after:
                last = min(end, after)
                yield start, self._batch.slice(start - self._first, last - self._first)
                start = last
            if start >= after:
                self._first, self._batch = after, None

    def close(self) -> None:
        self._batches.close()
