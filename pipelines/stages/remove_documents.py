"""A removal: a commit after which an output, and all that is added to it later, lacks some documents.

Parts that hold such documents are dropped, and their input files are read again, as they were pinned, into a new part
that leaves the documents out. So counts, shards and sums of the rest follow from the source, as in any build. The
commit keeps a tombstone for each name that was removed, which later commits heed.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pipelines.local.progress import StageProgress
from pipelines.local.run_options import RunOptions
from pipelines.stages.commit import require_manifest
from pipelines.stages.find_removed import find_removed
from pipelines.stages.make_commit import (
    HeldFile,
    build_part,
    create_commit,
    find_changed,
    make_plan_again,
    name_some,
    read_held,
    require_parts_apart,
)
from pipelines.stages.read_log import Log, locate_part, read_log, read_part
from pipelines.stages.stored_config import read_stored_config
from pipelines.store.crashpoints import reach
from pipelines.store.listing import compile_glob
from pipelines.store.redaction import redact
from schemas.commit_log import Commit, Part, Reason
from schemas.tombstones import Tombstones, merge_tombstones
from tokcore.errors import ConfigError, LedgerError, StageError

# Tombstones travel with each range that workers read.
MAX_TOMBSTONES = 10_000


class Removed(NamedTuple):
    """What a removal did."""

    commit: Commit | None  # None: all of it was removed before, and is not there
    unknown: int  # of the names that were given, those that no document has


@dataclasses.dataclass(frozen=True, slots=True)
class _Holding:
    """The parts that hold what is to be removed."""

    documents: Mapping[str, int]  # path of a part that does -> documents of it
    files: frozenset[str]  # uris of the files that go as a whole
    found: frozenset[str]  # tombstones that a document or a file has

    @property
    def dropped(self) -> list[str]:
        """The paths of these parts."""
        return sorted(self.documents)


@dataclasses.dataclass(slots=True)
class Remove:
    """One finished output, and what is to be removed from it."""

    output: str  # URL
    ids: tuple[str, ...] = ()  # of documents
    langs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # globs over the uris of input files; one without / matches names in any folder
    base: str = ""  # folder against which relative uris are resolved; empty: where the build file was
    options: RunOptions = dataclasses.field(default_factory=RunOptions)
    progress: StageProgress = dataclasses.field(default_factory=StageProgress)

    def run(self) -> Removed:
        """Make the parts that hold these documents again without them, and commit that.

        Raises ConfigError if there is no finished build, or one that cannot be changed in parts; StageError if an
        input of such a part is gone or has changed, or no input would be left.
        """
        while True:
            log = read_log(self.output)
            require_parts_apart(self.output, log.build, "changed")
            with self.progress.stage("look", minor=True):
                held = read_held(self.output, log.parts())
                wanted = self._make_tombstones(log, held)
                holding = self._find(log, held, wanted)
            unknown = len(set(wanted.hashes) - holding.found)
            before = log.tombstones()
            new = sorted({*wanted.hashes} - {*(before.hashes if before is not None else ())})
            if not new and not holding.dropped:
                return Removed(None, unknown)
            after = merge_tombstones(log.tombstone_key, [*new, *(before.hashes if before is not None else ())])
            if after is not None and len(after.hashes) > MAX_TOMBSTONES:
                raise ConfigError(
                    f"{redact(self.output)}: would have {len(after.hashes):,} tombstones, and can have "
                    f"{MAX_TOMBSTONES:,}. Remove whole files with --source, or build again without the documents."
                )
            again = [one for one in held.values() if one.part in holding.dropped and one.file.uri not in holding.files]
            added = [self._make_part(log, again, after, holding)] if again else []
            reach("remove.built")
            num_documents = sum(holding.documents.values())
            reason = Reason("remove", vanished=len(holding.files), read_again=len(again), removed=num_documents)
            if (commit := create_commit(self.output, log, reason, added, holding.dropped, new)) is not None:
                reach("remove.committed")
                return Removed(commit, unknown)
            self.progress.say("another command has committed meanwhile: its commit is looked at")

    def _make_tombstones(self, log: Log, held: Mapping[str, HeldFile]) -> Tombstones:
        """Those of all that is to be removed."""
        globs = [compile_glob(pattern) for pattern in self.sources]
        by_name = ["/" not in pattern for pattern in self.sources]
        files = [
            uri
            for uri in held
            if any(
                glob.match(uri.rsplit("/", 1)[-1] if is_name else uri)
                for glob, is_name in zip(globs, by_name, strict=True)
            )
        ]
        key = Tombstones(log.tombstone_key, ())
        hashes = [
            *(key.spell("id", one) for one in self.ids),
            *(key.spell("lang", one) for one in self.langs),
            *(key.spell("source", one) for one in files),
        ]
        return Tombstones(log.tombstone_key, tuple(sorted({*hashes})))

    def _find(self, log: Log, held: Mapping[str, HeldFile], wanted: Tombstones) -> _Holding:
        """Where the documents are."""
        files = frozenset(uri for uri in held if wanted.spell("source", uri) in wanted)
        documents = Counter({held[uri].part: 0 for uri in files})
        found: Counter[str] = Counter()
        for part in log.parts():
            url = locate_part(self.output, part)
            for document in find_removed(url, require_manifest(url, "shards", "encode"), wanted):
                documents[part.path] += 1
                found.update(document.tombstones)
        return _Holding(documents, files, frozenset([*found, *(wanted.spell("source", uri) for uri in files)]))

    def _make_part(self, log: Log, again: Iterable[HeldFile], removed: Tombstones | None, holding: _Holding) -> Part:
        """Build the part of files that are read again without what was removed."""
        config = read_stored_config(self.output, log.build, self.base)
        plan = make_plan_again(again, removed, config.plan.range_bytes)
        if lost := find_changed(plan.files, config.base):
            raise StageError(
                f"{name_some(lost)}: gone, or not as when {redact(self.output)} was built, and in a part that has to "
                f"be made again from its source. Put back what was read, or let `tokcore update` follow the files "
                f"first (--vanished remove for those that are gone). Nothing was changed."
            )
        part = build_part(config, self.output, plan, self.options, self.progress)
        dropped = [one for one in log.parts() if one.path in holding.dropped]
        had = sum(read_part(self.output, one).totals.records.documents for one in dropped)
        has = read_part(self.output, part).totals.records.documents
        if (gone := sum(holding.documents.values())) != had - has:
            raise LedgerError(
                f"{redact(self.output)}: parts of {had:,} documents, {gone:,} of them to be removed, were read again "
                f"as {has:,} documents. Nothing was changed."
            )
        return part
