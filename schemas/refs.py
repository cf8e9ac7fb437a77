"""Small descriptions of files and of work done: all that travels between workers.

Documents, tables and tokens stay in memory or in files.
"""

from __future__ import annotations

import base64
import dataclasses
import operator
from collections.abc import Callable, Iterator, Sequence

from tokcore.files.canonical_json import hash_sha256
from tokcore.files.jsonable import written_unless
from tokcore.formats.shard_facts import ShardFacts
from tokcore_schemas.count_key import CountKey
from tokcore_schemas.plan import AssignedRange, Rejection


@dataclasses.dataclass(frozen=True, slots=True)
class FilePart:
    """A file that holds some rows of a table: those behind the rows of the part before."""

    path: str  # below that of the table
    size_bytes: int  # as stored
    sha256: str  # of the file as stored
    rows: int
    attempt: str = written_unless("")  # as of StoredFile; a manifest has none


@dataclasses.dataclass(frozen=True, slots=True)
class StoredFile:
    """One finished file: where an attempt left it, and what its bytes are. Or a table of parts, each a file."""

    path: str  # final place, relative to the stage's folder
    attempt: str  # name under the stage's attempt folder
    size_bytes: int  # as stored, after compression
    sha256: str  # of the file as stored, lowercase hex
    content_sha256: str  # of the uncompressed content, the same whatever the codec
    parts: tuple[FilePart, ...] = written_unless(())  # in order; then path is their folder, and the rest see join_parts

    def list_files(self) -> Iterator[StoredFile]:
        """The files that there are: this one, or its parts."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield StoredFile(f"{self.path}/{part.path}", part.attempt, part.size_bytes, part.sha256, part.sha256)


def join_parts(path: str, content_sha256: str, parts: Sequence[FilePart]) -> StoredFile:
    """A table of parts: its size is that of all of them, its sha256 is that of theirs, one after another.

    >>> parts = FilePart("00000.parquet", 5, "ab" * 32, 2), FilePart("00001.parquet", 7, "cd" * 32, 3)
    >>> table = join_parts("en.parquet", "", parts)
    >>> table.size_bytes, [file.path for file in table.list_files()]
    (12, ['en.parquet/00000.parquet', 'en.parquet/00001.parquet'])
    """
    sha256 = hash_sha256("".join(part.sha256 for part in parts).encode())
    return StoredFile(path, "", sum(part.size_bytes for part in parts), sha256, content_sha256, tuple(parts))


@dataclasses.dataclass(frozen=True, slots=True)
class RunRef:
    """A sorted run: bytes [offset, offset + size_bytes) of a file in the stage's attempt folder."""

    key: str  # of counts of pre-tokens, CountKey.spell() where all rows are of one table; else empty
    partition: int  # of counts of pre-tokens, the range of keys; of other runs, what they are dealt by
    attempt: str
    offset: int
    size_bytes: int
    sha256: str  # of those bytes; of a run in a RunFile, the digits that this keeps


# In a RunFile, of each run: its size in bytes, little-endian, and the beginning of its sha256.
_SIZE_BYTES, _DIGEST_BYTES = 6, 6
_ENTRY_BYTES = _SIZE_BYTES + _DIGEST_BYTES


@dataclasses.dataclass(frozen=True, slots=True)
class RunFile:
    """Sorted runs of counts in one file, back to back: one for each range of keys. An empty one takes no bytes.

    However many there are, they are two strings: a build of 100 TB has millions of such files.
    """

    attempt: str
    size_bytes: int
    packed: str  # twelve bytes of each run, as base64

    def list_runs(self) -> Iterator[RunRef]:
        """The runs that hold rows."""
        entries, offset = base64.b64decode(self.packed), 0
        for start in range(0, len(entries), _ENTRY_BYTES):
            middle, end = start + _SIZE_BYTES, start + _ENTRY_BYTES
            if size_bytes := int.from_bytes(entries[start:middle], "little"):
                digest = entries[middle:end].hex()
                yield RunRef("", start // _ENTRY_BYTES, self.attempt, offset, size_bytes, digest)
            offset += size_bytes


def pack_runs(attempt: str, runs: Sequence[RunRef]) -> RunFile:
    """The runs of a file, which are all that it holds. runs: in its order, which is that of their partitions.

    >>> file = pack_runs("a", [RunRef("", 2, "a", 0, 9, "0123456789abcdef" * 4), RunRef("", 5, "a", 9, 1, "f" * 64)])
    >>> [(run.partition, run.offset, run.size_bytes, run.sha256) for run in file.list_runs()]
    [(2, 0, 9, '0123456789ab'), (5, 9, 1, 'ffffffffffff')]
    """
    entries = bytearray((runs[-1].partition + 1) * _ENTRY_BYTES if runs else 0)
    for run in runs:
        start = run.partition * _ENTRY_BYTES
        digest = bytes.fromhex(run.sha256)[:_DIGEST_BYTES]
        entries[start : start + _ENTRY_BYTES] = run.size_bytes.to_bytes(_SIZE_BYTES, "little") + digest
    return RunFile(attempt, sum(run.size_bytes for run in runs), base64.b64encode(entries).decode())


@dataclasses.dataclass(frozen=True, slots=True)
class OverlapRef:
    """A document that is not kept, since it shares a run of words with items of a test."""

    record: int  # within the range; in the ledger of a file, within the file
    rule: str
    items: tuple[tuple[int, int], ...]  # of each: number of its file in the rule, and of the record in it


@dataclasses.dataclass(frozen=True, slots=True)
class RangeLedger:
    """What became of the records of one input range."""

    file: int
    start: int
    size_bytes: int  # stored bytes of the range, as planned
    read_bytes: int  # stored bytes of the records that it owns, as read; of the whole file where files are not cut
    num_records: int
    num_documents: int
    text_bytes: int  # of the accepted documents, before normalizing
    rejected: dict[str, int]  # reason -> records
    rejected_file: str  # reason for which the file as a whole was rejected; empty if it was not
    skipped: dict[str, int] | None = written_unless(None)  # kind of no document -> number
    num_removed: int = written_unless(0)  # documents that tombstones leave out
    # Language -> rule and reason -> records that were documents and that a filter dropped.
    filtered: dict[str, dict[str, int]] | None = written_unless(None)
    # Language -> documents whose records spell it otherwise, those that tombstones leave out included.
    respelled: dict[str, int] | None = written_unless(None)
    # Language -> kind -> spans that a mask found, those of documents that are not kept included.
    masked: dict[str, dict[str, int]] | None = written_unless(None)
    # Language -> line or paragraph, and bytes -> number that documents do not have, as they were duplicates.
    cut: dict[str, dict[str, int]] | None = written_unless(None)
    overlaps: tuple[OverlapRef, ...] = written_unless(())


@dataclasses.dataclass(frozen=True, slots=True)
class LanguageCounts:
    """Totals of one language over the accepted documents of a work item."""

    num_documents: int
    text_bytes: int
    num_counted: int = 0  # documents counted, after sampling
    counted_bytes: int = 0  # their bytes, normalized
    num_pretokens: int = 0
    num_tokens: int = 0  # appended tokens included
    masked_bytes: int = 0  # of the pre-tokens that were not counted because they touch a masked span
    num_unknown: int = 0  # of the tokens, those that stand for text without tokens

    def __add__(self, other: LanguageCounts) -> LanguageCounts:
        return LanguageCounts(*map(operator.add, self.values(), other.values()))

    def values(self) -> tuple[int, ...]:
        """All fields, in order."""
        return _get_counts(self)


# Not dataclasses.astuple, which takes ten times as long: a crawl has millions of these.
_get_counts: Callable[[LanguageCounts], tuple[int, ...]] = operator.attrgetter(
    *(field.name for field in dataclasses.fields(LanguageCounts))
)


@dataclasses.dataclass(frozen=True, slots=True)
class RejectRef:
    """One rejected record, or one rejected file (record is None)."""

    file: int
    start: int  # of the range
    record: int | None  # within the range
    reason: str
    detail: str
    sample: str  # capped and escaped


@dataclasses.dataclass(frozen=True, slots=True)
class ItemDigested:
    """A work item of which each document has a digest: candidates in sorted runs, whose partitions are buckets."""

    item: int
    documents: int  # with a digest
    runs: tuple[RunRef, ...]
    dropped: RunRef  # places of the documents whose duplicates in the same run stay before them


@dataclasses.dataclass(frozen=True, slots=True)
class ItemRun:
    """A run, and the work item whose documents it is about."""

    item: int
    run: RunRef


@dataclasses.dataclass(frozen=True, slots=True)
class JudgePart:
    """A piece of work of deduplication: the candidates of a bucket, of all work items."""

    number: int
    runs: tuple[ItemRun, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PartJudged:
    """A bucket in which all duplicates are known."""

    number: int
    dropped: tuple[ItemRun, ...]  # their places


@dataclasses.dataclass(frozen=True, slots=True)
class DropPiece:
    """A piece of work of deduplication: all duplicates of a work item."""

    number: int
    places: tuple[tuple[str, int], ...]  # uri and first byte of each of its ranges
    runs: tuple[RunRef, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ItemDropped:
    """A work item whose duplicates are in a file."""

    number: int
    file: StoredFile
    duplicates: int


@dataclasses.dataclass(frozen=True, slots=True)
class ItemCounted:
    """A finished work item of the count stage."""

    item: int
    ledgers: tuple[RangeLedger, ...]
    languages: dict[str, LanguageCounts]
    runs: tuple[RunFile, ...]
    masked: dict[str, dict[str, int]]  # language -> preset of count.mask -> spans; empty without a mask
    rejects: StoredFile
    # CountKey.spell() -> what was counted, where rows know more than their language. Nothing else of LanguageCounts.
    origins: dict[str, LanguageCounts] | None = written_unless(None)


@dataclasses.dataclass(frozen=True, slots=True)
class TablePart:
    """The rows of a count table in one range of keys, as the worker of that range leaves them."""

    key: str  # CountKey.spell()
    number: int  # among those of the table, from 0; there are none of ranges without rows
    file: FilePart


@dataclasses.dataclass(frozen=True, slots=True)
class TableRef:
    """The finished count table of one language, or of its documents of a split and a source."""

    lang: str
    file: StoredFile
    num_rows: int
    num_pretokens: int
    size_bytes: int  # of all pre-token bytes, each row once
    split: str = written_unless("")
    source: str = written_unless("")

    @property
    def key(self) -> CountKey:
        return CountKey(self.lang, self.split, self.source)


@dataclasses.dataclass(frozen=True, slots=True)
class ShardRef:
    """One token shard, finished or as a manifest names it: the same documents in every configured format."""

    facts: ShardFacts
    content_sha256: str  # of tokens, document bounds and the columns beside them
    files: tuple[StoredFile, ...]  # as a manifest names them, their attempts are empty


@dataclasses.dataclass(frozen=True, slots=True)
class HashedDocuments:
    """The digest of some documents, which can be added to that of others."""

    documents: int
    digest: str  # as tokcore.shards.documents_digest gives it


def spell_shard_name(split: str, item: int, number: int) -> str:
    """The name of the shard that comes after number others of its work item, split and folder.

    >>> spell_shard_name("train", 3, 1)
    'train-00003-00001'
    """
    return f"{split}-{item:05d}-{number:05d}"


@dataclasses.dataclass(frozen=True, slots=True)
class ShardEncoded:
    """A finished shard with what its documents add to the totals of their work item, which may not be finished."""

    shard: ShardRef
    languages: dict[str, LanguageCounts]  # pre-tokens and tokens; what was read is the item's to count
    hashed: HashedDocuments
    token_counts: (
        RunRef | None
    )  # what tokcore.count.token_counts reads; None if the shard is not recorded before its item


@dataclasses.dataclass(frozen=True, slots=True)
class ScatteredRun:
    """Documents of a work item that are in one bucket of a shuffle, in the order of their places."""

    run: RunRef  # its partition is the bucket
    documents: int
    tokens: int


@dataclasses.dataclass(frozen=True, slots=True)
class Spilled:
    """Some documents of a work item in an attempt file, dealt into buckets; the item may not be finished."""

    documents: int
    runs: tuple[ScatteredRun, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ItemScattered:
    """A finished work item of the first pass of a shuffle: tokenized, but not in shards yet."""

    item: int
    ledgers: tuple[RangeLedger, ...]
    languages: dict[str, LanguageCounts]  # what was read; tokens follow when documents are in shards
    runs: tuple[ScatteredRun, ...]
    special_text: dict[str, int]  # special token -> times that corpus text spells it
    rejects: StoredFile


@dataclasses.dataclass(frozen=True, slots=True)
class ShufflePart:
    """A piece of work of a shuffle's second pass: an interval of places, and the runs with documents in it."""

    number: int
    num_parts: int  # a power of two
    num_buckets: int
    result_key: str  # of the shards
    runs: tuple[ScatteredRun, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class RangeToProve:
    """A piece of work before documents are read: a range of a file that is cut and can be rejected whole."""

    number: int
    range: AssignedRange


@dataclasses.dataclass(frozen=True, slots=True)
class RangeProved:
    """Whether such a range is sound."""

    file: int  # index into the plan's files
    start: int
    rejection: Rejection | None  # None: it is


@dataclasses.dataclass(frozen=True, slots=True)
class PartToSurvey:
    """A piece of work of a part that takes over shuffled shards: a part of the shuffle that wrote them."""

    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class ShardSurveyed:
    """A shuffled shard of the part before, and what of it stays."""

    first: str  # places of its first and last document, hexadecimal
    last: str
    leaving_tokens: int  # of documents that leave
    whole: ShardEncoded | None  # if all documents stay; its pre-tokens are in no shard


@dataclasses.dataclass(frozen=True, slots=True)
class PartSurveyed:
    """The shards of a part of the shuffle before, in the order of the manifest."""

    number: int
    shards: tuple[ShardSurveyed, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PartGathered:
    """A finished part of a shuffle."""

    number: int
    languages: dict[str, LanguageCounts]  # pre-tokens and tokens
    shards: tuple[ShardRef, ...]
    hashed: HashedDocuments  # of its shards
    token_counts: RunRef  # of its shards


@dataclasses.dataclass(frozen=True, slots=True)
class MixPart:
    """A piece of work of a mixture: a part of the shuffle to measure, or a part of the mixture to write."""

    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """Training documents of a language, a source and a partition, in a part of the shuffle."""

    lang: str
    source: str  # its name; empty if it has none
    documents: int
    tokens: int
    cells: tuple[int, ...]  # tokens, by the second half of their documents' places: tokcore_schemas.copies
    partition: str = written_unless("")  # by the keys of the mixture's receipts


@dataclasses.dataclass(frozen=True, slots=True)
class PartMeasured:
    """A measured part of a shuffle."""

    number: int
    validation_documents: int
    validation_tokens: int
    measured: tuple[Measured, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class MixedSums:
    """Training documents of a language, a source and a partition, in a part of a mixture."""

    lang: str
    source: str  # its name; empty if it has none
    documents: int
    tokens: int
    left_out: int  # documents that are in no part, and would be in this one
    repeated: int  # of the documents, those that come again
    partition: str = written_unless("")


@dataclasses.dataclass(frozen=True, slots=True)
class PartMixed:
    """A finished part of a mixture."""

    number: int
    shards: tuple[ShardRef, ...]
    sums: tuple[MixedSums, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PackGroup:
    """What is packed in one piece: some documents of a split, or rows of them back to back."""

    number: int  # among all groups
    folder: str  # of a language or a partition; empty unless shards are kept apart by these
    split: str
    # Documents of the split, end excluded; where documents are concatenated, ids of the split.
    start: int
    end: int
    is_last: bool  # of its split


@dataclasses.dataclass(frozen=True, slots=True)
class PackedSums:
    """What is in some rows."""

    rows: int
    documents: int  # that begin in them
    pieces: int
    cut: int  # of the documents, those that go on in another row
    tokens: int  # padding left out
    padding: int
    removed: int = written_unless(0)  # documents that begin in them, and were taken down in place
    removed_tokens: int = written_unless(0)  # of the padding, what took the place of these

    def __add__(self, other: PackedSums) -> PackedSums:
        return PackedSums(*map(sum, zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))


@dataclasses.dataclass(frozen=True, slots=True)
class GroupPacked:
    """A finished group."""

    number: int
    shards: tuple[ShardRef, ...]
    sums: PackedSums


@dataclasses.dataclass(frozen=True, slots=True)
class ItemEncoded:
    """A finished work item of the encode stage."""

    item: int
    ledgers: tuple[RangeLedger, ...]
    languages: dict[str, LanguageCounts]
    shards: tuple[ShardRef, ...]
    hashed: HashedDocuments  # of its shards
    token_counts: RunRef  # of its shards
    special_text: dict[str, int]  # special token -> times that corpus text spells it
    rejects: StoredFile


@dataclasses.dataclass(frozen=True, slots=True)
class ShardsCommitted:
    """What WriteShards committed: equal documents and settings give equal content ids."""

    folder: str  # URL; tokcore.open_shards takes it
    content_id: str  # of the manifest
    shards: int
    documents: int
    tokens: int
