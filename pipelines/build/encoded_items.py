"""What the driver keeps of work items that were encoded: sums over all of them, ledgers and shards of each, packed.

A build of 100 TB has millions of records, and ten million shards. Each record is read, added up and let go.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import TypeVar

from tokcore.shards.documents_digest import DocumentsDigest
from tokcore_pipelines.build.ledger import build_ledger, flatten_ledger
from tokcore_pipelines.build.shard_files import SumOfShards
from tokcore_pipelines.work.gather_part import flatten_run
from tokcore_pipelines.work.language_totals import add_languages
from tokcore_pipelines.work.merge_tree import ToMerge
from tokcore_pipelines.work.token_count_runs import count_groups, make_token_counts_key
from tokcore_schemas.packed_rows import PackedRows
from tokcore_schemas.packed_shards import pack_shards
from tokcore_schemas.refs import (
    HashedDocuments,
    ItemEncoded,
    ItemScattered,
    LanguageCounts,
    PartGathered,
    RangeLedger,
    RunRef,
    ShardRef,
)

Item = TypeVar("Item", ItemEncoded, ItemScattered)


@dataclasses.dataclass(slots=True)
class ReadItems:
    """What was read: the sums over all work items, and what became of their records."""

    languages: dict[str, LanguageCounts] = dataclasses.field(default_factory=dict)
    special_text: Counter[str] = dataclasses.field(default_factory=Counter)  # special tokens that texts spell
    # In plan order; and the attempt files that hold rejects, too.
    ledgers: PackedRows[RangeLedger] = dataclasses.field(
        default_factory=lambda: PackedRows(flatten_ledger, build_ledger)
    )
    rejects: list[str] = dataclasses.field(default_factory=list)

    def add(self, item: Item) -> Item:
        """Take in the next one, which is given back."""
        add_languages(self.languages, item.languages)
        self.special_text.update(item.special_text)
        for one in item.ledgers:
            self.ledgers.append(one)
        if item.rejects.size_bytes:
            self.rejects.append(item.rejects.attempt)
        return item


@dataclasses.dataclass(slots=True)
class WrittenShards:
    """What was written, by all work items or all parts of a shuffle: their shards, in their order, and sums."""

    languages: dict[str, LanguageCounts] = dataclasses.field(default_factory=dict)
    shards: PackedRows[ShardRef] = dataclasses.field(default_factory=pack_shards)
    held: SumOfShards = dataclasses.field(default_factory=SumOfShards)
    partitions: set[str] = dataclasses.field(default_factory=set)
    pieces: int = 0  # work items or parts
    _digest: DocumentsDigest = dataclasses.field(default_factory=DocumentsDigest)

    def add(self, part: ItemEncoded | PartGathered) -> None:
        """Take in the next one."""
        add_languages(self.languages, part.languages)
        self._digest.add_up(part.hashed.digest, part.hashed.documents)
        self.pieces += 1
        for shard in part.shards:
            self.held.add(shard.facts)
            self.partitions.add(shard.facts.partition)
            self.shards.append(shard)

    @property
    def hashed(self) -> HashedDocuments:
        """Of the documents of all shards."""
        return HashedDocuments(self._digest.num_documents, self._digest.hexdigest())


class IdMerges:
    """The merges of counts of token ids, as pieces of a step: one for each group of work items, or of parts."""

    def __init__(self, num: int) -> None:
        """num: of work items or parts, which are then added one after the other."""
        self._groups = [PackedRows(flatten_run, RunRef) for _ in range(count_groups(num))]
        self._added = 0

    def add(self, run: RunRef) -> None:
        """Take in what the next one counted."""
        # As find_group_key deals them.
        self._groups[self._added % len(self._groups)].append(run)
        self._added += 1

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[ToMerge]:
        return (ToMerge(make_token_counts_key(group), tuple(runs)) for group, runs in enumerate(self._groups))
