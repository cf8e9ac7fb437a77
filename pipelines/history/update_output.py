"""An update: what is new or changed among the inputs becomes a part of its own, and a commit says so.

A part is a build, so all that holds of builds holds of parts: kills, retries, engines, slices. The parts of a commit
hold each input file once. If documents of a part are to go, because a file of it changed or vanished, the commit drops
the part, and another one takes its place: it takes over the work items that are as before, and only the others are read
(tokcore_pipelines.build.inherited_items).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from tokcore.errors import ConfigError, IdentityError, StageError
from tokcore.tokenizer.tokenizer_spec import FILE_NAME
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import find_manifest, find_written, require_manifest
from tokcore_pipelines.build.dataset_card import follow_commits
from tokcore_pipelines.build.plan_corpus import plan_build
from tokcore_pipelines.build.read_log import Log, read_log, read_part
from tokcore_pipelines.build.settle_counting import settle_counting
from tokcore_pipelines.build.settle_languages import describe_kept_spelling, settle_languages
from tokcore_pipelines.history.input_files_held import HeldFiles, read_part_files, strip_settings
from tokcore_pipelines.history.kept_weights import Weights, follows_sizes, keeps_weights, settle_weights
from tokcore_pipelines.history.make_commit import (
    NewPart,
    PartBuilder,
    create_commit,
    list_languages,
    name_some,
    name_whole,
    plan_new_parts,
)
from tokcore_pipelines.history.restored_files import list_restored_files
from tokcore_pipelines.history.shards_as_before import count_as_before
from tokcore_pipelines.history.small_parts import build_parts
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.terminal import format_count
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.opened_tombstones import OpenedTombstones
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.tokenizers import load_spec
from tokcore_pipelines.work.inputs import LeftOut, ListFiles
from tokcore_pipelines.work.work_items import make_plan
from tokcore_schemas.changed_settings import describe_changed_settings
from tokcore_schemas.commit_log import Commit, Reason, name_commit
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.plan import Plan, ReadSettings
from tokcore_schemas.stage_table import WHOLE

Vanished = Literal["keep", "remove", "fail"]


class Changes(NamedTuple):
    """What an update does, by the uris of input files."""

    plan: Plan  # of the inputs as they are now
    new: list[str]
    changed: list[str]
    vanished: list[str]  # those whose documents are to go
    kept: list[str]  # as before, but in a part that is dropped
    dropped: list[str]  # paths of parts

    @property
    def wanted(self) -> list[str]:
        """The files of the new parts."""
        return [*self.new, *self.changed, *self.kept]

    def __bool__(self) -> bool:
        return bool(self.wanted or self.dropped)


@dataclasses.dataclass(slots=True)
class Update:
    """One build file, whose finished output is to follow its inputs."""

    config: BuildConfig
    options: RunOptions = dataclasses.field(default_factory=RunOptions)
    output: str = ""  # URL; empty: as the build file says
    progress: StageProgress = dataclasses.field(default_factory=StageProgress)
    vanished: Vanished = "keep"  # what to do with the documents of files that are no longer there
    grows: bool = False  # as for plan_inputs; changes that cannot be followed wait, and the others do not
    takes_over: bool = True  # whether work items that are as before are taken over; else whole parts are read again
    list_files: ListFiles = storage.list_files  # as for plan_inputs
    workers: Workers | None = None  # as for Build
    weights: Weights = "ask"  # of a mixture, if they follow from sizes
    stuck: str = dataclasses.field(default="", init=False)  # why changes of the last look must wait; only if it grows
    left_out: LeftOut = dataclasses.field(default_factory=LeftOut)  # files that match and are not taken, as last seen
    spelling: str = dataclasses.field(default="", init=False)  # a warning about language codes; "" if there is none
    held_back: tuple[str, ...] = dataclasses.field(default=(), init=False)  # uris of files with a tombstone, last seen
    measured: Counter[str] = dataclasses.field(default_factory=Counter, init=False)  # what work items counted, so far
    _restored: frozenset[str] = dataclasses.field(default=frozenset(), init=False, repr=False)  # as of the last look
    _log: Log | None = dataclasses.field(default=None, init=False, repr=False)  # as it was last read
    _making: list[NewPart] = dataclasses.field(default_factory=list, init=False, repr=False)  # of the last make()
    held: HeldFiles = dataclasses.field(default_factory=HeldFiles, init=False, repr=False)  # as of the last look

    def __post_init__(self) -> None:
        self.output = Build(self.config, self.options, self.output).output  # refuses what no build can be written to

    def run(self) -> Commit | None:
        """List the inputs again, and commit what changed; None if nothing did.

        Raises ConfigError if the output is not a finished build of this build file, or if nothing says what becomes of
        the weights of a mixture that follow from sizes;
        StageError if files vanished and that is to fail, or if a stage fails.
        """
        changes = self.look()
        if self.spelling:
            self.progress.say(f"warning: {self.spelling}")
        while changes:
            self.require_tokenizer()
            if (commit := self.make(changes)) is not None:
                return commit
            self.progress.say("another update has committed meanwhile: the inputs are compared with its commit")
            changes = self.look()
        follow_commits(self.log)  # a killed one may not have
        return None

    def look(self) -> Changes:
        """What changed between what the output holds and the inputs as they are now. Raises as run() does."""
        self.follow_log()
        with self.progress.stage("plan", minor=True):
            self.left_out = LeftOut()
            everything = plan_build(
                self.config, self.output, self.left_out, grows=self.grows, list_files=self.list_files
            )
            if not self.grows:
                for said in self.left_out.describe_links():
                    self.progress.say(said)
            removed = self._removed()
            plan = _leave_out(everything, removed, self.config.plan.range_bytes)
            gone = len(everything.files) - len(plan.files)
            files = everything.files if gone else ()
            self.held_back = tuple(one.uri for one in files if removed and removed.has("source", one.uri))
            return self._compare(plan)

    def describe_held_back(self, commit: Commit | None) -> str:
        """What tombstones held back from a commit of this update, in words; "" if nothing. commit: None if none is."""
        has_tombstones = self._removed() is not None
        documents = self._count_held_back(commit) if commit is not None and has_tombstones else 0
        said = [(documents, "document"), (len(self.held_back), "file")]
        told = " and ".join(format_count(number, what) for number, what in said if number)
        return f"tombstones held back {told}: `tokcore restore` takes one back" if told else ""

    def _count_held_back(self, commit: Commit) -> int:
        dropped = [part for part in self.log.parts() if part.path in commit.dropped]
        had, has = (
            sum(read_part(self.output, one).totals.records.removed for one in parts)
            for parts in (dropped, commit.added)
        )
        return max(0, has - had)

    def choose(self, changes: Changes, uris: Collection[str], lost: Collection[str] = ()) -> Changes:
        """What became of some files alone, of all changes of the last look.

        A part that is dropped goes as a whole. So of a file that changed or vanished nothing is chosen unless
        all others of its part that did are among uris, too, or among lost: those whose documents are then left out.
        """
        held, uris = self.held, frozenset(uris)
        if self._is_whole:
            return self._choose_whole(changes, uris, frozenset(lost))
        gone = {*changes.changed, *changes.vanished}
        waiting = {held[uri].part for uri in gone if uri not in uris and uri not in lost}
        dropped = {held[uri].part for uri in gone if uri in uris} - waiting
        vanished = [uri for uri in changes.vanished if held[uri].part in dropped]
        left_out = [uri for uri in changes.changed if held[uri].part in dropped and uri not in uris]
        return Changes(
            changes.plan,
            [uri for uri in changes.new if uri in uris],
            [uri for uri in changes.changed if held[uri].part in dropped and uri in uris],
            [*vanished, *left_out],
            [uri for uri in changes.kept if held[uri].part in dropped],
            sorted(dropped),
        )

    def _choose_whole(self, changes: Changes, uris: Collection[str], lost: Collection[str]) -> Changes:
        """As choose, where all files are read again: nothing, while one must wait that is not as it was read."""
        new = [uri for uri in changes.new if uri in uris]
        waits = any(uri not in uris and uri not in lost for uri in (*changes.changed, *changes.vanished))
        if waits or not (new or changes.changed or changes.vanished):
            return Changes(changes.plan, [], [], [], [], [])
        changed = [uri for uri in changes.changed if uri in uris]
        gone = [*changes.vanished, *(uri for uri in changes.changed if uri not in uris)]
        return Changes(changes.plan, new, changed, gone, changes.kept, changes.dropped)

    def make(self, changes: Changes) -> Commit | None:
        """Read what is wanted, and commit; None if another update has committed since look()."""
        assert self._log is not None
        self._making = []  # if planning fails, discard() must not find the parts of the make() before
        parts = self._plan_parts(changes)
        for one in parts:
            self.config = settle_weights(self._log, self.config, self.weights, one.plan)
        self._making = parts
        added = build_parts(self._builder, parts, self.measured)
        reach("update.built")
        read_again = {*changes.kept} & {uri for one in parts for uri in one.list_read()}
        as_before = count_as_before(self._log, added, changes.dropped)
        reason = Reason(
            "update",
            new=len(changes.new),
            changed=len(changes.changed),
            vanished=len(changes.vanished),
            read_again=len(read_again),
            kept_weights=self.config.kept_weights is not None,
            shards=as_before.of,
            shards_as_before=as_before.same,
        )
        commit = create_commit(self._log, reason, added, changes.dropped)
        if commit is not None:
            reach("update.committed")
        return commit

    def require_tokenizer(self) -> None:
        """Raise IdentityError if the output's tokenizer is not the one that the log names, FormatError for damage."""
        fingerprint = load_spec(self.output).fingerprint
        if fingerprint != (expected := self.log.build.totals.fingerprint):
            raise IdentityError(
                f"{redact(self.output)}: tokenizer/{FILE_NAME} is another tokenizer: its fingerprint is {fingerprint}, "
                f"and the output was encoded with {expected}. Put the file back: `tokcore repair` does, if it can."
            )

    @property
    def _builder(self) -> PartBuilder:
        return PartBuilder(self.config, self.output, self.options, self.progress, self.workers)

    @property
    def log(self) -> Log:
        """The log, as of the last look or commit that was made."""
        assert self._log is not None
        return self._log

    @property
    def newest(self) -> int:
        """The number of the newest commit, as of the last look."""
        return self._log.newest if self._log is not None else 0

    def follow_log(self) -> Log:
        """The log, with the commits that are new since the last look. Raises as run() does."""
        if (build := find_manifest(self.output, WHOLE)) is None:
            if find_written(self.output) is not None:
                raise ConfigError(
                    f"{redact(self.output)}: WriteShards made these shards, in a pipeline of your own: there is no "
                    f"build to follow. Run that pipeline again, into a new folder. To have inputs followed, make an "
                    f"output of its own with `tokcore build`, of a build file that names them."
                )
            build = require_manifest(self.output, WHOLE)
        if self._log is not None and build != self._log.build:
            raise IdentityError(
                f"{redact(self.output)}: another build took the place of the one that this process began with. Its "
                f"commits would not follow from each other. Start again, if that is the output that you mean."
            )
        log = read_log(self.output, known=self._log or Log(self.output, build, ()))
        if log.gap:
            raise StageError(
                f"{redact(self.output)}: {name_commit(log.gap)} is missing, and later commits are there. Put the file "
                f"back: nothing can be added to a log with a gap. `tokcore verify` says more."
            )
        parts = {part.path: part for part in log.parts()}
        known = self.held.parts
        new = [path for path in parts if path not in known]
        found = run_at_once(lambda path: read_part_files(self.output, parts[path]), new)
        if new or len(parts) < len(known):
            known = {**known, **dict(zip(new, found, strict=True))}
            self.held = HeldFiles(known[path] for path in parts)
        self.config = settle_languages(self.config, self._list_settings)
        self.config = settle_counting(self.config, lambda: build.config.counts)
        if self._log is None:
            self._require_own(log)
            if self.config.keeps_spelling:
                self.spelling = describe_kept_spelling(self.config, list_languages(log))
        self._log = log
        return log

    def _list_settings(self) -> Iterator[ReadSettings]:
        """How the files that the output holds were read."""
        return (settings for part in self.held.parts.values() for settings in part.settings)

    def _removed(self) -> OpenedTombstones | None:
        return self._log.open_tombstones() if self._log is not None else None

    def _require_own(self, log: Log) -> None:
        """Raise ConfigError unless the build was made with these settings, and of stages that parts can have."""
        if reasons := describe_changed_settings(log.build.config, self.config.stage_configs()):
            if self.config.tokenizer is None and any(reason.startswith("tokenizer.from ") for reason in reasons):
                raise ConfigError(
                    f"{redact(self.output)}: began with an imported tokenizer, but none is named now. Name the same "
                    f"one again: set [tokenizer] from in the build file, or give `tokcore watch` --tokenizer."
                )
            raise ConfigError(
                f"{redact(self.output)}: holds a different build: {'; '.join(reasons)}. An update keeps all settings "
                f"and the tokenizer: correct the build file, or build into a new output."
            )
        mixed = log.build.config.mixed
        if self.grows and mixed is not None and self.weights == "ask" and follows_sizes(mixed):
            raise ConfigError(
                f"{redact(self.output)}: mixture.strategy is {mixed.strategy!r}, so its weights follow from sizes, and "
                f"what that moves is asked for each time: run `tokcore update` with --all or --keep-weights instead."
            )

    def _compare(self, plan: Plan) -> Changes:
        held, stripped = self.held, [*map(strip_settings, plan.settings)]
        new, changed, is_there = [], [], bytearray(len(held))
        self._restored = frozenset(self._list_restored())
        for file in plan.files:  # of which there may be very many: none is kept
            if (place := held.find(file.uri)) is None:
                new.append(file.uri)
                continue
            is_there[place] = 1
            if file.uri in self._restored or not held.is_as_before(place, file, stripped[file.settings]):
                changed.append(file.uri)
        gone = [held.read_uri(place) for place, found in enumerate(is_there) if not found]
        if gone and self.vanished == "fail":
            raise StageError(
                f"{name_some(gone)}: vanished since {'it was' if len(gone) == 1 else 'they were'} read. "
                f"Choose what becomes of {'its' if len(gone) == 1 else 'their'} documents: "
                f"--vanished keep or --vanished remove. Nothing was changed."
            )
        removed = gone if self.vanished == "remove" else []
        going = {*changed, *removed}
        dropped = {held[uri].part for uri in going}
        if self._is_whole and (new or going or (self.weights == "all" and keeps_weights(self.log))):
            dropped = {*held.parts}
        others = [
            file.uri for path in held.parts if path in dropped for file in held.parts[path] if file.uri not in going
        ]
        self.stuck = ""
        changes = Changes(plan, new, changed, removed, others, sorted(dropped))
        if lost := self._find_lost(changes):
            beside = [*changed, *removed, *(new if self._is_whole else ())]
            self.stuck = (
                f"{name_some(lost)}: vanished, and is read with {name_some(beside)}, so it would have to be read "
                f"again. Put it back, or remove its documents: --vanished remove. Nothing was changed."
            )
            if not self.grows:
                raise StageError(self.stuck)
            if self._is_whole:
                return Changes(plan, [], [], [], [], [])
            parts = {held[uri].part for uri in lost}
            changed = [uri for uri in changed if held[uri].part not in parts]
            others = [uri for uri in others if held[uri].part not in parts]
            return Changes(plan, new, changed, removed, others, sorted(dropped - parts))
        return changes

    @property
    def _is_whole(self) -> bool:
        """Whether any change has all documents read again, into one part."""
        return bool(name_whole(self.log.build.config))

    def _list_restored(self) -> Iterator[str]:
        """The uris of files that lack documents whose tombstones were taken back."""
        parts = {part: self.held.parts[part.path] for part in self.log.parts()}
        return list_restored_files(self.output, parts, self.log.tombstones())

    def _find_lost(self, changes: Changes) -> list[str]:
        """The files that vanished, and would have to be read."""
        if not changes.kept:
            return []
        vanished = {*changes.kept}
        for file in changes.plan.files:
            vanished.discard(file.uri)
        if not vanished:
            return []
        read = {uri for one in self._plan_parts(changes) for uri in one.list_read()}
        return [uri for uri in changes.kept if uri in read and uri in vanished]

    def discard(self) -> set[str]:
        """Remove what the last make() left unfinished, where the same changes will not be made again.

        Returns the uris of the files that it read, or was to read.
        """
        for one in self._making:
            path, _ = self._builder.place(one.plan)
            url = urls.join(self.output, path)
            if find_manifest(url, WHOLE) is None:
                storage.remove_tree(url)
        return {uri for one in self._making for uri in one.list_read()}

    def _plan_parts(self, changes: Changes) -> list[NewPart]:
        """The parts that the changes make."""
        held = self.held
        if not self.takes_over or self.log.build.config.dedup is not None:
            plan = self._choose_files(changes.plan, changes.wanted)
            return [NewPart(plan, None)] if changes.wanted else []
        dropped: dict[str, list[str]] = {one.path: [] for one in self.log.parts() if one.path in changes.dropped}
        for uri in (*changes.changed, *changes.kept):
            dropped[held[uri].part].append(uri)
        others = changes.new
        if self._is_whole and dropped:  # one part has all files
            [path] = dropped
            dropped, others = {path: changes.wanted}, []
        in_dropped = {file.uri for path in dropped for file in held.parts[path]}
        return plan_new_parts(
            self.output,
            self.config.base,
            dropped,
            others,
            lambda uris: self._choose_files(changes.plan, uris),
            listed={file.uri: (file.size_bytes, file.version) for file in changes.plan.files if file.uri in in_dropped},
            fresh=self._restored,
        )

    def _choose_files(self, plan: Plan, uris: Collection[str]) -> Plan:
        """The plan of these files alone: as they are now, or as they were if they vanished."""
        chosen, held = {*uris}, self.held
        files = [file for file in plan.files if file.uri in chosen]
        settings = {one: number for number, one in enumerate(plan.settings)}
        for uri in sorted(chosen - {file.uri for file in files}):
            one = held[uri]
            read = dataclasses.replace(one.settings, removed=self.log.tombstones())
            files.append(dataclasses.replace(one.file, settings=settings.setdefault(read, len(settings))))
        duplicates = [uri for uri in plan.duplicates if uri in chosen]
        return make_plan(files, [*settings], self.config.plan.range_bytes, duplicates)


def _leave_out(plan: Plan, removed: OpenedTombstones | None, range_bytes: int) -> Plan:
    """The plan of an output's inputs, without the files and documents that were removed from it."""
    if removed is None:
        return plan
    return make_plan(
        [file for file in plan.files if not removed.has("source", file.uri)],
        [dataclasses.replace(settings, removed=removed.plain) for settings in plan.settings],
        range_bytes,
        plan.duplicates,
    )
