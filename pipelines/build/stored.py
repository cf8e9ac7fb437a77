"""What one build has left at a URL: its manifests, its plan and its tokenizer, each read once, when it is asked for."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from tokcore.errors import FormatError, TokError
from tokcore.tokenizer.tokenizer_spec import FILE_NAME, TokenizerSpec
from tokcore_pipelines.build.commit import find_manifest, get_path_below, name_once, read_run_facts, require_manifest
from tokcore_pipelines.build.file_rejections import with_rejections
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.tokenizers import load_spec
from tokcore_pipelines.work.read_plan import read_plan, with_drops
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.plan import Plan
from tokcore_schemas.stage_table import DEDUP, PLAN, STAGES, TOKENIZER, Made, Stage


class Stored:
    """An output, or a part of one."""

    def __init__(self, url: str, found: Mapping[str, AnyManifest] | None = None, base: str = "") -> None:
        """found: the manifests that count; None: those that are there. base: as for verify; "": the plan notes it."""
        self.url = url
        self._found: dict[str, AnyManifest | None] = dict(found or {})
        self._is_whole = found is not None
        self._base = base

    def find(self, stage: Stage[Made]) -> Made | None:
        """The manifest of a stage, or of the build; None if there is none. Raises FormatError if it is damaged."""
        if stage.name not in self._found and not self._is_whole:
            self._found[stage.name] = find_manifest(self.url, stage)
        return cast("Made | None", self._found.get(stage.name))

    def get(self, stage: Stage[Made]) -> Made:
        """The manifest of a stage that must be there. Raises FormatError if it is not."""
        if (made := self.find(stage)) is None:
            raise FormatError(f"{redact(self.url)}: {stage.name}/manifest.json: missing")
        return made

    def require(self, stage: Stage[Made], command: str = "build") -> Made:
        """As get, but raises ConfigError if it is not there: see require_manifest."""
        return self.find(stage) or require_manifest(self.url, stage, command)

    @functools.cached_property
    def stages(self) -> dict[str, AnyManifest]:
        """Name -> manifest, of the stages that are there, in the order of work."""
        return {name: made for name, stage in STAGES.items() if (made := self.find(stage)) is not None}

    def get_source(self, made: AnyManifest) -> AnyManifest:
        """The stage out of whose shards another one was made."""
        return next(one for name, one in self.stages.items() if name in made.inputs and hasattr(one.totals, "shards"))

    @functools.cached_property
    def plan(self) -> Plan:
        """Raises FormatError if the table of files is damaged."""
        plan = read_plan(self.url, self.get(PLAN))
        return plan if (made := self.find(DEDUP)) is None else with_drops(plan, self.url, made)

    @functools.cached_property
    def plan_as_read(self) -> Plan:
        """The plan, with the files that are rejected though they are cut. Raises FormatError if they cannot be told."""
        return with_rejections(self.plan, self.url)

    def as_before(self) -> Stored:
        """The same, with records taken and rejected as by earlier releases: Plan.as_before."""
        before = copy.copy(self)
        before.plan = self.plan.as_before()
        before.__dict__.pop("plan_as_read", None)
        return before

    @functools.cached_property
    def spec(self) -> TokenizerSpec:
        """What the tokenizer is made of. Raises FormatError if it is damaged."""
        return load_spec(self.url)

    def require_spec_inside(self) -> None:
        """Raise FormatError, under its path, if tokcore.json is damaged, or a link to a place outside."""
        path = get_path_below(TOKENIZER.name, FILE_NAME)
        try:
            storage.require_inside(self.url, path)
            _ = self.spec
        except TokError as error:
            raise FormatError(name_once(path, error)) from error

    @property
    def is_lossless(self) -> bool:
        """Whether tokens give texts back, as far as that can be told."""
        made = self.find(TOKENIZER)
        with contextlib.suppress(TokError):
            return (self.spec.model.facts().get("lossless") if made is None else made.totals.lossless) is not False
        return True

    @property
    def tokenizer(self) -> tuple[str, int]:
        """(fingerprint, number of ids) of the tokenizer. Raises FormatError if it is damaged."""
        made = self.find(TOKENIZER)
        if made is None:  # a folder that WriteShards made
            return self.spec.fingerprint, self.spec.vocab_size
        return made.totals.fingerprint, made.totals.vocab_size

    @functools.cached_property
    def base(self) -> str:
        """The folder of the build file, as the plan noted it; the current one if the note cannot be read."""
        noted = ""
        with contextlib.suppress(TokError):
            noted = self._base or read_run_facts(self.url, PLAN.name).base
        return noted or str(Path.cwd())
