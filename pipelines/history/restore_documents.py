"""A restoration: a commit that takes tombstones back, so that later commits leave out no more what was removed.

Nothing is read here. Files from which documents were left out count as changed for the next update.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tokcore.errors import ConfigError
from tokcore.shards.tombstones import Kind
from tokcore_pipelines.build.dataset_card import follow_commits
from tokcore_pipelines.build.read_log import Log, read_log
from tokcore_pipelines.history.input_files_held import read_part_files
from tokcore_pipelines.history.make_commit import create_commit
from tokcore_pipelines.history.named_documents import MOST_NAMED, describe_missing, find_lang, match_sources
from tokcore_pipelines.history.named_ids import FoundNames, IdFile, Ids, make_wanted
from tokcore_pipelines.history.removed_duplicates import list_equal_of, refuse_many
from tokcore_pipelines.history.restored_files import list_restored_files
from tokcore_pipelines.history.tombstone_changes import find_final, list_final, unbury
from tokcore_pipelines.local.terminal import make_printable
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.opened_tombstones import OpenedTombstones
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.commit_log import Commit, Reason
from tokcore_schemas.tombstones import Tombstones


class Restored(NamedTuple):
    """What a restoration did, or would do."""

    commit: Commit | None  # None: it was not to be made, or there was nothing to take back
    names: int  # whose tombstones are taken back
    files: tuple[str, ...]  # uris of those that the output lacks as a whole
    read_again: tuple[str, ...]  # uris of those that the output has, without documents that may be these
    missing: tuple[str, ...]  # names that have no tombstone


@dataclasses.dataclass(frozen=True, slots=True)
class Restore:
    """One finished output, and whose tombstones are taken back."""

    output: str  # URL
    ids: Ids = ()
    langs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # as of Remove
    allow_missing: bool = False  # whether a name may have no tombstone
    dry_run: bool = False  # whether nothing is committed
    reason: str = ""  # why, and by whom; for the log
    by: str = ""

    def run(self) -> Restored:
        """Commit that the tombstones are taken back. Raises ConfigError for names without one, or with a final one."""
        with storage.make_scratch_folder("tokcore-names-") as folder:
            return self._run(folder)

    def _run(self, folder: str) -> Restored:
        """As run. folder: a path, for names that are too many for memory."""
        while True:
            log = read_log(self.output)
            before = log.open_tombstones() or OpenedTombstones(Tombstones(log.tombstone_key, ()), log.output)
            if isinstance(self.ids, IdFile):
                if (done := self._restore_many(log, before, self.ids, folder)) is not None:
                    return done
                continue
            names = [*self._find_names(log, before, self.ids)]
            missing = [(kind, name) for kind, name, found in names if not found]
            if missing and not self.allow_missing:
                raise ConfigError(
                    f"{redact(self.output)}: {describe_missing(missing)} {_be(len(missing))} never removed. Correct "
                    f"what is wrong, or pass --allow-missing. Nothing was changed."
                )
            refuse_final(log, before, names)
            of_names = {before.spell(kind, one) for kind, _, found in names for one in found}
            equal = list_equal_of(log, {before.spell("equal", one) for one in self.ids})
            going = tuple(sorted({*of_names, *equal}))
            wanted = OpenedTombstones(Tombstones(before.key, going), log.output)
            change = unbury(log, wanted, self.dry_run)
            done = Restored(
                None,
                len(of_names),
                tuple(sorted({uri for kind, _, found in names if kind == "source" for uri in found})),
                tuple(sorted(self._list_read_again(log, change.after))),
                tuple(name for _, name in missing),
            )
            if self.dry_run or not going:
                follow_commits(log)
                return done
            reason = Reason("restore", restored=len(of_names), reason=self.reason, by=self.by)
            commit = create_commit(log, reason, (), (), restored=change.restored, files=change.files)
            if commit is not None:
                return done._replace(commit=commit)

    def _restore_many(self, log: Log, before: OpenedTombstones, ids: IdFile, folder: str) -> Restored | None:
        """As run, of ids that are too many for memory; None if another command has committed meanwhile.

        Of an output with [dedup] they are refused.
        """
        refuse_many(log, ids)
        others = [*self._find_names(log, before, ())]
        refuse_final(log, before, others)
        known = [(kind, one) for kind, _, found in others for one in found]
        wanted = make_wanted(before.key, known, ids, folder)
        missing, num = FoundNames(wanted, folder).list_missing(before, (("id", one) for one in ids), MOST_NAMED)
        missing += [(kind, name) for kind, name, found in others if not found]
        if missing and not self.allow_missing:
            raise ConfigError(
                f"{redact(self.output)}: {describe_missing(missing, num)} {_be(num)} never removed. Correct what is "
                f"wrong, or pass --allow-missing. Nothing was changed."
            )
        final = frozenset(itertools.islice(list_final(log, wanted), MOST_NAMED))
        first = next((one for one in ids if before.spell("id", one) in final), None) if final else None
        refuse_final(log, before, [("id", first, [first])] if first is not None else [])
        change = unbury(log, wanted, self.dry_run)
        uris = {uri for kind, _, found in others if kind == "source" for uri in found}
        read_again = tuple(sorted(self._list_read_again(log, change.after)))
        done = Restored(None, wanted.plain.num - num, tuple(sorted(uris)), read_again, tuple(one for _, one in missing))
        if self.dry_run or not change.is_any:
            follow_commits(log)
            return done
        reason = Reason("restore", restored=done.names, reason=self.reason, by=self.by)
        commit = create_commit(log, reason, (), (), restored=change.restored, files=change.files)
        return done._replace(commit=commit) if commit is not None else None

    def _find_names(
        self, log: Log, before: OpenedTombstones, ids: Sequence[str]
    ) -> Iterator[tuple[Kind, str, list[str]]]:
        """(kind, name as it was given, names with a tombstone that it stands for) of each name."""
        for one in ids:
            yield "id", one, [one] if before.has("id", one) else []
        for one in self.langs:
            yield "lang", one, find_lang(one, (), before)
        for pattern, uris in match_sources(log, self.sources).items():
            known = dict.fromkeys([*uris, pattern])
            yield "source", pattern, [uri for uri in known if before.has("source", uri)]

    def _list_read_again(self, log: Log, after: Tombstones | None) -> Iterator[str]:
        parts = {part: read_part_files(self.output, part) for part in log.parts()}
        return list_restored_files(self.output, parts, after)


def _be(num: int) -> str:
    return "was" if num == 1 else "were"


def refuse_final(log: Log, before: OpenedTombstones, names: Sequence[tuple[Kind, str, Sequence[str]]]) -> None:
    """Raise ConfigError if a tombstone that is to be taken back is final. names: as of _find_names."""
    for kind, _, found in names:
        for one in found:
            if (commit := find_final(log, before, before.spell(kind, one))) is not None:
                why = f", for {make_printable(commit.why.reason)!r}" if commit.why.reason else ""
                raise ConfigError(
                    f"{redact(log.output)}: {describe_missing([(kind, one)])} was removed with --final in commit "
                    f"{commit.number}{why}, so it cannot be taken back. Leave it out; or build again into a new "
                    f"output, if it may be there. Nothing was changed."
                )
