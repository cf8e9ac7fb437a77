"""A removal: a commit after which an output, and all that is added to it later, lacks some documents.

Parts that hold such documents are dropped. Others take their place: work items without such documents are taken over
(tokcore_pipelines.build.inherited_items), the input files of all others are read again, as they were pinned, and the
documents left out. Parts whose rejects quote an id are made again, too: with tombstones a part quotes nothing of its
rejects. The commit keeps a tombstone for each name that was removed, which later commits heed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tokcore.errors import ConfigError, LedgerError, StageError
from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore.shards.tombstones import Kind
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.build.dataset_card import follow_commits
from tokcore_pipelines.build.inherited_items import find_changed
from tokcore_pipelines.build.read_log import Log, locate_part, read_log, read_part
from tokcore_pipelines.build.stored_config import read_stored_config
from tokcore_pipelines.history.find_quoted import SpelledIds, read_quoted
from tokcore_pipelines.history.find_removed import FoundDocument, find_removed
from tokcore_pipelines.history.input_files_held import HeldFile, HeldFiles, read_held
from tokcore_pipelines.history.kept_weights import keep_rows, read_weights
from tokcore_pipelines.history.make_commit import (
    NewPart,
    PartBuilder,
    create_commit,
    list_languages,
    make_plan_again,
    name_some,
    name_whole,
    plan_new_parts,
)
from tokcore_pipelines.history.named_documents import (
    MOST_NAMED,
    describe_missing,
    find_lang,
    match_files,
    match_sources,
)
from tokcore_pipelines.history.named_ids import FoundNames, IdFile, Ids, make_wanted
from tokcore_pipelines.history.removal_cost import RemovalCost, estimate_removal
from tokcore_pipelines.history.removed_duplicates import (
    find_standing,
    find_with_duplicates,
    refuse_many,
    refuse_of_duplicates,
    take_back,
)
from tokcore_pipelines.history.shards_as_before import count_as_before
from tokcore_pipelines.history.tombstone_changes import bury
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.opened_tombstones import EitherTombstones
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.tokenizers import load_spec
from tokcore_schemas.commit_log import Commit, Part, Reason
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.config_reader import suggest_nearest
from tokcore_schemas.plan import Plan
from tokcore_schemas.prefer import PIECES
from tokcore_schemas.stage_table import SHARDS
from tokcore_schemas.tombstones import Tombstones

_MOST_LANGUAGES = 10
MOST_DECODED = 64  # files of a shuffled output: for each, all of its shards are read


class Removed(NamedTuple):
    """What a removal did."""

    commit: Commit | None  # None: all of it was removed before, and is not there
    unknown: int  # of the names that were given, those that no document and no reject has
    names: int  # that were given, or are those of files that a glob matches
    unmatched: tuple[str, ...]  # globs that no input file of the output matches
    rejects: int  # that quoted an id
    documents: int = 0  # that are removed
    parts: int = 0  # that are made again, or go as a whole
    read_again: int = 0  # input files that have to be read for that
    cost: RemovalCost | None = None  # only of a dry run
    in_place_rows: bool = False  # whether packed rows stay, with padding where documents were


@dataclasses.dataclass(frozen=True, slots=True)
class _Holding:
    """The parts that hold what is to be removed."""

    documents: Mapping[str, int]  # path of a part that does -> documents of it; 0 if only rejects quote an id
    files: frozenset[str]  # uris of the files that go as a whole
    sources: frozenset[str]  # uris of the files that some documents come from
    found: FoundNames  # tombstones that a document or a file has, or a reject quotes the id of
    rejects: int  # that quote an id
    each: tuple[tuple[str, FoundDocument], ...]  # (URL of its part, document); only for a dry run

    @property
    def dropped(self) -> list[str]:
        """The paths of these parts."""
        return sorted(self.documents)


@dataclasses.dataclass(slots=True)
class Remove:
    """One finished output, and what is to be removed from it."""

    output: str  # URL
    ids: Ids = ()  # of documents
    langs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # globs over the uris of input files; one without / matches names in any folder
    base: str = ""  # folder against which relative uris are resolved; empty: where the build file was
    options: RunOptions = dataclasses.field(default_factory=RunOptions)
    progress: StageProgress = dataclasses.field(default_factory=StageProgress)
    allow_missing: bool = False  # whether a name may be of nothing; its tombstone keeps later documents away
    dry_run: bool = False  # whether nothing is made, and nothing committed
    this_copy: bool = False  # whether documents of an output with [dedup] go alone: a duplicate may take their place
    final: bool = False  # whether `tokcore restore` must never take it back
    reason: str = ""  # why, and by whom; for the log
    by: str = ""
    keep_weights: bool = False  # whether documents come in a mixture as often as before, whatever sizes are
    in_place_rows: bool = False  # whether packed rows stay, with padding where these documents were

    def run(self) -> Removed:
        """Make the parts that hold these documents again without them, and commit that.

        Of inputs of such parts that are gone or have changed, the tokens are decoded. Raises ConfigError if there is
        no finished build, or a name that nothing has; StageError if tokens that
        are needed do not give their text back, or no input would be left.
        """
        with storage.make_scratch_folder("tokcore-names-") as folder:
            return self._run(folder)

    def _run(self, folder: str) -> Removed:
        """As run. folder: a path, for names that are too many for memory."""
        while True:
            log = read_log(self.output)
            refuse_of_duplicates(log, self.this_copy, self.langs, self.sources)
            self._refuse_in_place(log)
            refuse_many(log, self.ids)
            with self.progress.stage("look", minor=True):
                held = read_held(self.output, log.parts())
                matched = {pattern: match_files(pattern, held) for pattern in self.sources}
                names = self._name_all(log, [uri for uris in matched.values() for uri in uris])
                many = self.ids if isinstance(self.ids, IdFile) else None
                wanted = make_wanted(log.tombstone_key, names, many, folder)
                holding = self._find(log, held, wanted, FoundNames(wanted, folder))
                config = read_stored_config(log, self.base)
                beside = find_with_duplicates(
                    log, held, wanted, (self._few, self.langs), self.this_copy, config, self.options
                )
                holding.found.add(beside.found)
                going: TombstoneLookup = wanted
                # Only to be counted: a removal leaves them out by their digests.
                standing = find_standing(log, held, beside.equal, config, self.options) if self.dry_run else None
                if standing is not None:
                    going = EitherTombstones(wanted, standing)
                    counted = self._find(log, held, going, FoundNames(wanted, folder))
                    holding = dataclasses.replace(counted, found=holding.found)
            if name_whole(log.build.config) and (holding.documents or beside.reads_again):
                documents = {part.path: holding.documents.get(part.path, 0) for part in log.parts()}
                holding = dataclasses.replace(holding, documents=documents)
            if not self.allow_missing:
                self._refuse_missing(log, names, matched, holding)
            done = Removed(
                commit=None,
                unknown=holding.found.count_unknown(),
                names=wanted.plain.num,
                unmatched=tuple(pattern for pattern, uris in matched.items() if not uris),
                rejects=holding.rejects,
                documents=sum(holding.documents.values()),
                parts=len(holding.documents),
                in_place_rows=self.in_place_rows,
            )
            buried = bury(log, wanted, beside.added, beside.restored, is_final=self.final, is_planned=self.dry_run)
            if not buried.is_any and not holding.dropped:
                follow_commits(log)  # a killed one may not have
                return done
            again = [one for one in held.values() if one.part in holding.dropped and one.file.uri not in holding.files]
            again = [take_back(one, beside.restored) for one in again]
            parts = self._plan_parts(log, again, buried.after, holding)
            done = done._replace(read_again=sum(len(one.list_read()) for one in parts))
            if self.dry_run:
                places = [locate_part(self.output, part) for part in log.parts() if part.path in holding.documents]
                how = (self.options, self._keeps_weights(log), self.in_place_rows)
                return done._replace(cost=estimate_removal(places, going, holding.each, parts, *how))
            added, fewer = self._make_parts(log, parts, holding)
            came = max(0, done.documents - fewer) if self.this_copy else 0
            done = done._replace(documents=max(0, fewer + came))
            reach("remove.built")
            vanished = len(holding.files)
            as_before = count_as_before(log, added, holding.dropped)
            reason = Reason(
                "remove",
                vanished=vanished,
                read_again=done.read_again,
                removed=done.documents,
                came=came,
                reason=self.reason,
                by=self.by,
                kept_weights=self._keeps_weights(log),
                in_place_rows=self.in_place_rows,
                shards=as_before.of,
                shards_as_before=as_before.same,
            )
            commit = create_commit(
                *(log, reason, added, holding.dropped, buried.removed),
                restored=buried.restored,
                equal=beside.equal,
                final=buried.final,
                files=buried.files,
            )
            if commit is not None:
                reach("remove.committed")
                return done._replace(commit=commit)
            self.progress.say("another command has committed meanwhile: its commit is looked at")

    def _name_all(self, log: Log, files: Iterable[str]) -> list[tuple[Kind, str]]:
        """Kind and name of all that is to be removed, but for ids that are many. files: uris of the input files."""
        before = log.open_tombstones()
        languages = list_languages(log) if self.langs else set()
        langs = [next(iter(find_lang(one, languages, before)), one) for one in self.langs]
        kinds: tuple[tuple[Kind, Iterable[str]], ...] = (("id", self._few), ("lang", langs), ("source", files))
        return [(kind, name) for kind, of_kind in kinds for name in of_kind]

    @property
    def _few(self) -> Sequence[str]:
        """The ids, if they are in memory."""
        return () if isinstance(self.ids, IdFile) else self.ids

    def _refuse_missing(
        self, log: Log, names: Sequence[tuple[Kind, str]], matched: Mapping[str, Sequence[str]], holding: _Holding
    ) -> None:
        """Raise ConfigError for names that nothing has, and that were not removed before."""
        before = log.open_tombstones()
        many: Iterable[tuple[Kind, str]] = (("id", one) for one in (self.ids if not self._few else ()))
        missing, num = holding.found.list_missing(before, itertools.chain(names, many), MOST_NAMED)
        unmatched = [pattern for pattern, uris in matched.items() if not uris]
        for pattern, uris in match_sources(log, unmatched).items():
            if before is None or not any(before.has("source", uri) for uri in [*uris, pattern]):
                missing.append(("source", pattern))
                num += 1
        if not missing:
            return
        langs = {name for kind, name in missing if kind == "lang"}
        has = sorted(list_languages(log)) if langs else []
        known = f" It has the languages {', '.join(has[:_MOST_LANGUAGES])}." if has else ""
        known += "".join(suggest_nearest(lang, has) for lang in sorted(langs)[:1])
        raise ConfigError(
            f"{redact(self.output)}: nothing has {describe_missing(missing, num)}.{known} Correct the name; or pass "
            f"--allow-missing, and later commits leave out what comes under it. Nothing was changed."
        )

    def _find(self, log: Log, held: HeldFiles, wanted: TombstoneLookup, found: FoundNames) -> _Holding:
        """Where the documents are, and the rejects that quote them."""
        files = frozenset(uri for uri in held if wanted.has("source", uri)) if self.sources else frozenset()
        documents = Counter({held[uri].part: 0 for uri in files})
        sources: set[str] = set()
        parts = {locate_part(self.output, part): part.path for part in log.parts()}
        places = [(url, require_manifest(url, SHARDS)) for url in parts]
        with contextlib.closing(Workers(self.options, ())) as workers:
            each = []
            for url, document in find_removed(places, wanted, workers):
                documents[parts[url]] += 1
                found.add(document.tombstones)
                sources.add(document.source)
                if self.dry_run:
                    each.append((url, document))
        spelled = SpelledIds(self.ids, wanted) if self.ids else None
        quoted = {url: self._find_quoted(url, spelled) for url in parts}
        documents.update({parts[url]: 0 for url, ids in quoted.items() if ids})
        found.add(wanted.spell("id", one) for ids in quoted.values() for one in frozenset[str]().union(*ids))
        found.add(wanted.spell("source", uri) for uri in files)
        return _Holding(documents, files, frozenset(sources), found, sum(map(len, quoted.values())), tuple(each))

    def _find_quoted(self, url: str, spelled: SpelledIds | None) -> list[frozenset[str]]:
        """The ids that each reject of a part quotes, of those that quote any."""
        return [ids for _, ids in read_quoted(url, spelled) if ids] if spelled is not None else []

    def _require_decodable(self, config: BuildConfig, lost: Sequence[HeldFile]) -> None:
        """Raise StageError unless the tokens of files whose source is gone give all that the source gave."""
        spec = load_spec(self.output)
        if not spec.model.lossless or spec.normalizer:
            what = "a normalizer" if spec.normalizer else f"a model ({spec.model.kind}) that is not lossless"
        elif not spec.keeps_text:
            what = "a split pattern or special tokens that leave out or add white space"
        elif config.shards.validation and any(one.settings.group for one in lost):
            what = "groups, which decide about the split and are in no shard"
        elif config.counting_steps:
            what = "a normalizer for counting"
        else:
            return
        raise StageError(
            f"{name_some(one.file.uri for one in lost)}: gone, or not as when {redact(self.output)} was built, and in "
            f"a part that has to be made again. Its tokens cannot stand for it: {redact(self.output)} has {what}. Put "
            f"back what was read, or let `tokcore update` follow the files first (--vanished remove for those that "
            f"are gone). Nothing was changed."
        )

    def _read_config(self, log: Log) -> BuildConfig:
        config = read_stored_config(log, self.base)
        if self.in_place_rows:
            return keep_rows(log, config)
        return dataclasses.replace(config, kept_weights=read_weights(log)) if self.keep_weights else config

    def _keeps_weights(self, log: Log) -> bool:
        return self.keep_weights or (self.in_place_rows and log.build.config.mixed is not None)

    def _refuse_in_place(self, log: Log) -> None:
        """Raise ConfigError if rows cannot stay where they are."""
        if self.in_place_rows and self.this_copy:
            raise ConfigError(
                "--in-place-rows: with --this-copy, other documents may come, which no row has room for: leave one of "
                "the two out"
            )
        if self.in_place_rows:
            self._read_config(log)

    def _plan_parts(
        self, log: Log, again: Sequence[HeldFile], removed: Tombstones | None, holding: _Holding
    ) -> list[NewPart]:
        """The parts of files that stay, without what was removed."""
        config = self._read_config(log)
        held = {one.file.uri: one for one in again}
        if log.build.config.dedup is not None and again:
            lost = find_changed([one.file for one in again], config.base)
            self._require_few(log, lost)
            self._decode(config, lost, held)
            return [NewPart(make_plan_again(again, removed, config.plan.range_bytes, lost), None)]
        dropped: dict[str, list[str]] = {one.path: [] for one in log.parts() if one.path in holding.documents}
        for one in again:
            dropped[one.part].append(one.file.uri)

        def plan(decoded: Collection[str]) -> list[NewPart]:
            def choose(uris: Collection[str]) -> Plan:
                return make_plan_again([held[uri] for uri in uris], removed, config.plan.range_bytes, decoded)

            return plan_new_parts(self.output, config.base, dropped, (), choose, holding.sources)

        parts = plan(())
        lost = find_changed([held[uri].file for one in parts for uri in one.list_read()], config.base)
        if lost:
            self._require_few(log, lost)
            self._decode(config, lost, held)
            parts = plan(lost)
        return parts

    def _require_few(self, log: Log, lost: Sequence[str]) -> None:
        """Raise StageError where tokens cannot stand for so many files, or for any."""
        if log.build.config.dedup is not None and lost:
            why = "documents of theirs that were duplicates are in no shard"
        elif log.build.config.shards.shuffle is not None and len(lost) > MOST_DECODED:
            why = f"all shards are read for each file that is decoded, so at most {MOST_DECODED} can be"
        else:
            return
        raise StageError(
            f"{name_some(lost)}: gone, or not as when {redact(self.output)} was built, and to be read again; {why}. "
            f"Put back what was read, or let `tokcore update` follow the files first (--vanished remove for those that "
            f"are gone). Nothing was changed."
        )

    def _decode(self, config: BuildConfig, lost: Sequence[str], held: Mapping[str, HeldFile]) -> None:
        """Say that tokens stand for these files. Raises StageError if they cannot."""
        if lost:
            self._require_decodable(config, [held[uri] for uri in lost])
            self.progress.say(f"{name_some(lost)}: gone, or not as it was read: its documents are decoded from tokens")

    def _make_parts(self, log: Log, parts: Sequence[NewPart], holding: _Holding) -> tuple[list[Part], int]:
        """The parts, and how many documents they have no more: with [dedup] also those equal to what was named, or
        without those that took the place of what was removed alone.
        """
        config = self._read_config(log)
        builder = PartBuilder(config, self.output, self.options, self.progress)
        made = [builder.build(one) for one in parts]
        dropped = [one for one in log.parts() if one.path in holding.dropped]
        had, has = (sum(read_part(self.output, one).totals.records.documents for one in of) for of in (dropped, made))
        gone, dedup = sum(holding.documents.values()), log.build.config.dedup
        is_right = gone == had - has if dedup is None else gone <= had - has
        # Lines that come back may be all that is left of many documents.
        if self.this_copy and dedup is not None:
            is_right = dedup.by in PIECES or had - has <= gone
        if not is_right:
            raise LedgerError(
                f"{redact(self.output)}: parts of {had:,} documents, {gone:,} of them to be removed, were made again "
                f"with {has:,} documents. Nothing was changed."
            )
        return made, had - has
