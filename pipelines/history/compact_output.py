"""A compaction: a commit in whose place of many parts with small shards there is one part with few large ones.

The inputs of the parts are read again, as they were pinned. So shards are cut as a build of all these files cuts them,
and the documents are compared by their digest with those of the parts before. Earlier commits keep their parts.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from tokcore.errors import LedgerError
from tokcore_pipelines.build.dataset_card import follow_commits
from tokcore_pipelines.build.inherited_items import find_changed
from tokcore_pipelines.build.read_log import Log, read_log, read_part
from tokcore_pipelines.build.stored_config import read_stored_config
from tokcore_pipelines.history.input_files_held import HeldFiles, read_held
from tokcore_pipelines.history.make_commit import (
    NO_FILES,
    NewPart,
    PartBuilder,
    create_commit,
    make_plan_again,
    name_some,
)
from tokcore_pipelines.history.tombstone_changes import compact_tombstones
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.commit_log import Commit, Part, Reason, sum_up_parts
from tokcore_schemas.config import BuildConfig


class Compacted(NamedTuple):
    """What a compaction did."""

    commit: Commit | None  # None: there was nothing to gain
    shards_before: int  # of the parts that it replaced, or would have
    shards_after: int
    left: tuple[str, ...]  # paths of parts with small shards whose inputs are gone or have changed
    parts: int = 0  # with small shards, which would become one
    files: int = 0  # of the input, which would be read again for that


@dataclasses.dataclass(slots=True)
class Compact:
    """One finished output whose small shards are to become few."""

    output: str  # URL
    base: str = ""  # folder against which relative uris are resolved; empty: where the build file was
    options: RunOptions = dataclasses.field(default_factory=RunOptions)
    progress: StageProgress = dataclasses.field(default_factory=StageProgress)
    dry_run: bool = False  # whether nothing is read and committed

    def run(self) -> Compacted:
        """Make one part of all parts whose shards hold less than half of shards.target_tokens, and commit that.

        Raises ConfigError if there is no finished build; StageError if a stage
        fails; LedgerError if the documents are not the same.
        """
        while True:
            log = read_log(self.output)
            config = read_stored_config(log, self.base)
            small, left = self._choose(log, config)
            before = sum_up_parts(read_part(self.output, part) for part in small)
            if len(small) < 2:
                files = compact_tombstones(log) if not self.dry_run else NO_FILES
                if any(files):
                    if (commit := create_commit(log, Reason("compact"), (), (), files=files)) is None:
                        continue
                    return Compacted(commit, before.shards, before.shards, left)
                follow_commits(log)  # a killed one may not have
                return Compacted(None, before.shards, before.shards, left)
            held = read_held(self.output, small)
            if self.dry_run:
                return Compacted(None, before.shards, before.shards, left, len(small), len(held))
            part = self._make_part(log, config, held)
            made = read_part(self.output, part)
            after = sum_up_parts([made])
            for name in ("files", "documents", "text_bytes", "tokens", "documents_digest"):
                if getattr(before, name) != getattr(after, name):
                    raise LedgerError(
                        f"{redact(self.output)}: {name} of the parts together {getattr(before, name)}, read again "
                        f"{getattr(after, name)}. Nothing was changed."
                    )
            reach("compact.built")
            if after.shards >= before.shards:
                return Compacted(None, before.shards, after.shards, left)
            reason = Reason("compact", read_again=len(held))
            dropped = sorted(one.path for one in small)
            if (commit := create_commit(log, reason, [part], dropped, files=compact_tombstones(log))) is not None:
                reach("compact.committed")
                return Compacted(commit, before.shards, after.shards, left)
            self.progress.say("another command has committed meanwhile: its commit is looked at")

    def _choose(self, log: Log, config: BuildConfig) -> tuple[list[Part], tuple[str, ...]]:
        """(the parts with small shards, paths of such parts that cannot be read again)."""
        small, left = [], []
        for part in log.parts():
            totals = read_part(self.output, part).totals
            if 2 * totals.tokens >= totals.shards * config.shards.target_tokens and totals.shards:
                continue
            held = read_held(self.output, [part])
            changed = find_changed((one.file for one in held.values()), config.base)
            if changed:
                left.append(part.path)
                self.progress.say(f"{part.path} stays: {name_some(changed)}: gone, or not as when it was read")
            else:
                small.append(part)
        return small, tuple(left)

    def _make_part(self, log: Log, config: BuildConfig, held: HeldFiles) -> Part:
        plan = make_plan_again(held.values(), log.tombstones(), config.plan.range_bytes)
        return PartBuilder(config, self.output, self.options, self.progress).build(NewPart(plan, None))
