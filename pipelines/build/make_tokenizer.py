"""The learn stage: from count tables to tokenizers, or an existing one taken over.

Where learn.vocab_size is a list, a stage of its own (`tokenizers`) learns all sizes. The one that encodes is then
taken from there; it is the same stage, with the same identity, as in a build of that size alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from tokcore.errors import FormatError
from tokcore.formats.tokenizers import vocabulary_files
from tokcore.learn.parallel_names import pair_languages
from tokcore.learn.rounds import MergesSoFar
from tokcore.models import MODELS, LearnOptions
from tokcore.tokenizer.tokenizer_spec import FILE_NAME, TokenizerSpec
from tokcore_pipelines.build.commit import get_folder, require_manifest
from tokcore_pipelines.build.identities import is_of_this_release
from tokcore_pipelines.build.learn_together import learn_together
from tokcore_pipelines.build.smaller_size import cut_tokenizer
from tokcore_pipelines.build.stage import (
    BuildRun,
    Made,
    StageKey,
    list_plain_files,
    name_inputs,
    run_stage,
    write_file,
)
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.tokenizer_files import find_foreign_artifacts, list_untold, make_artifact_files
from tokcore_pipelines.local.dataflow import NAME as DATAFLOW
from tokcore_pipelines.local.dataflow import choose_learn_machine, make_learn_options
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.run.choose import choose_executor
from tokcore_pipelines.run.task import Step, do_steps
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.tokenizers import load_spec_of_folder
from tokcore_pipelines.work.counted_parts import CountedPart, CountedParts, pin_parts
from tokcore_pipelines.work.item_results import read_record
from tokcore_pipelines.work.learn_model import Learned, learn_tokenizers
from tokcore_pipelines.work.learn_on_worker import (
    LEARNED_KEY,
    LearnedFiles,
    LearnJob,
    estimate_memory,
    learn_on_worker,
    read_learned,
)
from tokcore_pipelines.work.mix_by_level import Levels
from tokcore_schemas.build_tables import BuildConfig
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.refs import StoredFile
from tokcore_schemas.stage_manifests import (
    ImportedConfig,
    LearnedConfig,
    MixedLanguage,
    TokenizerFile,
    TokenizerManifest,
    TokenizersManifest,
    TokenizersTotals,
    TokenizerTotals,
)
from tokcore_schemas.stage_table import COUNTS, TOKENIZER, TOKENIZERS


def make_tokenizer(run: BuildRun, imported: TokenizerSpec | None) -> TokenizerManifest:
    """Learn the tokenizer from the output's count tables; imported: take this one instead.

    Where the build file names several sizes, all of them are learned. Raises ConfigError if there are no count tables
    yet, LearnError if they cannot give a vocabulary.
    """
    key = make_tokenizer_key(run, imported)
    several = _make_tokenizers(run)

    def make(attempts: Attempts) -> Made[TokenizerTotals, MixedLanguage, TokenizerFile]:
        size = run.config.vocab_size
        cut = merges = None
        if imported is None and several is None and (cut := cut_tokenizer(run, key)) is None:
            merges = learn_together(run, (size,), _list_counted(run), attempts)
        run.take_turn(attempts)
        if imported is not None:
            learned = Learned({size: imported}, {}, {})
        elif several is not None:
            chosen = several.totals.sizes[str(size)]
            url = urls.join(run.output, several.stage, chosen.fingerprint, FILE_NAME)
            sha256 = several.file(f"{chosen.fingerprint}/{FILE_NAME}").sha256
            spec = TokenizerSpec.from_json_bytes(storage.read_bytes(url), url, sha256)
            learned = Learned({size: spec}, chosen.mix, several.languages, chosen.levels)
        else:
            learned = cut or learn_from(run, (size,), _list_counted(run), attempts, merges)
        spec = learned.specs[size]
        for why in list_untold(spec):
            run.progress.say(f"warning: {why}. The tokenizer has no tokenizer.json")
        files = write_artifacts({"": spec}, attempts, run.progress)
        return Made(files, sum_up_tokenizer(spec, learned.mix, learned.levels), learned.languages)

    return run_stage(run, key, make)


def make_tokenizer_key(run: BuildRun, imported: TokenizerSpec | None) -> StageKey[LearnedConfig | ImportedConfig]:
    """What the tokenizer is made from. Raises ConfigError if it is to be learned, and there are no count tables yet."""
    config = run.config.learn_identity()
    if imported is None:
        return StageKey(TOKENIZER.name, config, name_inputs(require_manifest(run.output, COUNTS)))
    assert isinstance(config, ImportedConfig)
    return StageKey(TOKENIZER.name, ImportedConfig.of(imported), {})


def _make_tokenizers(run: BuildRun) -> TokenizersManifest | None:
    """Learn the tokenizers of all sizes; None if there is one size."""
    config = run.config.sizes_identity()
    if config is None:
        return None
    key = StageKey(TOKENIZERS.name, config, name_inputs(require_manifest(run.output, COUNTS)))

    def make(attempts: Attempts) -> Made[TokenizersTotals, MixedLanguage, TokenizerFile]:
        merges = learn_together(run, run.config.vocab_sizes, _list_counted(run), attempts)
        run.take_turn(attempts)
        learned = learn_from(run, run.config.vocab_sizes, _list_counted(run), attempts, merges)
        # Where the text gives no more tokens, two sizes may be one tokenizer.
        distinct = {spec.fingerprint: spec for spec in learned.specs.values()}
        specs = {f"{fingerprint}/": spec for fingerprint, spec in distinct.items()}
        files = write_artifacts(specs, attempts, run.progress)
        sizes = {str(size): sum_up_tokenizer(spec, learned.mix, learned.levels) for size, spec in learned.specs.items()}
        return Made(files, TokenizersTotals(sizes), learned.languages)

    return run_stage(run, key, make)


def sum_up_tokenizer(spec: TokenizerSpec, mix: dict[str, Any], levels: Levels | None = None) -> TokenizerTotals:
    """What a manifest says of a tokenizer.

    mix: how counts were weighted; empty of an imported one. levels: the shares where more than languages were mixed.
    """
    return TokenizerTotals(spec.fingerprint, spec.vocab_size, mix, levels=levels, **spec.model.facts())


def recount_tokenizer(stored: Stored, _: object) -> Made[TokenizerTotals, MixedLanguage, TokenizerFile]:
    """What the tokenizer's manifest has to say of tokcore.json. The mix, which no file holds, is as it says.

    Raises FormatError if another file is not what tokcore.json gives, or another tokenizer was learned or imported.
    """
    made, spec = stored.get(TOKENIZER), stored.spec
    if isinstance(made.config, ImportedConfig):
        if made.config.fingerprint != spec.fingerprint:
            raise FormatError(f"names another tokenizer than {FILE_NAME}")
    elif (several := stored.find(TOKENIZERS)) is not None:
        chosen = several.totals.sizes.get(str(made.config.vocab_size))
        config = dataclasses.replace(several.config, vocab_size=made.config.vocab_size)
        if (config, chosen, several.languages) != (made.config, made.totals, made.languages):
            raise FormatError(f"not one of the tokenizers in {several.stage}/")
    _require_artifacts(made, {"": spec})
    files = recount_artifacts(get_folder(stored.url, made.stage), made)
    return Made(files, sum_up_tokenizer(spec, made.totals.mix, made.totals.levels), made.languages)


def recount_sizes(stored: Stored, _: object) -> Made[TokenizersTotals, MixedLanguage, TokenizerFile]:
    """As recount_tokenizer, of the tokenizers of several sizes."""
    made = stored.get(TOKENIZERS)
    wanted = made.config.vocab_size if isinstance(made.config.vocab_size, tuple) else (made.config.vocab_size,)
    if made.totals.sizes.keys() != {*map(str, wanted)}:
        raise FormatError(f"tokenizers of {', '.join(made.totals.sizes)}, its configuration has {wanted}")
    fingerprints = {one.fingerprint for one in made.totals.sizes.values()}
    specs = {one: load_spec_of_folder(stored.url, made.stage, one) for one in fingerprints}
    _require_artifacts(made, {f"{fingerprint}/": spec for fingerprint, spec in specs.items()})
    for size, one in made.totals.sizes.items():
        if (num := len(specs[one.fingerprint].model.tokens) + len(specs[one.fingerprint].special)) > int(size):
            raise FormatError(f"totals: {size}: a tokenizer of {num} tokens")
    sizes = {
        size: sum_up_tokenizer(specs[one.fingerprint], one.mix, one.levels) for size, one in made.totals.sizes.items()
    }
    files = recount_artifacts(get_folder(stored.url, made.stage), made)
    return Made(files, TokenizersTotals(sizes), made.languages)


def _require_artifacts(made: AnyManifest, specs: Mapping[str, TokenizerSpec]) -> None:
    """Raise FormatError unless a stage's files are those of its tokenizers. specs: folder -> tokenizer."""
    if not is_of_this_release(made):
        return  # another release may write the field's formats in other bytes
    left = {entry.path: entry.sha256 for entry in made.files}
    for folder, spec in specs.items():
        own = {path.removeprefix(folder): left.pop(path) for path in [*left] if path.startswith(folder)}
        if foreign := find_foreign_artifacts(spec, own):
            raise FormatError(f"{folder}{foreign[0]}: not what the tokenizer in {made.stage}/{folder}{FILE_NAME} gives")
    if left:
        raise FormatError(f"{min(left)}: no tokenizer gives it")


def _list_counted(run: BuildRun) -> CountedParts:
    return CountedParts((CountedPart(run.output, require_manifest(run.output, COUNTS)),))


def learn_from(
    run: BuildRun,
    sizes: tuple[int, ...],
    counted: CountedParts,
    attempts: Attempts,
    merges: MergesSoFar | None = None,
) -> Learned:
    """Learn tokenizers of these sizes here, or have a worker of the engine do it. attempts: where that one writes.

    merges: those of the largest size, if all slices have learned them.
    """
    if not run.options.is_local:
        job = LearnJob(attempts, _make_worker_config(run.config, counted), sizes, pin_parts(counted))
        learned_from = dataclasses.replace(counted, split=run.config.learned_splits)
        return _learn_on_engine(run, job, estimate_memory(run.config, learned_from.most_rows, learned_from.most_bytes))
    merges_done = np.zeros(1, np.int64)
    num_merges = _count_merges(run.config, max(sizes))
    with run.progress.stage("learn", num_merges, "merges", watch=lambda: int(merges_done[0])):
        reach("learn.begin")
        threads = run.options.num_workers
        learned = learn_tokenizers(run.config, sizes, counted, threads, run.progress, merges_done, merges)
        reach("learn.learned")
    return learned


def _make_worker_config(config: BuildConfig, counted: CountedParts) -> BuildConfig:
    """The config without parallel text that a worker would not read: engines limit how large a job is."""
    if config.parallel is None:
        return config
    named = pair_languages(counted.languages, config.parallel.lines.keys())
    return dataclasses.replace(config, parallel=config.parallel.only(sorted({*named.values()})))


def _count_merges(config: BuildConfig, size: int) -> int:
    """How many merges learning finds for that size."""
    num_special = len(config.special)
    if config.extended is not None:
        return max(0, size - num_special - len(config.extended.model.tokens))
    return MODELS[config.learn.model].count_merges(
        LearnOptions(
            vocab_size=size,
            num_special=num_special,
            end_of_word=config.end_of_word,
            superset=config.learn.superset,
        )
    )


def _learn_on_engine(run: BuildRun, job: LearnJob, needed_bytes: int) -> Learned:
    """needed_bytes: of memory, in one worker."""
    with run.progress.stage("learn"):
        where, options = "one worker", run.options
        if options.engine == DATAFLOW:
            machine = choose_learn_machine(run.config.engine, needed_bytes)
            where, options = f"one {machine}", options.with_more(make_learn_options(machine))
        run.progress.say(f"learn: needs about {needed_bytes / 1e9:,.1f} GB of memory, on {where}")
        learned = do_steps(choose_executor(options, run.workers, run.progress.say), learn_steps(job), job.attempts)
    return read_learned(job.attempts, learned)


def learn_steps(job: LearnJob) -> Generator[Step, bool, LearnedFiles]:
    """Have one worker learn; what it recorded."""
    yield Step("learn", learn_on_worker, (job,), (LEARNED_KEY,), str)
    return read_record(job.attempts, LEARNED_KEY, LearnedFiles)


def write_artifacts(
    specs: Mapping[str, TokenizerSpec], attempts: Attempts, progress: StageProgress
) -> list[tuple[StoredFile, TokenizerFile]]:
    """Write the files of tokenizers; each with what a manifest says of it, by path. specs: folder -> tokenizer."""
    with progress.stage("tokenizer", minor=True):
        files = [
            (write_file(attempts, f"{folder}{name}", data), _describe_file(name, data))
            for folder, spec in specs.items()
            for name, data in make_artifact_files(spec)
        ]
    return sorted(files, key=lambda file: file[0].path)


def recount_artifacts(folder: str, made: AnyManifest) -> list[tuple[StoredFile, TokenizerFile]]:
    """The files of a tokenizer's manifest, each with what it has to say of it. folder: where they are."""
    return [
        (file, _describe_file(file.path, storage.read_bytes(urls.join(folder, file.path))) if about.md5 else about)
        for file, about in list_plain_files(made)
    ]


def _describe_file(path: str, data: bytes) -> TokenizerFile:
    if path.rpartition("/")[2] != vocabulary_files.NAMES[0]:
        return TokenizerFile()
    return TokenizerFile(hashlib.md5(data, usedforsecurity=False).hexdigest())
