"""The files of a stage that writes shards: those of the shards, and those that describe all of them together."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from tokcore.errors import LedgerError
from tokcore.files.canonical_json import hash_sha256
from tokcore.formats.shard_facts import ShardFacts
from tokcore.shards.format_table import list_all_paths
from tokcore_pipelines.build.stage import write_file
from tokcore_pipelines.work.encode_job import ShardJob
from tokcore_schemas.manifest import Manifest
from tokcore_schemas.refs import ShardRef, StoredFile, spell_shard_name
from tokcore_schemas.shard_entries import Afresh, list_apart, make_shard_settings, write_folder_indexes
from tokcore_schemas.stage_manifests import CorpusAbout
from tokcore_schemas.stage_table import STAGES

OfShards = Manifest[Any, Any, Any, ShardFacts | CorpusAbout]
Described = Collection[tuple[StoredFile, ShardFacts | CorpusAbout]]


@dataclasses.dataclass(slots=True)
class SumOfShards:
    """What shards hold together."""

    shards: int = 0
    documents: int = 0
    tokens: int = 0
    documents_of: Counter[str] = dataclasses.field(default_factory=Counter)  # by split

    @classmethod
    def of(cls, shards: Iterable[ShardRef]) -> SumOfShards:
        """Goes through the shards once."""
        found = cls()
        for shard in shards:
            found.add(shard.facts)
        return found

    def add(self, one: ShardFacts) -> None:
        """Take in a shard."""
        self.shards += 1
        self.documents += one.documents
        self.tokens += one.tokens
        self.documents_of[one.split] += one.documents


def list_shard_files(
    job: ShardJob[Any], shards: Collection[ShardRef], about: CorpusAbout, more: Iterable[StoredFile] = ()
) -> Described:
    """All files and what is said of each; those in which formats describe a folder are written here.

    about: what is said of these, and of more, which come last.
    """
    indexes = [
        write_file(job.attempts, path, index.data, index.content_sha256)
        for path, index in write_folder_indexes(job.config.formats, shards, job.settings).items()
    ]
    last = [*indexes, *more]
    return Afresh(lambda: _describe(shards, about, last))


def _describe(
    shards: Iterable[ShardRef], about: CorpusAbout, more: Iterable[StoredFile]
) -> Iterator[tuple[StoredFile, ShardFacts | CorpusAbout]]:
    yield from ((file, shard.facts) for shard in shards for file in shard.files)
    yield from ((file, about) for file in more)


def recount_shard_files(
    made: OfShards, shards: Collection[ShardRef], held: SumOfShards, vocab_size: int, more: Sequence[StoredFile] = ()
) -> Afresh[tuple[StoredFile, ShardFacts | CorpusAbout]]:
    """As list_shard_files, of shards that are stored: nothing is written. shards: as name_shards gives them.

    held: their sum.
    """
    settings = make_shard_settings(made.config, made.totals.fingerprint, vocab_size)
    about = CorpusAbout(held.documents, held.tokens)
    indexes = [
        StoredFile(path, "", len(index.data), hash_sha256(index.data), index.content_sha256)
        for path, index in write_folder_indexes(made.config.formats, shards, settings).items()
    ]
    return Afresh(lambda: _describe(shards, about, [*indexes, *more]))


def name_shards(
    made: OfShards, shards: Iterable[ShardRef], find_key: Callable[[ShardFacts], str]
) -> Iterator[ShardRef]:
    """Shards with the names, result keys and files that the stage gives them, in their order.

    find_key: the result key that a shard is to have. Raises LedgerError for one that another follows too early, or that
    comes after those of a later work item.
    """
    numbers: Counter[tuple[str, str]] = Counter()  # of one work item
    short: dict[tuple[str, str], str] = {}
    item = -1
    for shard in shards:
        facts, target = shard.facts, made.config.target_tokens
        if facts.item < item:
            raise LedgerError(f"{facts.shard}: of work item {facts.item}, comes after those of work item {item}")
        if facts.item > item:
            item = facts.item
            numbers.clear()
            short.clear()
        stream = (facts.folder, facts.split)
        if stream in short:
            raise LedgerError(f"{short[stream]}: ended before it reached {target} tokens")
        if facts.tokens < target:
            short[stream] = facts.shard
        name = spell_shard_name(facts.split, facts.item, numbers[stream])
        numbers[stream] += 1
        facts = dataclasses.replace(facts, shard=name, result_key=find_key(facts))
        yield ShardRef(facts, shard.content_sha256, tuple(_list_files(made, facts, shard)))


def _list_files(made: OfShards, facts: ShardFacts, shard: ShardRef) -> Iterable[StoredFile]:
    """The files of a shard, all with its content but those that have their own. One that is not there has size 0."""
    stage, there = STAGES[made.stage], {file.path: file for file in shard.files}
    is_shuffled = stage.beside == "provenance" or getattr(made.config, "shuffle", None) is not None
    apart = list_apart(facts)
    for path in list_all_paths(made.config.formats, facts.stem, is_shuffled, is_packed=stage.beside == "pieces"):
        file = there.get(path, StoredFile(path, "", 0, "", ""))
        yield file if path in apart else dataclasses.replace(file, content_sha256=shard.content_sha256)
