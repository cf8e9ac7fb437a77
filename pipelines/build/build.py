"""A build: plan, count, learn, encode; mix and pack where that is wanted.

Each stage ends with a manifest, and is skipped if it has one.

sources --plan--> input ranges --count--> count tables --learn--> tokenizer --encode--> token shards
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, cast

from tokcore.errors import ConfigError, FormatError, StageError
from tokcore.files.canonical_json import hash_sha256, write_canonical_json
from tokcore.files.jsonable import to_jsonable
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.build.commit import (
    MANIFEST,
    RUN,
    describe_commit_date,
    find_manifest,
    get_manifest_url,
    require_manifest,
)
from tokcore_pipelines.build.count_corpus import count_corpus
from tokcore_pipelines.build.dataset_card import CARD, make_room_for_card
from tokcore_pipelines.build.dedup_corpus import dedup_corpus, name_documents
from tokcore_pipelines.build.encode_corpus import encode_corpus
from tokcore_pipelines.build.existing_output import Standing, look, read_standing
from tokcore_pipelines.build.file_rejections import list_cut_files
from tokcore_pipelines.build.finish import commit_build
from tokcore_pipelines.build.finished_build import find_finished, is_finished, needs_no_listing
from tokcore_pipelines.build.inherited_items import choose_files_to_read, find_inheritance, require_undamaged
from tokcore_pipelines.build.make_tokenizer import make_tokenizer, make_tokenizer_key
from tokcore_pipelines.build.plan_corpus import commit_plan, make_plan_key, plan_build
from tokcore_pipelines.build.read_log import has_commits, locate_part, read_log
from tokcore_pipelines.build.replace_stages import (
    are_others_at_work,
    begin_work,
    end_work,
    finish_replacing,
    forget_replaced,
    is_replacing,
    locate_replaced,
    make_room,
    replace,
)
from tokcore_pipelines.build.reuse_output import find_reusable
from tokcore_pipelines.build.settle_counting import settle_counting
from tokcore_pipelines.build.settle_languages import describe_kept_spelling, settle_languages
from tokcore_pipelines.build.source_checks import refuse_wrong_sources
from tokcore_pipelines.build.stage import BuildRun, StageKey
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.table import WORK, DerivedWork
from tokcore_pipelines.build.tokenizer_files import import_tokenizer
from tokcore_pipelines.build.tokenizers_beside import has_beside
from tokcore_pipelines.local.engines import (
    do_without_kernel,
    find_web,
    make_engine_options,
    refuse_local_paths,
    require_job_server,
)
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.terminal import format_count
from tokcore_pipelines.local.worker_modules import WORKER_MODULES
from tokcore_pipelines.run.slices.session import Session
from tokcore_pipelines.run.workers import count_worthwhile_workers
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import FOLDER
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.options import use_options
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.inputs import LeftOut
from tokcore_pipelines.work.make_jobs import find_special_ids
from tokcore_schemas.commit_log import LOG, PARTS
from tokcore_schemas.config import BuildConfig, check_draws_of, check_dtype_of, check_padding_of, take_over_roles
from tokcore_schemas.inheritance import Inheritance
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.plan import Plan, ReadSettings
from tokcore_schemas.stage_manifests import (
    BuildManifest,
    CountsConfig,
    CountsManifest,
    PlanManifest,
    ShardsManifest,
    TokenizerManifest,
)
from tokcore_schemas.stage_table import (
    BUILD,
    COUNTS,
    PLAN,
    SHARDS,
    STAGES,
    TOKENIZER,
    WHOLE,
    Made,
    Stage,
    counts_anew,
    lists_anew,
)
from tokcore_schemas.tombstones import REMOVED


@dataclasses.dataclass(slots=True)
class Build:
    """One build file and one output; call the stages in order, or run() for all."""

    config: BuildConfig
    options: RunOptions = dataclasses.field(default_factory=RunOptions)
    output: str = ""  # URL; empty: as the build file says
    progress: StageProgress = dataclasses.field(default_factory=StageProgress)
    replace: str = ""  # one of list_commands(): what to make again, with all that follows
    reuse: str = ""  # URL of another output: its stages are taken over where they are those of this build
    chosen: Plan | None = None  # of some of the inputs, for a part of an output; None: all are listed and planned
    inheritance: Inheritance | None = None  # what such a part takes over from another part
    workers: Workers | None = None  # they stay when the build ends, unless it fails; None: it starts its own
    made: list[str] = dataclasses.field(default_factory=list, init=False)  # stages that were not found, but made
    metrics: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict, init=False)  # of stages that ran
    _workers: Workers = dataclasses.field(init=False, repr=False)
    _session: Session | None = dataclasses.field(default=None, init=False, repr=False)
    _sign: str = dataclasses.field(default="", init=False, repr=False)  # URL of the file that says that we are at work
    _listed: Plan | None = dataclasses.field(default=None, init=False, repr=False)  # inputs, not settled yet
    _plan: Plan | None = dataclasses.field(default=None, init=False, repr=False)
    _imported: TokenizerSpec | None = dataclasses.field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        use_options(dataclasses.asdict(self.config.storage))
        engine = self.config.engine
        self.options = self.options.with_engine(engine.name, find_web(engine), make_engine_options(engine))
        if not self.options.is_local:
            do_without_kernel()
        self._workers = self.workers or Workers(self.options, WORKER_MODULES)
        if self.options.share is not None and self.replace:
            raise ConfigError(
                f"--replace {self.replace}: hosts with slices must not remove what others are making. Have one host "
                f"do it, without --slice; or name a new --output, with --from for what still applies."
            )
        self.output = urls.resolve(self.config.base, self.output or self.config.build.output)
        refuse_local_paths(self.config, self.output)
        if (scheme := urls.find_scheme(self.output)) in urls.INPUT_ONLY:
            raise ConfigError(
                f"build.output = {redact(self.output)}: {scheme}:// is for inputs only: its library cannot promise "
                f"that a manifest is created once. Name a folder, or a URL of s3, gs or az."
            )
        if self.options.share is not None and self.config.list_smaller():
            raise ConfigError(
                "--slice: outputs of several encode.vocab_size are made by one host. Name one size, and make the "
                "others of its output with `tokcore convert --vocab-size`."
            )
        if self.reuse and self.reuse.rstrip("/") == self.output.rstrip("/"):
            raise ConfigError(f"--from {redact(self.reuse)}: is the output of this build. Name another one.")
        if self.reuse and not storage.exists(self.reuse):
            storage.require_bucket(self.reuse)
            raise ConfigError(f"--from {redact(self.reuse)}: there is no output")
        self.config = settle_languages(self.config, self._read_stored_settings)
        for output, is_own in ((self.output, True), (self.reuse, False)):
            is_replaced = is_own and counts_anew(self.replace)
            if output and not is_replaced and self.config.counts_apart_by:
                self.config = settle_counting(self.config, functools.partial(_find_counting, output), is_own)
        if self.options.share is not None:
            self._session = Session(self.output, self.options.share, self.progress.say)
        if self.options.runner:
            # Imports Beam, which takes most of a second: only for a build that names runner options.
            from tokcore_pipelines.run.engines.runner import check_runner_options

            check_runner_options(self.options.runner)

    def _read_stored_settings(self) -> Iterator[ReadSettings]:
        """How files were read for the plan that is there, or for the one that this build may take over."""
        for output in filter(None, (self.output if not lists_anew(self.replace) else "", self.reuse)):
            with contextlib.suppress(FormatError):  # of a damaged plan later stages say more
                if (planned := find_manifest(output, PLAN)) is None:
                    continue
                yield from planned.config.settings
                if not planned.config.settings and has_commits(output):  # a watcher began it
                    for part in read_log(output).parts():
                        yield from require_manifest(locate_part(output, part), PLAN, "build").config.settings
                return

    def run(self) -> BuildManifest:
        """Run every stage whose manifest is missing; return the build's manifest.

        Where encode.vocab_size is a list, that of the largest; the others are made of its shards, in outputs of their
        own. Raises ConfigError if the output holds a different build, StageError and LearnError if a stage fails.
        """
        with self.at_work():
            self.require_engine(WHOLE)
            if (standing := read_standing(self.output, WHOLE, self.config)) is None:
                self._workers.start_first()  # it imports while inputs are listed and a tokenizer is read
            if standing is None or (made := self._find_finished(standing)) is None:
                plan, planned = self._planned()
                if self.config.counts:
                    count_corpus(self.run_of_stages(), plan, planned)
                learned = self._learn()
                encode_corpus(self.run_of_stages(), plan, planned, learned)
                self._derive()
                made = self.finish()
            self._warn(made)
        for config in self.config.list_smaller():
            self._run_smaller(config)
        return made

    def _run_smaller(self, config: BuildConfig) -> None:
        """Make the output of a smaller vocabulary out of this one."""
        output = f"{self.output.rstrip('/')}-{config.vocab_size}"
        replace = self.replace if storage.exists(output) else ""
        plan = Stored(self.output).plan
        build = Build(config, self.options, output, self.progress, replace, self.output, plan, workers=self.workers)
        made = build.run()
        self.progress.say(f"{config.vocab_size:,} tokens: root {made.root}, in {redact(output)}")

    def _warn(self, build: BuildManifest) -> None:
        """Say if languages of a finished build are spelled as no build would spell them now."""
        if warning := describe_kept_spelling(self.config, build.languages):
            self.progress.say(f"warning: {warning}")

    def take_workers(self, workers: Workers) -> None:
        """Use workers that have started already. They end with the build."""
        self._workers = workers

    def take_tokenizer(self, spec: TokenizerSpec) -> None:
        """Import this tokenizer, whatever is at the place that the build file names."""
        self._imported = spec

    def _find_finished(self, standing: BuildManifest) -> BuildManifest | None:
        """The manifest of this build, if it is finished; None if its stages must be checked one by one."""
        imported = self.imported_tokenizer()
        if self.replace or self.chosen is not None:
            return None
        if needs_no_listing(self.config, standing):
            with self.progress.stage("look", minor=True):
                finished = find_finished(self.output, self.config, imported)
            if finished is not None:
                self.progress.say("finished, as its build file says: `tokcore check` looks for changed inputs")
            return finished
        if self.progress.level > 0:
            return None  # --verbose says for each stage that it is there
        with self.progress.stage("plan", minor=True):
            left_out = LeftOut()
            self._listed = plan_build(self.config, self.output, left_out, reuse=self.reuse)
            self._say_what_became_of_links(left_out)
        with self.progress.stage("look", minor=True):
            return find_finished(self.output, self.config, imported, self._listed)

    # ---------------------------------------------------------------------------------------------------------- stages

    def plan(self) -> PlanManifest:
        """List and pin the inputs, or find them as an earlier run of this build pinned them."""
        with self.progress.stage("plan", minor=True):
            self._refuse_foreign_output()
            self.imported_tokenizer()
            left_out = LeftOut()
            planned = self.chosen or self._listed
            self._plan = planned or plan_build(self.config, self.output, left_out, reuse=self.reuse)
            # A part that is made again from an output's manifests has no sources, and was read once.
            if self.config.sources and find_manifest(self.output, PLAN) is None:
                chosen = choose_files_to_read(self._plan, self.inheritance)
                wrong = refuse_wrong_sources(self.config, chosen, self.options.num_workers, self.options.is_local)
                for warning in (*left_out.idle, *wrong):
                    self.progress.say(f"warning: {warning}")
                if cut := [file for _, file in list_cut_files(self._plan)]:
                    ranges = format_count(sum(len(file.cuts) for file in cut), "range")
                    self.progress.say(f"cut: {format_count(len(cut), 'file')} into {ranges}, each proved first")
            self._say_what_became_of_links(left_out)
        reach("plan.listed")
        if self.workers is None:
            self._workers.limit(count_worthwhile_workers(self._plan))
        self._settle(self._plan)
        # Which documents are duplicates follows from all of them, so no work item is as it was.
        if self.inheritance is None and urls.is_local(self.output) and self.config.dedup_identity() is None:
            self.inheritance = self._find_replaced(self._plan)
        return commit_plan(self.run_of_stages(), self._plan)

    def _say_what_became_of_links(self, left_out: LeftOut) -> None:
        for said in left_out.describe_links():
            self.progress.say(said)

    def count(self) -> CountsManifest:
        """Count pre-tokens per language into tables; commit the rejects."""
        with self.at_work():
            self.require_engine(COUNTS)
            self._start_workers_unless_made(COUNTS)
            plan, planned = self._planned()
            return count_corpus(self.run_of_stages(), plan, planned)

    def learn(self) -> TokenizerManifest:
        """Learn the tokenizer from the count tables, or import the one the build file names.

        Does not look at the inputs, unless there is another output to take counts from.
        """
        with self.at_work():
            if self.config.tokenizer is None:
                self.require_engine(TOKENIZER)
            if self.reuse:
                self._take_counts()
            else:
                self._settle(None)
            return self._learn()

    def encode(self) -> ShardsManifest:
        """Tokenize the corpus into shards."""
        with self.at_work():
            self.require_engine(SHARDS)
            self._start_workers_unless_made(SHARDS)
            if self.reuse:
                self._take_counts()
                self._take_tokenizer()
            plan, planned = self._planned()
            return encode_corpus(self.run_of_stages(), plan, planned, require_manifest(self.output, TOKENIZER))

    def derive(self, stage: Stage[Made]) -> Made:
        """A stage that is made out of finished ones alone. Raises ConfigError if the build file does not ask for it."""
        with self.at_work():
            self._settle(None)
            made = self._derive(stage.name)[stage.name]
            if made is None:
                table, key = stage.asked_by.split(".")
                where = self.config.at(table, key)
                raise ConfigError(f"{where}: is not set: add, for example, {key} = {stage.example}.")
            return cast(Made, made)

    def _derive(self, only: str = "") -> dict[str, AnyManifest | None]:
        """Make the stages that are made out of finished ones, or one of them; stage -> manifest, if it is asked for."""
        return {
            name: work.make(self.run_of_stages())
            for name, work in WORK.items()
            if isinstance(work, DerivedWork) and only in ("", name)
        }

    def finish(self) -> BuildManifest:
        """Commit the build: one manifest that names the stages' manifests, and the root."""
        return commit_build(self.run_of_stages())

    def _learn(self) -> TokenizerManifest:
        return make_tokenizer(self.run_of_stages(), self.imported_tokenizer())

    def run_of_stages(self) -> BuildRun:
        """What the stages of this run share."""
        return BuildRun(
            self.config,
            self.output,
            self.options,
            self.progress,
            self._workers,
            self.reuse,
            self.made,
            self.metrics,
            self._session,
            self.inheritance,
            is_whole=self.chosen is None or self.output.split("/")[-2] != PARTS,
        )

    def _find_replaced(self, plan: Plan) -> Inheritance | None:
        """What this build takes over from the stages that it replaces: nothing if one of their files is damaged."""
        replaced = locate_replaced(self.output)
        try:
            found = find_inheritance(replaced, plan, self.config.base)
            if found is not None:
                require_undamaged(replaced)
        except (FormatError, StageError) as error:
            self.progress.say(f"warning: {error}. So all files are read again, not only those that changed.")
            return None
        return found

    def _planned(self) -> tuple[Plan, PlanManifest]:
        manifest = self.plan() if self._plan is None else require_manifest(self.output, PLAN, "build")
        assert self._plan is not None
        self._plan = dedup_corpus(self.run_of_stages(), self._plan, manifest)
        return self._plan, manifest

    def _take_counts(self) -> None:
        """Take over plan and counts from the other output, if it has those of this build."""
        plan, planned = self._planned()
        key = StageKey(COUNTS.name, self.config.count_identity(), name_documents(self.run_of_stages(), planned))
        if self.config.tokenizer is None and find_reusable(self.reuse, COUNTS, key.identity) is not None:
            count_corpus(self.run_of_stages(), plan, planned)

    def _take_tokenizer(self) -> None:
        """Take over the tokenizer from the other output, if it is the one of this build."""
        theirs = find_manifest(self.reuse, TOKENIZER)
        if self.config.tokenizer is None and find_manifest(self.output, COUNTS) is None:
            return
        if (
            theirs is not None
            and theirs.identity == make_tokenizer_key(self.run_of_stages(), self.imported_tokenizer()).identity
        ):
            self._learn()

    # ------------------------------------------------------------------------------------------------- before any stage

    def imported_tokenizer(self) -> TokenizerSpec | None:
        """The tokenizer that the build file names; None if it is to be learned.

        Raises ConfigError unless it is one, with the tokens that encode.prepend and append want, and with ids that fit
        into shards.dtype. Where prepend and append are not set, they follow from its roles.
        """
        if self.config.tokenizer is not None and self._imported is None:
            self._imported = import_tokenizer(self.config, self.output, self.progress.say)
            self.config = take_over_roles(self._imported, self.config)
            find_special_ids(self._imported, "prepend", self.config.encode.prepend)
            find_special_ids(self._imported, "append", self.config.encode.append)
            check_dtype_of(self._imported, self.config)
            check_draws_of(self._imported, self.config)
            check_padding_of(self._imported, self.config)
        return self._imported

    def standing(self, plan: Plan) -> str:
        """What the output holds of this build, in words. plan: as it is now.

        Raises ConfigError if it holds another build, or something else.
        """
        self._refuse_foreign_output()
        imported = self.imported_tokenizer()  # before the config is looked at, which it completes
        if is_finished(self.output, self.config, imported, plan):
            return "this build, finished"
        there = look(self.output, self.config, imported, plan)
        if there.differences:
            if self._gives_way(there):
                return "a build that failed before it had counted anything, which this one replaces"
            raise there.error(self.output, self.config.as_argument, of_commit=self.chosen is not None)
        if BUILD in there.found:
            return "this build, finished"
        return f"this build, unfinished: {', '.join(there.found)}" if there.found else "nothing"

    def _settle(self, plan: Plan | None) -> None:
        """Make room for this build, or refuse what is in its way. plan: None where inputs do not matter."""
        finish_replacing(self.output)
        imported = self.imported_tokenizer()
        if self.replace and (has_commits(self.output) or has_beside(self.output)):
            raise ConfigError(
                f"--replace {self.replace}: {redact(self.output)} was updated since it was built, or has tokenizers "
                f"that were learned from it, and these need what would be removed. Build into a new output."
            )
        if self.replace:
            self._begin_work()
            replace(self.output, self.replace, imported is not None, self._identity(plan))
        there = look(self.output, self.config, imported, plan)
        if BUILD not in there.found and (there.found or plan is not None):
            self._begin_work()
        if there.differences:
            if not self._gives_way(there):
                raise there.error(self.output, self.config.as_argument, of_commit=self.chosen is not None)
            make_room(self.output, there.command, imported is not None)
        elif there.found and BUILD not in there.found:
            self.progress.say(
                f"goes on with {', '.join(there.found)}, made{describe_commit_date(self.output, [*there.found][-1])}"
            )

    def _gives_way(self, there: Standing) -> bool:
        """Whether the output holds another build that failed before it had made anything, and no build is at work."""
        is_worth_nothing = there.is_worth_nothing(self.config.build.max_rejected)
        return is_worth_nothing and not are_others_at_work(self.output, self._sign)

    def _identity(self, plan: Plan | None) -> str:
        """The identity of the build: sha256 of what it is made from."""
        imported = self.imported_tokenizer()
        parts = [
            to_jsonable(self.config.stage_configs()),
            imported.fingerprint if imported is not None else "",
            make_plan_key(self.config, plan).identity if plan is not None else "",
        ]
        return hash_sha256(write_canonical_json({"parts": parts}))

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """While the block runs, other builds can see that this one is at work in the output; then its workers end."""
        try:
            yield
            if self._sign:
                forget_replaced(self.output)
        except BaseException as error:
            self._workers.close()  # some may still be at work for this build
            if self._session is not None:
                self._session.end(error)
            raise
        finally:
            if self.workers is None:
                self._workers.close()
            if self._session is not None:
                self._session.end()
            if self._sign:
                end_work(self.output, self._sign)
                self._sign = ""

    def require_engine(self, stage: Stage[Any]) -> None:
        """Raise ConfigError, before anything is listed, if that manifest has to be made by an engine that is not there.

        Dataflow's bucket for staging must be there, too: else Beam tries for ten minutes to write to it.
        """
        if not self.options.is_local and (self.replace or read_standing(self.output, stage, self.config) is None):
            require_job_server(self.config.engine)

    def _start_workers_unless_made(self, stage: Stage[Any]) -> None:
        """Unless that manifest is there, have a worker import while inputs are listed."""
        if not storage.is_file(get_manifest_url(self.output, stage.name)):
            self._workers.start_first()

    def _begin_work(self) -> None:
        if not self._sign:
            self._sign = begin_work(self.output)
            storage.require_exclusive_creation(f"{self._sign}.probe")
            if self._session is not None:
                self._session.begin()

    def _refuse_foreign_output(self) -> None:
        make_room_for_card(self.output)
        if storage.read_if_there(get_manifest_url(self.output, "plan")) is not None:
            return
        if urls.is_local(self.output) and urls.get_local_path(self.output).is_file():
            raise ConfigError(f"build.output = {self.output}: is a file. Name a new or empty folder.")
        if self.options.is_local and self.output.startswith("memory://"):
            raise ConfigError(f"build.output = {self.output}: the memory of one process, which workers cannot see.")
        there = storage.list_tree(self.output)
        has_stages = not {f"{stage}/{MANIFEST}" for stage in STAGES}.isdisjoint(there)
        is_ours = has_stages or find_manifest(self.output, WHOLE) is not None or is_replacing(self.output)
        allowed = {*STAGES, FOLDER, LOG, PARTS, REMOVED, CARD, *((MANIFEST, RUN) if is_ours else ())}
        for path in there:
            if path.split("/")[0] not in allowed:
                raise ConfigError(
                    f"build.output = {redact(self.output)}: the folder holds {path!r} and no build. "
                    f"Name a new or empty folder."
                )


def _find_counting(output: str) -> CountsConfig | None:
    """How an output was counted; None if it was not, or its manifest is damaged, of which the stages say more."""
    with contextlib.suppress(FormatError):
        if (build := find_manifest(output, WHOLE)) is not None:
            return build.config.counts
        if (counts := find_manifest(output, COUNTS)) is not None:
            return counts.config
    return None
