"""What the tasks of `tokcore verify` are given, and what they record.

A record is found again by all that its piece says, versions of files included: a file that changes is looked at again.
"""

from __future__ import annotations

import dataclasses

from tokcore_schemas.plan import Assignment
from tokcore_schemas.refs import HashedDocuments, LanguageCounts, RunRef, ShardRef, TableRef
from tokcore_schemas.stage_manifests import ShardsConfig


@dataclasses.dataclass(frozen=True, slots=True)
class SeenFile:
    """A file of an output as a listing has it."""

    path: str  # below the part
    size_bytes: int
    version: str  # what the store tells one content from another by; empty: it was not there


@dataclasses.dataclass(frozen=True, slots=True)
class FileToHash:
    """A file as a manifest names it."""

    stage: str
    path: str  # below the stage's folder
    size_bytes: int  # committed
    sha256: str  # committed
    version: str  # see SeenFile


@dataclasses.dataclass(frozen=True, slots=True)
class FilesToHash:
    """Some files of a part of the output."""

    part: str  # its path below the output; ".": the output itself
    files: tuple[FileToHash, ...]

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)


@dataclasses.dataclass(frozen=True, slots=True)
class FilesHashed:
    """What was hashed."""

    files: tuple[SeenFile, ...]
    problems: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ShardsToRead:
    """All shards of a work item, or of a part of a shuffle; or one of those that WriteShards made."""

    part: str
    number: int
    config: ShardsConfig
    fingerprint: str  # of the tokenizer
    assignment: Assignment | None  # the work item; None: a shuffle, or no plan
    records: tuple[int, ...]  # in the file of each of its ranges
    num_parts: int  # of the shuffle; 0: there is none
    shards: tuple[ShardRef, ...]  # as the manifest has them, in the order in which they were written
    seen: str  # sha256 over the versions of their files, and over what else decides
    size_bytes: int  # of their files


@dataclasses.dataclass(frozen=True, slots=True)
class ShardsRead:
    """What shards hold, and what is wrong with them."""

    problems: tuple[str, ...]
    brought_back: tuple[str, ...]  # documents that were removed
    differing: tuple[ShardRef, ...]  # those that are not as the manifest has them, as they are
    documents_of: dict[str, int]  # source -> documents
    languages: dict[str, LanguageCounts]
    hashed: HashedDocuments
    ids: RunRef | None  # counts of token ids
    records: RunRef | None  # of shuffled shards: 32 bytes for the record that each document came from


@dataclasses.dataclass(frozen=True, slots=True)
class IdsToAddUp:
    """Counts of token ids, that pieces left."""

    runs: tuple[RunRef, ...]

    @property
    def size_bytes(self) -> int:
        """Of all of them."""
        return sum(run.size_bytes for run in self.runs)


@dataclasses.dataclass(frozen=True, slots=True)
class TableToRead:
    """A count table."""

    part: str
    table: TableRef
    version: str

    @property
    def size_bytes(self) -> int:
        """As stored."""
        return self.table.file.size_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class TableRead:
    """What the table holds."""

    table: TableRef | None  # None: it is damaged
    problems: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PieceToMake:
    """A part of a mixture or a group of rows, to be made again; or to be measured."""

    part: str
    stage: str
    number: int
    shards: tuple[ShardRef, ...]  # that the manifest has of it
    seen: str  # as of ShardsToRead, of all shards that it may be made of
    size_bytes: int  # of its shards


@dataclasses.dataclass(frozen=True, slots=True)
class PieceMade:
    """What making it gave."""

    record: str  # JSON of what a worker of the stage records; empty: it cannot be made
    problems: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ItemsToDecode:
    """Work items whose documents are compared with their source."""

    part: str
    config: ShardsConfig
    assignments: tuple[Assignment, ...]
    shards: tuple[ShardRef, ...]  # of the work items; of a shuffle none: they may be in all
    num_parts: int  # as of ShardsToRead
    limit: int | None  # documents of each work item to compare, at least; None: all
    seen: str  # as of ShardsToRead

    @property
    def size_bytes(self) -> int:
        """Stored bytes of the work items."""
        return sum(one.size_bytes for one in self.assignments)


@dataclasses.dataclass(frozen=True, slots=True)
class ItemsDecoded:
    """What was compared."""

    documents: int
    problems: tuple[str, ...]
