"""Work items that a part of an output takes over from the part whose place it takes, as workers are told of them.

Such an item is of the same bytes of the same files, read in the same way, as one of the part before. So its shards are
those of that part, and its counts are what the part before counted, less what the items brought that are gone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tokcore.files.jsonable import written_unless
from tokcore_schemas.plan import Assignment, Plan
from tokcore_schemas.refs import LanguageCounts, RangeLedger, RejectRef, ShardRef, StoredFile
from tokcore_schemas.tombstones import Tombstones

SUMS_KEY = "inherited"  # the record key of InheritedSums


@dataclasses.dataclass(frozen=True, slots=True)
class Inheritance:
    """What a new part takes over from a part of the output."""

    output: str  # URL of that part
    before: Plan  # its plan
    kept: Mapping[int, int]  # number of a work item of the new part -> its number there; at least one
    gone: Mapping[int, bool]  # number of each other one there -> whether its files are as they were read
    thinned: Mapping[int, int] = dataclasses.field(default_factory=dict)  # the same of items with removed documents
    again: frozenset[str] = frozenset()  # the uris of the files that hold removed documents
    # Of work items that are gone: uris of the files that the new part has as they were.
    alike: frozenset[str] = frozenset()

    @property
    def first(self) -> int:
        """The number of the new work item whose record has the sums over all kept and thinned items."""
        return min([*self.kept, *self.thinned])


@dataclasses.dataclass(frozen=True, slots=True)
class InheritedItem:
    """What is known of a work item without reading its files. Numbers of files are those of the new plan."""

    output: str  # URL of the part before
    ledgers: tuple[RangeLedger, ...]  # of files from which no document was removed
    rejects: tuple[RejectRef, ...]
    shards: tuple[ShardRef, ...]  # only for the stage that encodes
    bears_sums: bool  # whether the record of this item has the sums over all that are inherited: one of them has
    is_thinned: bool = False  # whether documents of it were removed


@dataclasses.dataclass(frozen=True, slots=True)
class ThinnedItem:
    """A work item without some of its documents. Numbers of files are those of the new plan."""

    assignment: Assignment  # of the files from which documents were removed, without those removed before
    ledgers: tuple[RangeLedger, ...]  # of these files, as they were
    shards: tuple[ShardRef, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ItemNotTakenOver:
    """A work item of the part before, some of whose documents are not in the new one, or come from elsewhere."""

    assignment: Assignment
    is_there: bool  # whether its files still are as they were read; else its documents are taken from its shards
    shards: tuple[ShardRef, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ShuffledBefore:
    """The shards of the part before, where a shuffle dealt the documents of all work items to them."""

    sha256: str  # of their manifest
    num_parts: int  # of the shuffle
    num_tokens: int
    leaving: tuple[str, ...]  # uris of the files whose documents leave
    alike: tuple[str, ...]  # as of Inheritance
    removed: Tombstones | None = None  # documents with one of these leave, too


@dataclasses.dataclass(frozen=True, slots=True)
class InheritedSums:
    """The sums of the part before, and the items whose share in them is to be taken away."""

    output: str  # URL of that part
    around: tuple[int, int]  # how many ids stand before, and after, those of each document's text in its shards
    languages: dict[str, LanguageCounts]
    special_text: dict[str, int]  # only for the stage that encodes
    masked: dict[str, dict[str, int]]  # this and tables only for the stage that counts
    tables: dict[str, StoredFile]  # by CountKey.spell(), below counts/
    gone: tuple[ItemNotTakenOver, ...]
    thinned: tuple[ThinnedItem, ...] = ()
    origins: dict[str, LanguageCounts] | None = written_unless(None)  # as of ItemCounted
    removed: Tombstones | None = None  # what the thinned items lack
    shuffled: ShuffledBefore | None = written_unless(None)


def make_inherited_key(number: int) -> str:
    """The record key of an InheritedItem. number: of the work item."""
    return f"inherited-{number:05d}"
