"""The plan: which bytes of which files are read, cut into ranges and dealt into work items before anything runs.

Every boundary and every name of a build follows from it, so nothing depends on workers or bundles. Leaves to others:
making one (tokcore_pipelines.work.work_items).
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from tokcore.files.jsonable import written_unless
from tokcore_schemas.input_format import Compression
from tokcore_schemas.packed_rows import PackedRows, Row
from tokcore_schemas.tombstones import Tombstones

# Manifests of plans still say how many partitions counts had in earlier releases: one for this many planned bytes.
BYTES_PER_PARTITION = 1 << 30
MAX_PARTITIONS = 256

# Where runs of small files end: where a hash of the uri says; or, in outputs of earlier releases, by size alone.
# few: by hash, and each file counts as so much text that a run has at most a thousand.
Runs = Literal["", "hash", "few"]

# any: only whether it is there. spans: of the text, for masks.
# name: a string or whole number, as of ids.
FieldKind = Literal["string", "number", "boolean", "any", "spans", "name"]


@dataclasses.dataclass(frozen=True, slots=True)
class FieldOfRecord:
    """A field that a filter, a mask or deduplication looks at, or that is carried along."""

    name: str  # or a path
    kind: FieldKind


@dataclasses.dataclass(frozen=True, slots=True)
class MetadataField:
    """A field that goes with each document into shards."""

    name: str  # or a path; the name of the column
    type: str  # tokcore.formats.metadata.TYPES
    default: str = written_unless("")  # as JSON, where a record has none; empty: null
    required: bool = written_unless(False)  # a record without one is rejected

    @property
    def kind(self) -> FieldKind:
        """What records must hold."""
        kinds: dict[str, FieldKind] = {"string": "string", "bool": "boolean"}
        return kinds.get(self.type, "number")


@dataclasses.dataclass(frozen=True, slots=True)
class AttributesFile:
    """A table of attributes, as it was when the build was planned."""

    uri: str  # as of InputFile; where it is read, absolute
    size_bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class Attributes:
    """Tables beside the inputs, whose rows hold fields of documents."""

    join: Literal["id", "ordinal"]  # by id; or by source and ordinal, as shards have them
    missing: Literal["default", "reject", "error"]  # what becomes of a document without a row
    files: tuple[AttributesFile, ...] = ()  # sorted by uri; in a build file's own rule empty
    fields: tuple[str, ...] = ()  # those that the tables hold, sorted; the same
    base: str = written_unless("")  # in memory only: against which sources of rows are resolved


@dataclasses.dataclass(frozen=True, slots=True)
class MapRule:
    """A step of [[map]]: a function of the user's over batches of documents, and what code that is."""

    name: str  # of the ledger
    run: str  # MODULE:FUNCTION, or the name of an entry point
    sha256: str  # of the code (tokcore.plugins.map_code)
    distribution: str = written_unless("")  # name and version of what it belongs to, if that is installed
    version: str = written_unless("")  # that the build file gives


@dataclasses.dataclass(frozen=True, slots=True)
class ItemsFile:
    """A file of items of a test, as it was when the build was planned."""

    uri: str  # as of InputFile; where it is read, absolute
    size_bytes: int
    sha256: str
    format: str
    compression: Compression


@dataclasses.dataclass(frozen=True, slots=True)
class Overlap:
    """Documents that share a run of words with an item of a test are not kept: tokcore.text.quality.overlap."""

    n: int  # words of a run
    field: str  # of the records of the files: field, column, or template
    files: tuple[ItemsFile, ...]  # sorted by uri; in a build file's own rules empty


@dataclasses.dataclass(frozen=True, slots=True)
class FilterRule:
    """A rule that documents must pass to be kept: an expression over fields, a ready rule, or the items of a test."""

    name: str  # of the ledger
    keep: str = written_unless("")  # tokcore_schemas.expressions
    rule: str = written_unless("")  # tokcore.text.quality.RULES
    parameters: str = written_unless("")  # of a ready rule: those that are not its defaults, as canonical JSON
    langs: tuple[str, ...] = written_unless(())  # globs: documents of other languages pass; empty: of all
    overlap: Overlap | None = written_unless(None)


@dataclasses.dataclass(frozen=True, slots=True)
class MaskRule:
    """Spans that documents do not keep."""

    presets: tuple[str, ...] = written_unless(())  # names of tokcore.text.mask_presets, sorted
    regex: tuple[tuple[str, str], ...] = written_unless(())  # (kind, regular expression), sorted
    spans: str = written_unless("")  # field or column that holds spans of the text
    replacement: str = written_unless("")  # text in place of a span; KIND_PLACE in it is its kind
    remove: tuple[str, ...] = written_unless(())  # kinds that nothing replaces, sorted
    drop: tuple[str, ...] = written_unless(())  # kinds that drop the document, sorted

    def spell(self, kind: str) -> str:
        """What stands in place of a span of a kind.

        >>> MaskRule(replacement="[{kind}]", remove=("card",)).spell("email")
        '[email]'
        """
        return "" if kind in self.remove else self.replacement.replace(KIND_PLACE, kind)


KIND_PLACE = "{kind}"
DUPLICATE = "duplicate"  # in ledgers: what deduplication drops
MASK_REASON = "mask"  # in ledgers, before the kind that drops a document
DEFAULT_SPAN_KIND = "span"  # of a span that a field holds without one


@dataclasses.dataclass(frozen=True, slots=True)
class ReadSettings:
    """How to read the files of a source. What a file's format does not use is empty."""

    format: str  # a FileFormat, or the name of a reader of another distribution
    compression: Compression  # of any format but Parquet and Arrow
    text: str  # field or column, or a path (tokcore_schemas.field_path), or a template (tokcore_schemas.field_template)
    id: str  # field or column; empty: there is none
    lang: str  # of all documents; empty: see lang_field
    lang_field: str  # field or column; empty: see lang
    invalid_utf8: Literal["reject", "replace", "bytes"]
    max_document_bytes: int
    unit: Literal["", "file", "line", "paragraph", "separator"]  # of text files: what a document is
    separator: str  # of that unit
    forbidden: tuple[str, ...] = ()  # special texts whose occurrence rejects a document
    encoding: str = written_unless("")  # one of tokcore_schemas.encodings; empty: UTF-8
    delimiter: str = written_unless("")  # of csv and tsv: what stands between fields
    quotes: bool = written_unless(True)  # of csv and tsv: whether fields may be quoted
    validation: bool = written_unless(False)  # all documents are of that split
    group: str = written_unless("")  # field or column; its value decides the split
    name: str = written_unless("")  # of the source, for mixtures; empty: it has none
    # How codes of lang_field are spelled: as BCP 47 does (tokcore_schemas.document); empty: as they are, or there is no
    # field.
    lang_normalize: Literal["", "bcp47"] = written_unless("")
    # Documents to leave out, since they were removed from the output.
    removed: Tombstones | None = written_unless(None)
    # Path of a part of the output whose tokens are decoded in place of the files, which are gone; empty: none is.
    decoded_from: str = written_unless("")
    # (a language as records spell it, the code that is meant), sorted; of lang_field.
    lang_map: tuple[tuple[str, str], ...] = written_unless(())
    # That filters, masks, deduplication and metadata look at, beside the text.
    fields: tuple[FieldOfRecord, ...] = written_unless(())
    metadata: tuple[MetadataField, ...] = written_unless(())  # what goes into shards, sorted by name
    attributes: Attributes | None = written_unless(None)  # tables that hold some of the fields
    maps: tuple[MapRule, ...] = written_unless(())  # what changes or drops documents first, in this order
    mask: MaskRule | None = written_unless(None)  # of all texts then, before filters
    order: int = written_unless(0)  # number of the source, where it decides which of several duplicates stays
    filters: tuple[FilterRule, ...] = written_unless(())  # that documents must pass, in this order
    # Records are taken and rejected as by releases until 2026-11-27. In memory only: no plan says it.
    as_before: bool = written_unless(False)
    plugin: str = written_unless("")  # distribution and version of the reader, if it is not ours


@dataclasses.dataclass(frozen=True, slots=True)
class InputFile:
    """One file of the corpus as it was when the build was planned."""

    uri: str  # as named by the build file: relative to it, or absolute
    size_bytes: int  # as stored
    version: str  # etag, generation or modification time: what changes when the file does
    settings: int  # index into the plan's read settings
    # Of a file that is cut and can be rejected whole: where its ranges end, ascending. A parquet file is cut in rows, a
    # compressed one in places of its text (tokcore_pipelines.reading.seekable).
    cuts: tuple[int, ...] = written_unless(())

    @property
    def extent(self) -> int:
        """Rows or places of the file; 0: its ranges are of stored bytes."""
        return self.cuts[-1] if self.cuts else 0

    @property
    def length(self) -> int:
        """The end of its last range."""
        return self.extent or self.size_bytes


def flatten_file(file: InputFile) -> Row:
    """What build_file(*row) makes again."""
    row = (file.uri, file.size_bytes, file.version, file.settings)
    return (*row, [*file.cuts]) if file.cuts else row


def build_file(uri: str, size_bytes: int, version: str, settings: int, cuts: Iterable[int] = ()) -> InputFile:
    """The inverse of flatten_file."""
    return InputFile(uri, size_bytes, version, settings, tuple(cuts))


def pack_files(files: Iterable[InputFile]) -> PackedRows[InputFile]:
    """The files, in their order, in little memory."""
    return PackedRows(flatten_file, build_file, files)


def take_share(size_bytes: int, length: int, start: int, end: int) -> int:
    """Stored bytes that a range counts for. Those of all ranges of a file add up to its size.

    length: of the file, as its ranges count it.

    >>> [take_share(10, 3, row, row + 1) for row in range(3)]
    [3, 3, 4]
    """
    return size_bytes * end // length - size_bytes * start // length if length else 0


@dataclasses.dataclass(frozen=True, slots=True)
class InputRange:
    """Bytes [start, end) of one file; it owns the records that start in it. Of some files, rows: see InputFile.cuts."""

    file: int  # index into the plan's files
    start: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True)
class WorkItem:
    """What one worker does without a pause: one range of a large file, or a run of small files."""

    number: int
    ranges: tuple[InputRange, ...]
    size_bytes: int


def _flatten_item(item: WorkItem) -> Row:
    return (item.number, [(r.file, r.start, r.end) for r in item.ranges], item.size_bytes)


def _build_item(number: int, ranges: list[tuple[int, int, int]], size_bytes: int) -> WorkItem:
    return WorkItem(number, tuple(InputRange(*r) for r in ranges), size_bytes)


def pack_items(items: Iterable[WorkItem] = ()) -> PackedRows[WorkItem]:
    """The work items, in their order, in little memory."""
    return PackedRows(_flatten_item, _build_item, items)


@dataclasses.dataclass(frozen=True, slots=True)
class Rejection:
    """Why a file is rejected whole: what one of its ranges, which were proved first, gave."""

    reason: str
    detail: str


@dataclasses.dataclass(frozen=True, slots=True)
class AssignedRange:
    """An input range with all that a worker needs to read it."""

    file: int  # index into the plan's files
    uri: str
    size_bytes: int  # of the whole file
    version: str
    start: int
    end: int
    settings: ReadSettings
    extent: int = written_unless(0)  # as of InputFile
    rejection: Rejection | None = written_unless(None)  # of the whole file, whatever this range holds

    @property
    def length(self) -> int:
        """As of InputFile."""
        return self.extent or self.size_bytes

    @property
    def stored_bytes(self) -> int:
        """Its share of the file's size."""
        return take_share(self.size_bytes, self.length, self.start, self.end)

    @property
    def is_cut(self) -> bool:
        """Whether the file has other ranges. Its ordinals are then below its length: a record has at least one byte."""
        return self.end - self.start < self.length


@dataclasses.dataclass(frozen=True, slots=True)
class DropList:
    """The file of the duplicates of a work item, which are no documents: tokcore_pipelines.work.drop_lists."""

    url: str
    sha256: str
    by: str = written_unless("")  # one of tokcore_schemas.prefer.PIECES, if these are duplicates, and no documents


@dataclasses.dataclass(frozen=True, slots=True)
class Assignment:
    """A work item as it is handed to a worker."""

    number: int
    ranges: tuple[AssignedRange, ...]
    drops: DropList | None = written_unless(None)  # of a build that drops duplicates, once these are known

    @property
    def size_bytes(self) -> int:
        """As stored, of all ranges."""
        return sum(r.stored_bytes for r in self.ranges)


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Files sorted by uri, the settings they are read with, and the work items in order.

    There may be ten million files: tokcore_pipelines.work.work_items packs files and items.
    """

    files: Sequence[InputFile]
    settings: tuple[ReadSettings, ...]
    items: Sequence[WorkItem]
    duplicates: tuple[str, ...]  # uris that were matched more than once, each read once
    # Of each work item, once the duplicates among all documents are known; of a build that keeps them, empty.
    drops: Sequence[DropList] = dataclasses.field(default=(), compare=False)
    runs: Runs = "hash"
    # Number of a file -> why it is rejected, of files with cuts; once their ranges are proved.
    rejections: Mapping[int, Rejection] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def rank_largest_first(self) -> Sequence[int]:
        """The numbers of the work items in the order in which workers get them."""
        import numpy as np  # not above: each command reads the table of stages, which names plans

        sizes = np.fromiter((-item.size_bytes for item in self.items), np.int64, len(self.items))
        return array("q", np.argsort(sizes, kind="stable").tobytes())

    def list_largest_first(self) -> Iterator[WorkItem]:
        """The work items in the order in which workers get them."""
        return map(self.items.__getitem__, self.rank_largest_first())

    def assignment(self, item: WorkItem) -> Assignment:
        """The work item with its files' pins and settings beside it."""
        ranges = []
        for r in item.ranges:
            file = self.files[r.file]
            pin = r.file, file.uri, file.size_bytes, file.version, r.start, r.end, self.settings[file.settings]
            ranges.append(AssignedRange(*pin, file.extent, self.rejections.get(r.file)))
        return Assignment(item.number, tuple(ranges), self.drops[item.number] if self.drops else None)

    def as_before(self) -> Plan:
        """The same plan, of which records are taken and rejected as by releases until 2026-11-27.

        No plan says which rules hold. Where what was committed is known, one of the two gives it again.
        """
        return dataclasses.replace(
            self, settings=tuple(dataclasses.replace(one, as_before=True) for one in self.settings)
        )


def count_partitions(planned_bytes: int) -> int:
    """The number that a manifest says, a power of two. planned_bytes: of all files, as stored."""
    wanted = -(-planned_bytes // BYTES_PER_PARTITION)
    return min(MAX_PARTITIONS, 1 << (max(1, wanted) - 1).bit_length())
