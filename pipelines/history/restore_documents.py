"""A restoration: a commit that takes tombstones back, so that later commits leave out no more what was removed.

Nothing is read here. Files from which documents were left out count as changed for the next update.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tokcore.errors import ConfigError
from tokcore.shards.tombstones import Kind
from tokcore_pipelines.build.dataset_card import follow_commits
from tokcore_pipelines.build.read_log import Log, read_log
from tokcore_pipelines.history.input_files_held import read_part_files
from tokcore_pipelines.history.make_commit import create_commit
from tokcore_pipelines.history.named_documents import describe_missing, find_lang, match_sources
from tokcore_pipelines.history.removed_duplicates import list_equal_of
from tokcore_pipelines.history.restored_files import list_restored_files
from tokcore_pipelines.local.terminal import make_printable
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.commit_log import Commit, Reason
from tokcore_schemas.tombstones import Tombstones, merge_tombstones


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
    ids: tuple[str, ...] = ()
    langs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # as of Remove
    allow_missing: bool = False  # whether a name may have no tombstone
    dry_run: bool = False  # whether nothing is committed
    reason: str = ""  # why, and by whom; for the log
    by: str = ""

    def run(self) -> Restored:
        """Commit that the tombstones are taken back. Raises ConfigError for names without one, or with a final one."""
        while True:
            log = read_log(self.output)
            before = log.tombstones() or Tombstones(log.tombstone_key, ())
            names = [*self._find_names(log, before)]
            missing = [(kind, name) for kind, name, found in names if not found]
            if missing and not self.allow_missing:
                raise ConfigError(
                    f"{redact(self.output)}: {describe_missing(missing)} was never removed. Correct the name, or "
                    f"pass --allow-missing. Nothing was changed."
                )
            refuse_final(log, before, names)
            of_names = {before.spell(kind, one) for kind, _, found in names for one in found}
            equal = list_equal_of(log, {before.spell("equal", one) for one in self.ids})
            going = sorted({*of_names, *equal})
            after = merge_tombstones(before.key, {*before.hashes} - {*going})
            done = Restored(
                None,
                len(of_names),
                tuple(sorted({uri for kind, _, found in names if kind == "source" for uri in found})),
                tuple(sorted(self._list_read_again(log, after))),
                tuple(name for _, name in missing),
            )
            if self.dry_run or not going:
                follow_commits(log)
                return done
            reason = Reason("restore", restored=len(of_names), reason=self.reason, by=self.by)
            if (commit := create_commit(log, reason, (), (), restored=going)) is not None:
                return done._replace(commit=commit)

    def _find_names(self, log: Log, before: Tombstones) -> Iterator[tuple[Kind, str, list[str]]]:
        """(kind, name as it was given, names with a tombstone that it stands for) of each name."""
        for one in self.ids:
            yield "id", one, [one] if before.spell("id", one) in before else []
        for one in self.langs:
            yield "lang", one, find_lang(one, (), before)
        for pattern, uris in match_sources(log, self.sources).items():
            known = dict.fromkeys([*uris, pattern])
            yield "source", pattern, [uri for uri in known if before.spell("source", uri) in before]

    def _list_read_again(self, log: Log, after: Tombstones | None) -> Iterator[str]:
        parts = {part: read_part_files(self.output, part) for part in log.parts()}
        return list_restored_files(self.output, parts, after)


def refuse_final(log: Log, before: Tombstones, names: Sequence[tuple[Kind, str, Sequence[str]]]) -> None:
    """Raise ConfigError if a tombstone that is to be taken back is final. names: as of _find_names."""
    for kind, _, found in names:
        for one in found:
            if (commit := log.find_final(before.spell(kind, one))) is not None:
                why = f", for {make_printable(commit.why.reason)!r}" if commit.why.reason else ""
                raise ConfigError(
                    f"{redact(log.output)}: {describe_missing([(kind, one)])} was removed with --final in commit "
                    f"{commit.number}{why}, so it cannot be taken back. Leave it out; or build again into a new "
                    f"output, if it may be there. Nothing was changed."
                )
