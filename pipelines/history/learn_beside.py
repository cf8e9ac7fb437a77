"""`tokcore learn --at COMMIT`: tokenizers beside the one that encoded an output, from the count tables of a commit."""

from __future__ import annotations

import dataclasses
import time
from typing import NamedTuple

from tokcore.errors import ConfigError, StageError, TokError
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.build.commit import commit_to, require_manifest
from tokcore_pipelines.build.make_tokenizer import learn_from, sum_up_tokenizer, write_artifacts
from tokcore_pipelines.build.output import Output, read_output
from tokcore_pipelines.build.stage import BuildRun, collect_facts
from tokcore_pipelines.build.tokenizers_beside import (
    COMMIT,
    FOLDER,
    find_beside,
    list_fingerprints,
    name_commit_as_input,
)
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts, publish, remove_attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.counted_parts import CountedParts
from tokcore_pipelines.work.learn_model import Learned
from tokcore_pipelines.work.semantics import SEMANTICS
from tokcore_schemas.changed_settings import describe_changed_settings
from tokcore_schemas.manifest import FileEntry, Input, Manifest, compute_identity
from tokcore_schemas.stage_manifests import LearnedConfig, TokenizerManifest
from tokcore_schemas.stage_table import COUNTS, TOKENIZER

_STAGE = TOKENIZER.name
_TRIES = 3  # of learning where others learn the same


class LearnedBeside(NamedTuple):
    """A tokenizer that was learned from a commit, or found."""

    fingerprint: str
    path: str  # of its folder, below the output
    vocab_size: int
    is_new: bool  # False: it was there


def learn_at(build: Build, at: int | None = None) -> list[LearnedBeside]:
    """Learn tokenizers, as the build file says, from the count tables of a commit; one for each size, ascending.

    Each gets a folder of its own beside the others; the output's own stays the chosen one. at: None: the newest.
    Raises ConfigError if there is no such commit, or it counted nothing, or counted in another way; LearnError as a
    build does.
    """
    config = build.config.learn_identity()
    if not isinstance(config, LearnedConfig):
        raise ConfigError(f"{build.config.at('tokenizer', 'from')}: is set, so there is nothing to learn: remove it.")
    if build.options.share is not None:
        raise ConfigError("--slice: one host learns. Leave it out.")
    if build.replace or build.reuse:
        raise ConfigError("--replace and --from are for the stages of a build. Leave them out, or --at.")
    output = read_output(build.output, at)
    inputs = {COMMIT: name_commit_as_input(output.log, output.number)}
    _require_counted_alike(build, output)
    with build.at_work():
        return _learn(build.run_of_stages(), config, inputs, output.find_counted() or CountedParts(()))


def _require_counted_alike(build: Build, output: Output) -> None:
    for part in output.parts:
        if (made := part.find(COUNTS)) is None:
            raise ConfigError(
                f"{redact(part.url)}: has no count tables, so nothing can be learned from it. Build an output that "
                f"counts: without [tokenizer]."
            )
        if reasons := describe_changed_settings(made.config, build.config.count_identity()):
            raise ConfigError(f"{redact(part.url)}: was counted in another way: {'; '.join(reasons)}.")


def _learn(run: BuildRun, config: LearnedConfig, inputs: dict[str, Input], tables: CountedParts) -> list[LearnedBeside]:
    several = run.config.sizes_identity() or config
    attempts = Attempts(run.output, FOLDER, compute_identity(FOLDER, several, inputs, SEMANTICS))
    learned = _learn_undisturbed(run, tables, attempts)
    made = []
    for size, spec in learned.specs.items():
        of_size = dataclasses.replace(config, vocab_size=size)
        made.append(_keep(run, of_size, inputs, spec, learned, attempts.identity))
    remove_attempts(attempts)
    return made


def _learn_undisturbed(run: BuildRun, tables: CountedParts, attempts: Attempts) -> Learned:
    """Learn again if an equal command was faster: it removed the working folder, and what a worker needs from there."""
    tries_left = _TRIES
    while True:
        begun, tries_left = "", tries_left - 1
        try:
            begun = attempts.begin()
            return learn_from(run, run.config.vocab_sizes, tables, attempts)
        except StageError:
            if tries_left == 0 or (begun and storage.exists(begun)):
                raise


def _keep(
    run: BuildRun,
    config: LearnedConfig,
    inputs: dict[str, Input],
    spec: TokenizerSpec,
    learned: Learned,
    identity: str,
) -> LearnedBeside:
    """Write a tokenizer and its manifest, unless it is there."""
    path = f"{FOLDER}/{spec.fingerprint}"
    if spec.fingerprint in list_fingerprints(run.output):
        own = require_manifest(run.output, TOKENIZER).totals.fingerprint == spec.fingerprint
        return LearnedBeside(spec.fingerprint, _STAGE if own else path, spec.vocab_size, False)
    started = time.time()
    attempts = Attempts(run.output, FOLDER, identity, urls.join(run.output, path))
    try:
        files = write_artifacts({"": spec}, attempts, run.progress)
        if urls.is_local(run.output):
            publish(attempts, attempts.final_folder, [file for file, _ in files])
        reach("learn.published")
        manifest: TokenizerManifest = Manifest(
            stage=_STAGE,
            identity=compute_identity(_STAGE, config, inputs, SEMANTICS),
            config=config,
            inputs=inputs,
            files=tuple(FileEntry.of(file, about) for file, about in files),
            totals=sum_up_tokenizer(spec, learned.mix, learned.levels),
            languages=learned.languages,
        )
        facts = collect_facts(run, _STAGE, started, attempts)
        is_new = commit_to(attempts.final_folder, manifest.to_bytes(), facts, attempts.scratch)
    except TokError:
        # An equal command may have been faster, and have removed the working folder.
        if find_beside(run.output, spec.fingerprint) is None:
            raise
        is_new = False
    return LearnedBeside(spec.fingerprint, path, spec.vocab_size, is_new)
