"""One stage of a build: skipped if its manifest is there, else made, claimed, published and committed."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Generic, cast, get_args

from tokcore import kernel
from tokcore.errors import ConfigError, LedgerError, StageError, TokError
from tokcore.files.canonical_json import Sha256Writer
from tokcore_pipelines.build.commit import (
    MANIFEST,
    RUN,
    claim,
    commit,
    find_manifest,
    find_manifests,
    get_folder,
    get_manifest_url,
    read_run_facts,
)
from tokcore_pipelines.build.missing_files import require_files
from tokcore_pipelines.build.reuse_output import copy_files, find_reusable
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import Phase, StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.terminal import format_count
from tokcore_pipelines.run.choose import choose_executor
from tokcore_pipelines.run.slices.session import Session
from tokcore_pipelines.run.task import Executor
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts, publish
from tokcore_pipelines.store.objects import OtherContentError
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.semantics import SEMANTICS
from tokcore_pipelines.work.worker_notes import read_notes
from tokcore_schemas.changed_settings import describe_changed_settings
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.inheritance import Inheritance
from tokcore_schemas.manifest import (
    About,
    AnyManifest,
    Config,
    FileEntry,
    Input,
    Language,
    Manifest,
    Totals,
    compute_identity,
)
from tokcore_schemas.packed_entries import collect_entries
from tokcore_schemas.refs import StoredFile
from tokcore_schemas.run_json import RunFacts
from tokcore_schemas.shard_entries import Afresh
from tokcore_schemas.stage_table import BUILD, STAGES, get_stage


@dataclasses.dataclass(frozen=True, slots=True)
class BuildRun:
    """What the stages of one run of a build share."""

    config: BuildConfig
    output: str  # URL
    options: RunOptions
    progress: StageProgress
    workers: Workers
    reuse: str = ""  # URL of another output, whose stages are taken over where they are those of this build
    made: list[str] = dataclasses.field(default_factory=list)  # stages that were not found, but made or taken over
    metrics: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)  # stage that ran -> what was measured
    session: Session | None = None  # with other hosts that make slices of this build
    inheritance: Inheritance | None = None  # what a part takes over from another part of its output
    is_whole: bool = True  # not a part that a commit adds to an output

    def find_executor(self, attempts: Attempts) -> Executor:
        """What does the steps of a stage."""
        return choose_executor(
            self.options, self.workers, self.progress.say, self.session, lambda: self.is_made(attempts)
        )

    def measure(self, name: str) -> Counter[str]:
        """An entry of metrics, for what is measured from now on."""
        measured = self.metrics[name] = Counter[str]()
        return measured

    def take_turn(self, attempts: Attempts) -> None:
        """Return when this process is the one that goes on with the stage, alone: at once, unless there are slices.

        Raises MadeElsewhere once another slice has committed the stage.
        """
        if self.session is not None:
            self.session.take_turn(attempts, lambda: self.is_made(attempts))

    def is_made(self, attempts: Attempts) -> bool:
        """Whether the stage has been committed."""
        return storage.exists(get_manifest_url(self.output, attempts.stage))


@dataclasses.dataclass(frozen=True, slots=True)
class StageKey(Generic[Config]):
    """What a stage is made from: equal keys, equal bytes."""

    stage: str
    config: Config
    inputs: Mapping[str, Input]  # earlier stages
    pins: Mapping[str, Input] = dataclasses.field(default_factory=dict)  # inputs that the manifest does not name

    @property
    def identity(self) -> str:
        """The identity of the stage's manifest in this release."""
        return compute_identity(self.stage, self.config, {**self.inputs, **self.pins}, SEMANTICS)


def name_inputs(*made_from: AnyManifest) -> dict[str, Input]:
    """The inputs of a stage that is made from these."""
    return {one.stage: one.as_input() for one in made_from}


@dataclasses.dataclass(frozen=True, slots=True)
class Made(Generic[Totals, Language, About]):
    """What a stage made: its files, which are in its working folder, the facts about each, and totals."""

    files: Collection[tuple[StoredFile, About]]
    totals: Totals
    languages: dict[str, Language] = dataclasses.field(default_factory=dict)


def list_plain_files(made: AnyManifest) -> list[tuple[StoredFile, Any]]:
    """The files of a stage that stores them as they are, so that their content is their bytes."""
    return [(StoredFile(one.path, "", one.size_bytes, one.sha256, one.sha256), one.about) for one in made.files]


def give_no_reasons() -> list[str]:
    """Why a standing stage may differ, where configuration and inputs say it all."""
    return []


def run_stage(
    run: BuildRun,
    key: StageKey[Config],
    make: Callable[[Attempts], Made[Totals, Language, About]],
    more_reasons: Callable[[], list[str]] = give_no_reasons,
) -> Manifest[Config, Totals, Language, About]:
    """The stage's committed manifest if it is of this key, else the one of what make gives, committed.

    Instead of what make gives it takes over what run.reuse holds of this key. more_reasons: why a standing stage of
    equal configuration differs, for the error. Raises ConfigError if the stage of another build stands there, or is
    being committed; StageError if a file of the standing stage is gone.
    """

    def find_standing() -> Manifest[Config, Totals, Language, About] | None:
        manifest = find_manifest(run.output, get_stage(key.stage))
        if manifest is not None and manifest.identity != key.identity:
            raise make_other_build_error(run.output, manifest, key.config, key.inputs, more_reasons)
        return cast("Manifest[Config, Totals, Language, About] | None", manifest)

    if (manifest := find_standing()) is not None:
        require_files(run.output, manifest)
        if run.progress.level > 0:
            finished = read_run_facts(run.output, key.stage).finished or "at an unknown time"
            run.progress.note(f"{key.stage}: done already, {finished}, {_say_in_words(run, manifest)}")
        return manifest
    started = time.time()
    attempts = Attempts(run.output, key.stage, key.identity)
    theirs = find_reusable(run.reuse, STAGES[key.stage], key.identity) if run.reuse and key.stage != BUILD else None
    try:
        attempts.begin()
        if theirs is not None:
            run.take_turn(attempts)
        made = take_over(run, theirs, attempts) if theirs is not None else make(attempts)
        claim(attempts)
    except TokError as error:
        # An equal build may have been faster, and have removed the working folder when it was done: what was in it
        # is missing then, and what is counted without it does not add up.
        if (manifest := find_standing()) is not None:
            return manifest
        if not isinstance(error, LedgerError):
            raise
        # What is wrong may be in any of the records, so none is used again, and no worker may add one.
        run.workers.close()
        storage.remove_tree(attempts.folder)
        raise LedgerError(f"{error}. Nothing was committed; run the command again to redo this stage") from error
    with run.progress.stage("commit", len(made.files), "files", minor=True) as shown:
        find_standing()  # a build that committed and is done holds no claim any more
        manifest = _publish_and_commit(run, key, made, attempts, started, shown)
    run.made.append(key.stage)
    if run.progress.level > 0:
        run.progress.note(f"{key.stage}: committed after {time.time() - started:.1f} s, {_say_in_words(run, manifest)}")
    return manifest


def _publish_and_commit(
    run: BuildRun,
    key: StageKey[Config],
    made: Made[Totals, Language, About],
    attempts: Attempts,
    started: float,
    shown: Phase,
) -> Manifest[Config, Totals, Language, About]:
    """Give the files of a claimed stage their final names, and create its manifest."""
    _require_inputs(run.output, key)
    files = Afresh(lambda: (file for stored, _ in made.files for file in stored.list_files()))
    if urls.is_local(run.output):
        publish(attempts, get_folder(run.output, key.stage), files, on_file=shown.advance)
    else:
        _settle_objects(attempts, files)
    facts = collect_facts(run, key.stage, started, attempts)
    return commit(run.output, _make_manifest(key, made), facts, attempts.scratch)


def _settle_objects(attempts: Attempts, files: Iterable[StoredFile]) -> None:
    """Remove what other builds left among the objects of a claimed stage, which have their final names already.

    Raises StageError if one of them is gone; the next run makes it again. One listing says it all.
    """
    if attempts.stage == BUILD:  # its folder holds those of all stages, and its one file was just checked
        return
    there = storage.list_footprints(attempts.final_folder)
    is_named, lost, num_lost = bytearray(len(there)), "", 0
    for file in files:
        number = there.find_number(file.path)
        if number is not None:
            is_named[number] = 1
        if number is None or there[file.path].size_bytes != file.size_bytes:
            lost, num_lost = lost or file.path, num_lost + 1
    if num_lost:
        storage.remove_tree(attempts.folder)
        raise StageError(
            f"{redact(attempts.final_folder)}: {lost} is gone, which this build wrote"
            + (f", and {num_lost - 1} more. " if num_lost > 1 else ". ")
            + "Run the command again to redo this stage"
        )
    strays = (path for path, named in zip(there, is_named, strict=True) if not named)
    storage.remove_files(attempts.final_folder, [path for path in strays if path not in (MANIFEST, RUN)])


def _say_in_words(run: BuildRun, manifest: AnyManifest) -> str:
    where = redact(get_folder(run.output, manifest.stage))
    return f"{format_count(len(manifest.files), 'file')} in {where}, content {manifest.content_id()}"


def take_over(run: BuildRun, theirs: AnyManifest, attempts: Attempts) -> Made[Any, Any, Any]:
    """What a stage of the output run.reuse made: its files, copied, and what its manifest says."""
    with run.progress.stage(f"copy {theirs.stage:<10}"):
        return Made(copy_files(run.reuse, theirs, attempts), theirs.totals, dict(theirs.languages))


def _require_inputs(output: str, key: StageKey[Any]) -> None:
    """Raise ConfigError if what the stage was made from is gone: another build may have replaced it."""
    standing = find_manifests(output, map(get_stage, key.inputs))
    for name, made_from in key.inputs.items():
        manifest = standing.get(name)
        if manifest is None or manifest.as_input() != made_from:
            raise ConfigError(
                f"{redact(get_manifest_url(output, name))}: was replaced while {key.stage} was made from it. "
                f"Let one build at a time work in this output, and run the command again."
            )


def _make_manifest(
    key: StageKey[Config], made: Made[Totals, Language, About]
) -> Manifest[Config, Totals, Language, About]:
    entries = (FileEntry.of(file, about) for file, about in made.files)
    manifest: Manifest[Config, Totals, Language, About] = Manifest(
        stage=key.stage,
        identity=key.identity,
        config=key.config,
        inputs=dict(key.inputs),
        files=cast(Any, collect_entries(entries, get_args(get_stage(key.stage).manifest)[3])),
        totals=made.totals,
        languages=made.languages,
    )
    return dataclasses.replace(manifest, root=manifest.content_id()) if key.stage == BUILD else manifest


def collect_facts(run: BuildRun, stage: str, started: float, attempts: Attempts) -> RunFacts:
    """What run.json says about the stage; no hash covers it."""
    return RunFacts(
        name=run.config.build.name,
        base=run.config.base,
        seconds=round(time.time() - started, 3),
        workers=run.workers.most if run.options.is_local else None,
        kernel=kernel.get_implementation(),
        settings=run.config.hash_settings() if stage == BUILD else "",
        processes=() if run.options.is_local else read_notes(attempts),
    )


def make_other_build_error(
    output: str,
    standing: AnyManifest,
    config: object,
    inputs: Mapping[str, Input],
    more_reasons: Callable[[], list[str]] = give_no_reasons,
) -> ConfigError:
    """The error for an output that holds the stage of another build: says what differs."""
    reasons = describe_changed_settings(standing.config, config)
    reasons += [f"its {key} is another one" for key in sorted(inputs) if standing.inputs.get(key) != inputs[key]]
    detail = "; ".join(reasons or more_reasons()) or "it was made by another release of tokcore"
    return ConfigError(
        f"{redact(get_manifest_url(output, standing.stage))}: the output holds a different build: {detail}. "
        f"Another one may have been faster. Choose another build.output; `tokcore check` says what this one holds."
    )


def write_file(
    attempts: Attempts, path: str, content: bytes | Callable[[Sha256Writer], None], content_sha256: str | None = None
) -> StoredFile:
    """A file of a stage that the driver writes. path: its final one, without a result key.

    content: its bytes, or what writes them. content_sha256: None if the content is the file's own bytes.
    In an object store it takes the place of one that a killed build left, once the claim is ours. Raises ConfigError
    if another build has the claim.
    """

    def write() -> StoredFile:
        with attempts.new_final(path) as new:
            if callable(content):
                content(new.file)
            else:
                new.file.write(content)
        return new.stored(path, content_sha256)

    try:
        return write()
    except OtherContentError:
        claim(attempts)
        storage.remove_file(urls.join(attempts.final_folder, path))
        return write()
