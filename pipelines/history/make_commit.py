"""What all that adds commits to an output shares: a new part, and the next commit."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tokcore.errors import IdentityError, StageError
from tokcore.files.canonical_json import COMMIT_FILES_VERSION, COMMIT_VERSION
from tokcore.tokenizer.tokenizer_spec import FILE_NAME
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.cached_parts import KeptParts
from tokcore_pipelines.build.dataset_card import follow_commits
from tokcore_pipelines.build.inherited_items import Pins, find_inheritance, list_read_again
from tokcore_pipelines.build.plan_corpus import make_plan_key
from tokcore_pipelines.build.read_log import Log, read_part
from tokcore_pipelines.history.input_files_held import HeldFile
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.work_items import make_plan
from tokcore_schemas.build_tables import TokenizerTable
from tokcore_schemas.commit_log import (
    OWN,
    Commit,
    CommitTotals,
    Part,
    Reason,
    add_up_totals,
    describe_part,
    hash_parts,
    name_commit,
    name_part,
    sum_up_part,
)
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.document import find_twins
from tokcore_schemas.inheritance import Inheritance
from tokcore_schemas.plan import Plan, ReadSettings
from tokcore_schemas.stage_manifests import StageConfigs
from tokcore_schemas.tombstones import TombstoneFile, Tombstones, unite_tombstones

_MOST_NAMED = 3
_SCRATCH = "commit"  # in the folder of unfinished work


def name_whole(config: StageConfigs) -> str:
    """The table of a build file for which each change makes one part of all documents; "" if none is."""
    whole = {
        "[dedup]": config.dedup,  # which documents are duplicates follows from all of them
        "[shuffle]": config.shards.shuffle,  # any document may be in any shard
        "[mixture]": config.mixed,  # its shares follow from all documents
        "[pack]": config.packed,  # rows are filled with documents of all shards
    }
    return next((table for table, setting in whole.items() if setting is not None), "")


def make_plan_again(
    files: Iterable[HeldFile], removed: Tombstones | None, range_bytes: int, decoded: Collection[str] = ()
) -> Plan:
    """The plan of files that an output holds, to read them as they were read, without what was removed.

    What was left out of a file stays away, even if its tombstone was taken back since: an update reads such files.
    decoded: uris of those whose source is gone, so that the tokens of their parts are read.
    """
    settings: dict[ReadSettings, int] = {}
    planned = []
    for held in sorted(files, key=lambda one: one.file.uri):
        decoded_from = held.part if held.file.uri in decoded else ""
        own = unite_tombstones(held.settings.removed, removed)
        read = dataclasses.replace(held.settings, removed=own, decoded_from=decoded_from)
        planned.append(dataclasses.replace(held.file, settings=settings.setdefault(read, len(settings))))
    return make_plan(planned, [*settings], range_bytes)


class NewPart(NamedTuple):
    """A part that a commit is to add."""

    plan: Plan
    inheritance: Inheritance | None  # None: all of its files are read

    def list_read(self) -> list[str]:
        """The uris of the files that are read."""
        return list_read_again(self.plan, self.inheritance)


@dataclasses.dataclass(frozen=True, slots=True)
class PartBuilder:
    """What builds parts of an output, with its tokenizer."""

    config: BuildConfig  # of the output
    output: str  # URL
    options: RunOptions
    progress: StageProgress
    workers: Workers | None = None  # as for Build

    def place(self, plan: Plan) -> tuple[str, BuildConfig]:
        """(path, build file) of the part of this plan."""
        config = dataclasses.replace(
            self.config,
            tokenizer=TokenizerTable(from_=self.output),
            special=(),
            counts_too=self.config.counts_too or self.config.tokenizer is None,
        )
        in_place_of = self.config.kept_rows.content_sha256 if self.config.kept_rows is not None else ""
        return name_part(make_plan_key(config, plan).identity, self.config.kept_weights, in_place_of), config

    def build(self, part: NewPart, measured: Counter[str] | None = None) -> Part:
        """Build a part; or find that a killed command, or another one, has.

        measured: the counters of all stages are added to it, if they run.
        """
        path, config = self.place(part.plan)
        build = Build(
            config,
            self.options,
            urls.join(self.output, path),
            self.progress,
            chosen=part.plan,
            inheritance=part.inheritance,
            workers=self.workers,
        )
        made = describe_part(path, build.run())
        if measured is not None:
            for amounts in build.metrics.values():
                measured.update(amounts)
        return made


def plan_new_parts(
    output: str,
    base: str,
    dropped: Mapping[str, Collection[str]],
    others: Collection[str],
    choose: Callable[[Collection[str]], Plan],
    again: Collection[str] = (),
    listed: Pins | None = None,
    fresh: Collection[str] = (),
) -> list[NewPart]:
    """The parts that take the place of others: one for each of which work items stay, and one of all other files.

    dropped: path of a part that goes -> uris of its files that stay, or come in another version; in the order of the
    log, not of paths, which differ between stores. others: further files. choose: gives the plan of some files.
    again: files that are to be read again in any case. base: where relative uris start. listed: as for find_changed.
    fresh: as for find_inheritance.
    """
    parts, rest = [], [*others]
    for path, uris in dropped.items():
        url = output if path == OWN else urls.join(output, path)
        plan = choose(uris)
        inheritance = find_inheritance(url, plan, base, again, listed, fresh) if uris else None
        if inheritance is None:
            rest += uris
        else:
            parts.append(NewPart(plan, inheritance))
    return [*parts, NewPart(choose(rest), None)] if rest else parts


class FileChange(NamedTuple):
    """The files of tombstones that a commit adds, and the paths of those that hold no more."""

    added: tuple[TombstoneFile, ...] = ()
    dropped: tuple[str, ...] = ()


NO_FILES = FileChange()


def create_commit(
    log: Log,
    why: Reason,
    added: Sequence[Part],
    dropped: Sequence[str],
    removed: Sequence[str] = (),
    oldest: int | None = None,
    restored: Sequence[str] = (),
    equal: Sequence[tuple[str, str]] = (),
    final: Sequence[str] = (),
    files: FileChange = NO_FILES,
) -> Commit | None:
    """Create the commit after the newest one of a log; None if another one was first.

    dropped: paths of parts. removed: new tombstones, sorted. oldest: commit that can be read then; None:
    as before. restored: tombstones that are taken back, sorted. equal: as of Commit. final: tombstones that cannot be
    taken back from now on, sorted. files: of tombstones.
    """
    output = log.output
    kept = [part for part in log.parts() if part.path not in dropped]
    parts = (*kept, *added)
    if not parts:
        raise StageError(f"{redact(output)}: no input file would be left. Nothing was changed: delete the output.")
    _require_same_tokenizer(log, added)
    every = (*log.parts(), *added)
    facts = dict(zip(every, _facts_of_parts.read_all(output, every), strict=True))
    had, has = ({lang for part in of for lang in facts[part].languages} for of in (log.parts(), added))
    _refuse_twins(output, had, has)
    number = log.newest + 1
    commit = Commit(
        number=number,
        previous=log.hash_newest(),
        why=why,
        added=tuple(added),
        dropped=tuple(dropped),
        parts=parts,
        root=hash_parts(parts),
        totals=add_up_totals(facts[part].totals for part in parts),
        removed=tuple(removed),
        restored=tuple(restored),
        equal=tuple(equal),
        final=tuple(final),
        oldest=log.oldest if oldest is None else oldest,
        added_files=files.added,
        dropped_files=files.dropped,
        format_version=COMMIT_FILES_VERSION if any(files) else COMMIT_VERSION,
    )
    scratch = urls.join(output, FOLDER, _SCRATCH)
    url, data = urls.join(output, name_commit(number)), commit.to_bytes()
    is_ours = storage.create_exclusive(url, data, scratch) or storage.read_bytes(url) == data
    storage.remove_empty_folders(urls.join(output, FOLDER))
    if is_ours:
        reach("commit.created")
        follow_commits(log)
    return commit if is_ours else None


def _require_same_tokenizer(log: Log, added: Iterable[Part]) -> None:
    for part in added:
        if (found := read_part(log.output, part).totals.fingerprint) != log.build.totals.fingerprint:
            raise IdentityError(
                f"{redact(log.output)}: {part.path} was encoded with another tokenizer ({found}) than the output "
                f"({log.build.totals.fingerprint}). Nothing was committed: put tokenizer/{FILE_NAME} back first."
            )


def list_languages(log: Log) -> set[str]:
    """The languages of the documents that an output holds."""
    return {lang for part in log.parts() for lang in read_part(log.output, part).languages}


def _refuse_twins(output: str, had: Collection[str], has: Collection[str]) -> None:
    """Raise StageError if a language is new that differs from another one in case only.

    Neither a fresh build of the same files nor a compaction would take the two. had, has: the languages of the commit
    before, and those of new parts.
    """
    new = {*has} - {*had}
    alike = {lang.lower() for lang in new}
    there = {*(lang for lang in had if lang.lower() in alike), *new}
    if (found := find_twins(there)) is not None:
        raise StageError(
            f"{redact(output)}: with new files it would have the languages {found[0]!r} and {found[1]!r}, which differ "
            f"in case only, and no fresh build would take both. Nothing was committed: spell them alike in the data, "
            f"or build into a new output, which does (build.lang_normalize)."
        )


class _Facts(NamedTuple):
    """What commits take from the manifest of a part."""

    totals: CommitTotals
    languages: tuple[str, ...]


def _read_facts(output: str, part: Part) -> _Facts:
    build = read_part(output, part)
    return _Facts(sum_up_part(build), (*build.languages,))


_facts_of_parts = KeptParts(_read_facts)


def name_some(uris: Iterable[str]) -> str:
    """The first uris, for a message, and how many more there are."""
    named = sorted(uris)
    more = f" and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else ""
    return ", ".join(map(redact, named[:_MOST_NAMED])) + more
