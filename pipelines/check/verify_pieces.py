"""The pieces of work of a verification, of each part of an output: what is read, and what it is compared with. No Beam.

A piece names the versions of all files that it depends on, as they were listed when the run began.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore_pipelines.build.commit import RUN, get_path_below
from tokcore_pipelines.build.count_corpus import name_tables
from tokcore_pipelines.build.rejects import read_file_ledgers
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.check.chain import Manifests
from tokcore_pipelines.check.sampled import Drawn, get_piece
from tokcore_pipelines.store.attempts import FOLDER
from tokcore_pipelines.store.opened_tombstones import OpenedTombstones
from tokcore_pipelines.store.packed_listing import PackedListing
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.plan import Assignment
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import iterate_item_shards, iterate_named_shards
from tokcore_schemas.shuffle import choose_num_parts
from tokcore_schemas.stage_table import BUILD, COUNTS, PLAN, REJECTED, SHARDS, STAGES
from tokcore_schemas.verified import FilesToHash, FileToHash, ItemsToDecode, PieceToMake, ShardsToRead, TableToRead

_HASHED_BYTES = 64 << 20  # that a piece has, at least, of small files
HASHED_FILES = 500
_DECODED_DOCUMENTS = 1 << 21  # of shuffled shards, that a worker compares in one go


@dataclasses.dataclass(slots=True)
class Part:
    """What one build made, or WriteShards, as far as it was looked at."""

    path: str  # below the output; OWN is the output itself
    made: Manifests
    stored: Stored
    there: PackedListing  # all that is in its folder
    apart: Collection[str]  # paths of files that are not of this build any more
    removed: OpenedTombstones | None = None  # what its shards must not hold
    drawn: Drawn | None = None  # what is looked at; None: all
    problems: list[str] = dataclasses.field(default_factory=list)
    brought_back: list[str] = dataclasses.field(default_factory=list)  # that were removed, and are there
    num_named: int = 0  # paths that its manifests name
    size_bytes: int = 0  # of these files
    num_read: int = 0  # documents
    num_decoded: int = 0
    _versions: str = ""  # a hash over those of all files, once somebody asked for it

    @property
    def manifests(self) -> Mapping[str, AnyManifest]:
        """Those that something vouches for."""
        return self.made.found if self.made.head is not None else {}

    @property
    def is_sound(self) -> bool:
        """Whether its manifests vouch for its files, and nothing was found yet."""
        return self.made.head is not None and not self.problems

    def list_entries(self) -> Iterator[FileToHash]:
        """The files that are looked at, with the stages that name them."""
        for stage, made in self.manifests.items():
            for entry in made.files:
                if stage == BUILD and entry.path in self.apart:
                    continue
                piece = get_piece(entry)
                if piece is None or self.has_drawn(stage, piece):
                    for file in entry.list_files():
                        version = self.find_version(get_path_below(stage, file.path))
                        yield FileToHash(stage, file.path, file.size_bytes, file.sha256, version)

    def find_version(self, path: str) -> str:
        """Size and version of a file as it was listed; empty: it is not there."""
        listed = self.there.get(path)
        return "" if listed is None else f"{listed.size_bytes} {listed.version}"

    def has_drawn(self, stage: str, piece: int | str) -> bool:
        """Whether a piece is looked at."""
        return self.drawn is None or self.drawn.has(stage, piece)

    def hash_versions(self, stage: str, shards: Sequence[ShardRef], *more: object) -> str:
        """A hash over the versions of shards' files, and over what else decides. Lists of them may be long."""
        versions = [self.find_version(f"{stage}/{file.path}") for shard in shards for file in shard.files]
        return hash_sha256(write_canonical_json([versions, *more]))

    def hash_all_versions(self, *more: object) -> str:
        """A hash over the versions of all files of the part, but its unfinished work."""
        if not self._versions:
            hasher = hashlib.sha256()
            for path, listed in self.there.list_all():
                if not may_be_unnamed(path):
                    hasher.update(write_canonical_json([path, listed.size_bytes, listed.version]))
            self._versions = hasher.hexdigest()
        return hash_sha256(write_canonical_json([self._versions, *more]))


def list_files_to_hash(part: Part) -> Iterator[FilesToHash]:
    """Files of about equal bytes."""
    some: list[FileToHash] = []
    size_bytes = 0
    for file in part.list_entries():
        some.append(file)
        size_bytes += file.size_bytes
        if size_bytes >= _HASHED_BYTES or len(some) >= HASHED_FILES:
            yield FilesToHash(part.path, tuple(some))
            some, size_bytes = [], 0
    if some:
        yield FilesToHash(part.path, tuple(some))


def list_shards_to_read(part: Part) -> Iterator[ShardsToRead]:
    """The shards of each work item, or part of a shuffle; each shard that WriteShards made. Raises FormatError."""
    stored, removed = part.stored, part.removed
    made, (fingerprint, _) = stored.get(SHARDS), stored.tokenizer
    is_shuffled = made.config.shuffle is not None
    num_parts = choose_num_parts(made.totals.tokens, made.config.target_tokens) if is_shuffled else 0
    plain = removed.plain if removed is not None else None
    decided_by = [plain.key, *plain.hashes, *(one.sha256 for one in plain.files)] if plain is not None else []
    if num_parts:
        decided_by += [stored.get(PLAN).as_input().sha256, stored.get(REJECTED).as_input().sha256]
    decided = hash_sha256(write_canonical_json(decided_by))

    def make(
        number: int, shards: Sequence[ShardRef], assignment: Assignment | None = None, records: tuple[int, ...] = ()
    ) -> ShardsToRead:
        return ShardsToRead(
            *(part.path, number, made.config, fingerprint, assignment, records, num_parts, tuple(shards)),
            part.hash_versions(SHARDS.name, shards, decided),
            sum(file.size_bytes for shard in shards for file in shard.files),
        )

    if stored.find(PLAN) is None:
        for shard in iterate_named_shards(made):
            if part.has_drawn(SHARDS.name, shard.facts.item):
                yield make(shard.facts.item, [shard])
        return
    if num_parts:
        for number, shards in _find_shards(made, range(num_parts)):
            if part.has_drawn(SHARDS.name, number):
                yield make(number, shards)
        return
    num_records = {file.uri: file.records for file in read_file_ledgers(stored.url)}
    of_items = _find_shards(made, (item.number for item in stored.plan.items))
    for item, (number, shards) in zip(stored.plan.items, of_items, strict=True):
        if part.has_drawn(SHARDS.name, number):
            assignment = stored.plan.assignment(item)
            records = tuple(num_records.get(one.uri, 0) for one in assignment.ranges)
            yield make(number, shards, assignment, records)


def _find_shards(made: AnyManifest, numbers: Iterable[int]) -> Iterator[tuple[int, list[ShardRef]]]:
    """Each number with the shards of it. numbers: ascending, as those of the manifest are known to be."""
    of = iterate_item_shards(made)
    own = next(of, None)
    for number in numbers:
        while own is not None and own[0] < number:
            own = next(of, None)
        yield number, own[1] if own is not None and own[0] == number else []


def list_tables_to_read(part: Part) -> Iterator[TableToRead]:
    """The count tables."""
    if (counts := part.stored.find(COUNTS)) is not None:
        for table in name_tables(counts):
            if part.has_drawn(COUNTS.name, table.file.path):
                versions = (part.find_version(f"{COUNTS.name}/{file.path}") for file in table.file.list_files())
                yield TableToRead(part.path, table, ", ".join(versions))


def list_pieces_to_make(part: Part, made: AnyManifest, num: int) -> Iterator[PieceToMake]:
    """The pieces of a stage that is made out of others. num: of them."""
    seen = part.hash_all_versions(made.stage)
    for number, shards in _find_shards(made, range(num)):
        if part.has_drawn(made.stage, number):
            own = tuple(shards)
            size_bytes = sum(file.size_bytes for shard in own for file in shard.files)
            yield PieceToMake(part.path, made.stage, number, own, seen, size_bytes)


def list_pieces_to_measure(part: Part, made: AnyManifest, num: int) -> Iterator[PieceToMake]:
    """The pieces that are measured for a stage."""
    seen, size_bytes = part.hash_all_versions(made.stage, "measured"), 0
    for number in range(num):
        yield PieceToMake(part.path, made.stage, number, (), seen, size_bytes)


def list_items_to_decode(part: Part, limit: int | None, num_at_once: int) -> Iterator[ItemsToDecode]:
    """Work items, each with its shards; of a shuffle many together, whose documents may be in all shards.

    limit: documents to compare, spread over the work items; None: all. num_at_once: pieces that are done at a time.
    """
    made, plan = part.stored.get(SHARDS), part.stored.plan_as_read
    config, num = made.config, len(plan.items)
    of_each = None if limit is None else math.ceil(limit / max(1, num))
    if config.shuffle is not None:
        num_parts = choose_num_parts(made.totals.tokens, config.target_tokens)
        seen = part.hash_all_versions("decode")
        num_pieces = min(num, max(num_at_once, made.totals.records.documents // _DECODED_DOCUMENTS))
        for number in range(num_pieces):
            items = tuple(plan.assignment(item) for item in plan.items[number::num_pieces])
            yield ItemsToDecode(part.path, config, items, (), num_parts, of_each, seen)
        return
    for item, (_, shards) in zip(plan.items, _find_shards(made, (one.number for one in plan.items)), strict=True):
        own = tuple(shards)
        seen = part.hash_versions(SHARDS.name, own)
        yield ItemsToDecode(part.path, config, (plan.assignment(item),), own, 0, of_each, seen)


def may_be_unnamed(path: str) -> bool:
    """Whether a file of an output, by its path, is none of verification's business: run.json, unfinished work."""
    parts = path.split("/")
    return path == RUN or parts[0] == FOLDER or (len(parts) == 2 and parts[0] in STAGES and parts[1] == RUN)
