"""The documents that a new part no longer has: those of work items that are gone, and those that were removed.

They are read once for all items, so that the sums of the part before can be reduced by them. No Beam.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tokcore.shards.token_batch import TokenBatch, count_in_rows
from tokcore.text.texts import make_texts_from_strings
from tokcore.tokenizer.tokenizer import Tokenizer
from tokcore_pipelines.reading.records import Batch
from tokcore_pipelines.store.opened_tombstones import open_tombstones
from tokcore_pipelines.work.derived_shards import ShardSource
from tokcore_pipelines.work.item_reader import ItemReader, keep_removed, mark_removed
from tokcore_pipelines.work.read_shards import decode_texts, read_restored, read_shard
from tokcore_schemas.inheritance import InheritedSums, ItemNotTakenOver, ThinnedItem
from tokcore_schemas.plan import ReadSettings
from tokcore_schemas.refs import LanguageCounts, RangeLedger, ShardRef
from tokcore_schemas.stage_table import SHARDS
from tokcore_schemas.tombstones import Tombstones


class Read(NamedTuple):
    """Documents of a file, and how it was read. split: empty where it follows from that and from their keys."""

    settings: ReadSettings
    batch: Batch
    split: str = ""
    uri: str = ""


class Leaving:
    """Reads the documents that leave. After that it knows the ledgers of the files from which some were removed."""

    def __init__(self, less: InheritedSums, base: str) -> None:
        """base: folder against which relative uris are resolved."""
        self._less = less
        self._base = base
        self._num_removed = Counter[int]()  # by number of a file
        self._removed_bytes = Counter[int]()

    def read(self, load: Callable[[], Tokenizer]) -> Iterator[Read]:
        """The documents. load: gives the tokenizer, which is only asked for where files are gone."""
        lost = []
        for gone in self._less.gone:
            if gone.is_there:
                for source, batch in ItemReader(gone.assignment, self._base, output=self._less.output):
                    yield Read(source.settings, batch, uri=source.uri)
            else:
                lost.append(gone)
        yield from self._read_lost(lost, load)
        for thinned in self._less.thinned:
            yield from self._read_removed(thinned)

    def _read_lost(self, items: Sequence[ItemNotTakenOver], load: Callable[[], Tokenizer]) -> Iterator[Read]:
        """The documents of gone items whose files are not as they were read: as their tokens spell them."""
        if not items:
            return
        tokenizer = load()
        settings_of = {one.uri: one.settings for item in items for one in item.assignment.ranges}
        for split, tokens in self._read_shards_of(items):
            for uri, where in tokens.sources.by_label().items():
                if uri not in settings_of:  # of a shuffled shard
                    continue
                own = tokens.take(where.tolist())
                texts = make_texts_from_strings(decode_texts(tokenizer, own, self._less.around))
                batch = Batch(texts, None, own.langs, own.ordinals, [], own.num_documents)
                yield Read(settings_of[uri], batch, split, uri)

    def _read_shards_of(self, items: Sequence[ItemNotTakenOver]) -> Iterator[tuple[str, TokenBatch]]:
        """(split, documents) of shards that have all documents of these items; if shuffled, others, too."""
        output, shuffled = self._less.output, self._less.shuffled
        if shuffled is None:
            for shard in (shard for item in items for shard in item.shards):
                yield from ((shard.facts.split, tokens) for tokens, _ in read_shard(output, shard))
            return
        for shard in ShardSource(output, SHARDS.name, shuffled.sha256).list_shards():
            yield from ((shard.facts.split, tokens) for tokens in read_restored(output, shard))

    def _read_removed(self, item: ThinnedItem) -> Iterator[Read]:
        """The documents that are removed now. Those that were before are in no sum."""
        assert self._less.removed is not None
        names = open_tombstones(self._less.removed, self._less.output)
        for source, batch in ItemReader(item.assignment, self._base, output=self._less.output):
            removed = keep_removed(batch, names)
            self._num_removed[source.file] += removed.texts.num_texts
            self._removed_bytes[source.file] += removed.texts.size_bytes
            if removed.texts.num_texts:
                yield Read(source.settings, removed, uri=source.uri)

    def list_ledgers(self) -> tuple[RangeLedger, ...]:
        """The ledgers of files from which documents were removed, without these. The first range has all of a file."""
        return tuple(
            self._subtract(ledger) if ledger.start == 0 else ledger
            for item in self._less.thinned
            for ledger in item.ledgers
        )

    def _subtract(self, ledger: RangeLedger) -> RangeLedger:
        num = self._num_removed[ledger.file]
        return dataclasses.replace(
            ledger,
            num_documents=ledger.num_documents - num,
            text_bytes=ledger.text_bytes - self._removed_bytes[ledger.file],
            num_removed=ledger.num_removed + num,
        )


def count_tokens(
    output: str, shards: Iterable[ShardRef], removed: Tombstones | None, unknown: int | None
) -> Iterator[dict[str, LanguageCounts]]:
    """The number of tokens of each language in shards of an output, and of unknown tokens among them.

    removed: count only documents that were removed; None: count all. unknown: the id of the unknown token, if there is
    one.
    """
    names = open_tombstones(removed, output) if removed is not None else None
    for shard in shards:
        for tokens, _ in read_shard(output, shard):
            if names is not None:
                tokens = tokens.take(np.flatnonzero(mark_removed(tokens.ids, tokens.langs, names)).tolist())
            lengths = np.diff(tokens.offsets)
            of_each = count_in_rows(tokens, unknown) if unknown is not None else np.zeros_like(lengths)
            yield {
                lang: LanguageCounts(0, 0, num_tokens=int(lengths[where].sum()), num_unknown=int(of_each[where].sum()))
                for lang, where in tokens.langs.by_label().items()
            }
