"""A build: plan, count, learn, encode. Each stage gives a manifest, and is skipped if its manifest stands.

sources --plan--> input ranges --count--> count tables --learn--> tokenizer --encode--> token shards
"""

from __future__ import annotations

import dataclasses

from pipelines.local.progress import StageProgress
from pipelines.local.run_options import RunOptions
from pipelines.stages.commit import committed, committed_stage, manifest_url
from pipelines.stages.count_corpus import count_corpus
from pipelines.stages.encode_corpus import encode_corpus
from pipelines.stages.finish import commit_build
from pipelines.stages.make_tokenizer import make_tokenizer
from pipelines.stages.plan import changed_inputs, commit_plan, plan_build, plan_key
from pipelines.stages.stage import BuildRun, other_build
from pipelines.stages.tokenizer_files import import_tokenizer
from pipelines.store import storage, urls
from pipelines.store.attempts import FOLDER
from pipelines.store.crashpoints import reached
from pipelines.store.redaction import redact
from pipelines.work.jobs import special_ids
from schemas.config import BuildConfig
from schemas.manifest import AnyManifest
from schemas.plan import Plan
from schemas.stage_manifests import (
    BUILD,
    STAGES,
    BuildManifest,
    CountsManifest,
    ImportedConfig,
    PlanManifest,
    ShardsManifest,
    TokenizerManifest,
)
from tokcore.errors import ConfigError
from tokcore.tokenizer_spec import TokenizerSpec


@dataclasses.dataclass(slots=True)
class Build:
    """One build file and one output; call the stages in order, or run() for all."""

    config: BuildConfig
    options: RunOptions = dataclasses.field(default_factory=RunOptions)
    output: str = ""  # URL; empty: as the build file says
    progress: StageProgress = dataclasses.field(default_factory=StageProgress)
    _plan: Plan | None = dataclasses.field(default=None, init=False, repr=False)
    _imported: TokenizerSpec | None = dataclasses.field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.output = urls.resolve(self.config.base, self.output or self.config.build.output)
        if self.options.runner:
            # Imports Beam, which takes most of a second: only for a build that names runner options.
            from pipelines.graph.runner import check_runner_options

            check_runner_options(self.options.runner)

    def run(self) -> BuildManifest:
        """Run every stage whose manifest is missing; return the build's manifest.

        Raises ConfigError if the output holds a different build, StageError and LearnError if a stage fails.
        """
        self.plan()
        if self.config.tokenizer is None:
            self.count()
        self.learn()
        self.encode()
        return self.finish()

    # ---------------------------------------------------------------------------------------------------------- stages

    def plan(self) -> PlanManifest:
        """List and pin the inputs, or find them as an earlier run of this build pinned them."""
        with self.progress.stage("plan", minor=True):
            self._refuse_foreign_output()
            self.imported_tokenizer()
            self._plan = plan_build(self.config)
        reached("plan.listed")
        return commit_plan(self._run(), self._plan)

    def count(self) -> CountsManifest:
        """Count pre-tokens per language into tables; commit the rejects."""
        return count_corpus(self._run(), *self._planned())

    def learn(self) -> TokenizerManifest:
        """Learn the tokenizer from the count tables, or import the one the build file names."""
        return make_tokenizer(self._run(), self.imported_tokenizer())

    def encode(self) -> ShardsManifest:
        """Tokenize the corpus into shards."""
        plan, planned = self._planned()
        return encode_corpus(self._run(), plan, planned, committed_stage(self.output, "tokenizer", "learn"))

    def finish(self) -> BuildManifest:
        """Commit the build: one manifest that names the stages' manifests, and the root."""
        return commit_build(self._run())

    def _run(self) -> BuildRun:
        return BuildRun(self.config, self.output, self.options, self.progress)

    def _planned(self) -> tuple[Plan, PlanManifest]:
        manifest = self.plan() if self._plan is None else committed_stage(self.output, "plan", "plan")
        assert self._plan is not None
        return self._plan, manifest

    # ------------------------------------------------------------------------------------------------- before any stage

    def imported_tokenizer(self) -> TokenizerSpec | None:
        """The tokenizer that the build file names; None if it is to be learned.

        Raises ConfigError unless it is one, with the tokens that encode.append wants.
        """
        if self.config.tokenizer is not None and self._imported is None:
            self._imported = import_tokenizer(self.config)
            special_ids(self._imported, self.config.encode.append)
        return self._imported

    def standing(self, plan: Plan) -> str:
        """What the output holds of this build, in words. plan: as it is now.

        Raises ConfigError if it holds another build, or something else.
        """
        self._refuse_foreign_output()
        found: dict[str, AnyManifest] = {
            name: made for name in (*STAGES, BUILD) if (made := committed(self.output, name)) is not None
        }
        key, configs = plan_key(self.config, plan), self.config.stage_configs()
        if "plan" in found and found["plan"].identity != key.identity:
            raise other_build(self.output, found["plan"], key.config, {}, lambda: changed_inputs(self.output, plan))
        for name, config in (("tokenizer", configs.tokenizer), ("shards", configs.shards), ("counts", configs.counts)):
            if name in found and config is not None and _without_fingerprint(found[name].config) != config:
                raise other_build(self.output, found[name], config, {})
        if BUILD in found:
            return "this build, finished"
        return f"this build, unfinished: {', '.join(found)}" if found else "nothing"

    def _refuse_foreign_output(self) -> None:
        if storage.exists(manifest_url(self.output, "plan")):
            return
        if urls.is_local(self.output) and urls.local_path(self.output).is_file():
            raise ConfigError(f"build.output = {self.output}: is a file. Name a new or empty folder.")
        if self.options.is_local and self.output.startswith("memory://"):
            raise ConfigError(f"build.output = {self.output}: the memory of one process, which workers cannot see.")
        allowed = {*STAGES, FOLDER}
        for path in storage.list_tree(self.output):
            if path.split("/")[0] not in allowed:
                raise ConfigError(
                    f"build.output = {redact(self.output)}: the folder holds {path!r} and no build. "
                    f"Name a new or empty folder."
                )


def _without_fingerprint(config: object) -> object:
    """The configuration of a stage as the build file alone gives it."""
    return ImportedConfig() if isinstance(config, ImportedConfig) else config
