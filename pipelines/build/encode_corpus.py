"""The encode stage: from a plan and a tokenizer to token shards."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from tokcore.errors import StageError
from tokcore.formats.shard_facts import ShardFacts
from tokcore.tokenizer.tokenizer_spec import FILE_NAME
from tokcore_pipelines.build import ledger
from tokcore_pipelines.build.commit import claim, find_manifest, require_manifest
from tokcore_pipelines.build.dedup_corpus import name_documents
from tokcore_pipelines.build.encoded_items import ReadItems, WrittenShards
from tokcore_pipelines.build.file_rejections import with_rejections
from tokcore_pipelines.build.inherited_records import tell_workers
from tokcore_pipelines.build.item_steps import encode_steps, gather_steps, scatter_steps
from tokcore_pipelines.build.prove_files import prove_files
from tokcore_pipelines.build.rejects import (
    LEDGER,
    Rejected,
    check_rejected,
    commit_rejects,
    require_rejects,
    reuse_rejects,
)
from tokcore_pipelines.build.shard_files import list_shard_files
from tokcore_pipelines.build.smaller_size import find_larger_shards, take_corpus_apart
from tokcore_pipelines.build.stage import BuildRun, Made, StageKey, name_inputs, run_stage
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.token_count_table import write_token_counts
from tokcore_pipelines.run.task import do_steps
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.tokenizers import load_checked_spec
from tokcore_pipelines.work.encode_item import encode_item
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.gather_part import gather_again
from tokcore_pipelines.work.item_results import refuse_twins
from tokcore_pipelines.work.language_totals import (
    add_up_languages,
    refuse_many_languages,
    refuse_many_partitions,
    sum_up_encoded,
)
from tokcore_pipelines.work.make_jobs import make_encode_job
from tokcore_pipelines.work.result_keys import make_shuffled_key
from tokcore_schemas.plan import Plan
from tokcore_schemas.refs import ItemEncoded, LanguageCounts, PartGathered
from tokcore_schemas.shuffle import choose_num_parts
from tokcore_schemas.stage_manifests import (
    CorpusAbout,
    EncodedLanguage,
    LedgerTotals,
    PlanManifest,
    ShardsConfig,
    ShardsManifest,
    ShardsTotals,
    TokenizerManifest,
)
from tokcore_schemas.stage_table import COUNTS, REJECTED, SHARDS, TOKENIZER

_COUNTED_BY_EARLIER = (
    "warning: an earlier release counted this corpus, it seems: it rejected records that are taken now. They stay "
    "rejected in this output; all is encoded again without them"
)


def encode_corpus(run: BuildRun, plan: Plan, planned: PlanManifest, learned: TokenizerManifest) -> ShardsManifest:
    """Tokenize the corpus into shards; of a build that counts nothing, commit what was rejected, too.

    Raises LedgerError if what was read, counted and encoded does not add up; StageError for too many rejects.
    """
    if not run.config.counts:
        reuse_rejects(run, planned)
        require_rejects(run, SHARDS)
        if find_manifest(run.output, REJECTED) is None:
            run = dataclasses.replace(run, reuse="")  # shards alone are of no use
    else:
        require_rejects(run, COUNTS)
    key = StageKey(SHARDS.name, run.config.encode_identity(), {**name_documents(run, planned), **name_inputs(learned)})
    return run_stage(run, key, functools.partial(_encode, run, key.config, plan, planned, learned))


def _counted_rejects(output: str) -> bool:
    rejected = require_manifest(output, REJECTED).totals
    return bool(rejected.records.rejected or rejected.files.rejected)


def _forget(run: BuildRun, attempts: Attempts) -> None:
    """Remove what was made of the stage, whose turn is this process's."""
    run.workers.close()
    storage.remove_tree(attempts.folder)
    attempts.begin()
    if not urls.is_local(run.output):  # where shards have their final names
        claim(attempts)
        storage.remove_files(attempts.final_folder, sorted(storage.list_footprints(attempts.final_folder)))


def _encode(
    run: BuildRun,
    config: ShardsConfig,
    plan: Plan,
    planned: PlanManifest,
    learned: TokenizerManifest,
    attempts: Attempts,
) -> Made[ShardsTotals, EncodedLanguage, ShardFacts | CorpusAbout]:
    executor = run.find_executor(attempts)
    if run.config.counts:
        plan = with_rejections(plan, run.output)
    else:
        before = run.inheritance.before if run.inheritance is not None else None
        plan = prove_files(executor, plan, attempts, run.config.base, run.progress, before)
    job = _make_job(run, config, plan, learned, attempts)
    key = StageKey(SHARDS.name, config, {**name_documents(run, planned), **name_inputs(learned)})
    if (larger := find_larger_shards(run, key, learned)) is not None:
        return take_corpus_apart(run, plan, job, larger)
    with run.progress.stage("encode", plan.size_bytes) as shown:
        if config.shuffle is None:
            read, written = do_steps(executor, encode_steps(plan, job), attempts, shown.report, run.measure("encode"))
        else:
            read, runs = do_steps(executor, scatter_steps(plan, job), attempts, shown.report, run.measure("encode"))
    if config.shuffle is not None:
        with run.progress.stage("shuffle"):
            written = do_steps(executor, gather_steps(plan, job, runs, config.target_tokens), attempts)
    run.take_turn(attempts)
    try:
        with run.progress.stage("check", minor=True):
            return _check_and_finish(run, plan, planned, job, read, written)
    except ledger.ReadOtherwiseError as error:
        if not _counted_rejects(run.output):
            raise
        if (before := plan.as_before()) == plan:
            raise StageError(
                f"{error}: two releases of tokcore may have counted, which reject other records. Nothing was "
                f"committed; count again: --replace count"
            ) from error
    run.progress.say(_COUNTED_BY_EARLIER)
    _forget(run, attempts)
    alone = dataclasses.replace(run, session=None)  # it is this process's turn
    return _encode(alone, config, before, planned, learned, attempts)


def _check_and_finish(
    run: BuildRun, plan: Plan, planned: PlanManifest, job: EncodeJob, items: ReadItems, written: WrittenShards
) -> Made[ShardsTotals, EncodedLanguage, ShardFacts | CorpusAbout]:
    """What the workers made, after the sums were checked, and the files that describe all shards together."""
    # Without a shuffle both are of the same records.
    both = [items.languages] if job.config.shuffle is None else [items.languages, written.languages]
    languages = add_up_languages(both)
    refuse_twins(languages)
    refuse_many_languages(languages, run.config.build.max_languages)
    refuse_many_partitions(written.partitions, run.config.shards.max_partitions)
    reach("stage.worked")
    files = ledger.balance_ledgers(plan, items.ledgers, languages)
    read = ledger.sum_up_ledgers(files)
    if not run.config.counts:
        commit_rejects(run, plan, planned, files, Rejected(items.ledgers, items.rejects, job.attempts))
        check_rejected(run, read)
    else:
        _check_read_as_counted(run.output, files, languages)
    held, hashed = written.held, written.hashed
    ledger.check_documents(read.records.documents, held.documents, held.tokens, languages, hashed.documents)
    ledger.check_unknown(languages, run.config.encode.max_unknown, run.config.at("encode", "max_unknown"))
    token_counts = write_token_counts(job.attempts, written.pieces, held.tokens)
    return Made(
        list_shard_files(job, written.shards, CorpusAbout(read.records.documents, held.tokens), [token_counts]),
        sum_up_shards(read, items.special_text, held.shards, held.tokens, hashed.digest, job.settings.fingerprint),
        {lang: sum_up_encoded(counts, job.unknown is not None) for lang, counts in languages.items()},
    )


def _make_job(
    run: BuildRun, config: ShardsConfig, plan: Plan, learned: TokenizerManifest, attempts: Attempts
) -> EncodeJob:
    """What workers are told."""
    url = urls.join(run.output, "tokenizer", FILE_NAME)
    spec = load_checked_spec(run.output, learned)
    job = make_encode_job(config, attempts, run.config.base, url, learned.file(FILE_NAME).sha256, spec)
    job = dataclasses.replace(job, max_partitions=run.config.shards.max_partitions)
    inherits = tell_workers(run.inheritance, plan, attempts, config, spec.fingerprint)
    return dataclasses.replace(job, inherits=inherits, max_languages=run.config.build.max_languages)


def _check_read_as_counted(
    output: str, files: Sequence[ledger.FileLedger], languages: dict[str, LanguageCounts]
) -> None:
    table = require_manifest(output, REJECTED).file(LEDGER)
    counted = require_manifest(output, COUNTS).languages
    ledger.check_read_alike(counted, table.sha256, languages, ledger.write_files_table(files))


def sum_up_shards(
    read: LedgerTotals,
    special_text: Mapping[str, int],
    num_shards: int,
    num_tokens: int,
    documents_digest: str,
    fingerprint: str,
) -> ShardsTotals:
    """The totals of the stage. read, special_text: what was read; the digest and the fingerprint are hexadecimal."""
    return ShardsTotals(
        records=read.records,
        files=read.files,
        text_bytes=read.text_bytes,
        shards=num_shards,
        tokens=num_tokens,
        documents_digest=documents_digest,
        fingerprint=fingerprint,
        special_text=dict(sorted(special_text.items())),
    )


def encode_again(stored: Stored, attempts: Attempts, number: int) -> ItemEncoded | PartGathered:
    """Encode a work item once more, or make a part of a shuffle, for which all inputs are read.

    Raises StageError naming an input that changed.
    """
    made, learned = stored.get(SHARDS), stored.get(TOKENIZER)
    url = urls.join(stored.url, TOKENIZER.name, FILE_NAME)
    job = make_encode_job(made.config, attempts, stored.base, url, learned.file(FILE_NAME).sha256, stored.spec)
    if made.config.shuffle is None:
        return encode_item(job, stored.plan_as_read.assignment(stored.plan.items[number]))
    num_parts = choose_num_parts(made.totals.tokens, made.config.target_tokens)
    key = make_shuffled_key(job.settings_sha256, stored.plan)
    return gather_again(job, stored.plan_as_read, number, num_parts, key)
