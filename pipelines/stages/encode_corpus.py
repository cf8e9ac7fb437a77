"""The encode stage: from a plan and a tokenizer to token shards."""

from __future__ import annotations

import dataclasses
from collections import Counter

from pipelines.stages import ledger
from pipelines.stages.commit import find_manifest, require_manifest
from pipelines.stages.digest_documents import digest_documents
from pipelines.stages.rejects import LEDGER, check_rejected, commit_rejects, require_rejects, reuse_rejects
from pipelines.stages.results import read_items, sum_up_languages
from pipelines.stages.stage import BuildRun, Made, StageKey, run_stage, write_file
from pipelines.stages.token_count_table import write_token_counts
from pipelines.store import storage, urls
from pipelines.store.attempts import Attempts
from pipelines.store.crashpoints import reach
from pipelines.work.make_jobs import make_encode_job
from schemas.plan import Plan
from schemas.refs import ItemEncoded, LanguageCounts, ShardRef, StoredFile
from schemas.shard_entries import make_shard_settings, write_folder_indexes
from schemas.stage_manifests import (
    CorpusAbout,
    EncodedLanguage,
    LedgerTotals,
    PlanManifest,
    ShardsConfig,
    ShardsManifest,
    ShardsTotals,
    TokenizerManifest,
)
from tokcore.formats.shard_format import ShardFacts, ShardSettings
from tokcore.tokenizer_spec import FILE_NAME, TokenizerSpec


def encode_corpus(run: BuildRun, plan: Plan, planned: PlanManifest, learned: TokenizerManifest) -> ShardsManifest:
    """Tokenize the corpus into shards; of a build that counts nothing, commit what was rejected, too.

    Raises LedgerError if what was read, counted and encoded does not add up; StageError for too many rejects.
    """
    if run.config.tokenizer is not None:
        reuse_rejects(run, planned)
        require_rejects(run, "shards")
        if find_manifest(run.output, "rejected") is None:
            run = dataclasses.replace(run, reuse="")  # shards alone are of no use
    else:
        require_rejects(run, "counts")
    inputs = {"plan": planned.as_input(), "tokenizer": learned.as_input()}
    key = StageKey("shards", run.config.encode_identity(), inputs)
    return run_stage(run, key, lambda attempts: _encode(run, key.config, plan, planned, learned, attempts))


def _encode(
    run: BuildRun,
    config: ShardsConfig,
    plan: Plan,
    planned: PlanManifest,
    learned: TokenizerManifest,
    attempts: Attempts,
) -> Made[ShardsTotals, EncodedLanguage, ShardFacts | CorpusAbout]:
    spec = _encode_items(run, config, plan, learned, attempts)
    with run.progress.stage("check", minor=True):
        return _check_and_finish(run, config, plan, planned, spec, attempts)


def _check_and_finish(
    run: BuildRun,
    config: ShardsConfig,
    plan: Plan,
    planned: PlanManifest,
    spec: TokenizerSpec,
    attempts: Attempts,
) -> Made[ShardsTotals, EncodedLanguage, ShardFacts | CorpusAbout]:
    """What the workers made, after the sums were checked, and the files that describe all shards together."""
    items = read_items(attempts, plan, ItemEncoded)
    languages = sum_up_languages(items)
    reach("stage.worked")
    files = ledger.balance_ledgers(plan, [one for item in items for one in item.ledgers], languages)
    read = ledger.sum_up_ledgers(files)
    if run.config.tokenizer is not None:
        commit_rejects(run, plan, planned, files, items, attempts)
        check_rejected(run, read)
    else:
        _check_read_as_counted(run.output, files, languages)
    shards = [shard for item in items for shard in item.shards]
    facts = [shard.facts for shard in shards]
    digest, num_digests = digest_documents(attempts, plan.num_partitions)
    ledger.check_documents(read.records.documents, facts, languages, num_digests)
    ledger.check_unknown(languages, run.config.encode.max_unknown, run.config.at("encode", "max_unknown"))
    num_tokens = sum(shard.tokens for shard in facts)
    token_counts = write_token_counts(attempts, num_tokens)
    indexes = _write_indexes(config, shards, make_shard_settings(config, spec.fingerprint, spec.vocab_size), attempts)
    corpus = CorpusAbout(read.records.documents, num_tokens)
    return Made(
        [
            *((file, shard.facts) for shard in shards for file in shard.files),
            *((file, corpus) for file in (*indexes, token_counts)),
        ],
        _sum_up(read, items, num_tokens, digest, spec.fingerprint),
        {lang: ledger.sum_up_encoded(counts, spec.model.unknown is not None) for lang, counts in languages.items()},
    )


def _encode_items(
    run: BuildRun, config: ShardsConfig, plan: Plan, learned: TokenizerManifest, attempts: Attempts
) -> TokenizerSpec:
    """Have all work items encoded; what the tokenizer is made of."""
    url = urls.join(run.output, "tokenizer", FILE_NAME)
    sha256 = learned.file(FILE_NAME).sha256
    spec = TokenizerSpec.from_json_bytes(storage.read_bytes(url), url, sha256)
    job = make_encode_job(config, attempts, run.config.base, plan.num_partitions, url, sha256, spec)
    with run.progress.stage("encode", plan.size_bytes) as shown:
        run.workers.start()
        # Imports Beam, which takes most of a second: so only when the stage has work.
        from pipelines.graph.launch import encode_items

        encode_items(run.options, plan, job, run.workers, shown.report)
    return spec


def _check_read_as_counted(output: str, files: list[ledger.FileLedger], languages: dict[str, LanguageCounts]) -> None:
    table = require_manifest(output, "rejected", "count").file(LEDGER)
    counted = require_manifest(output, "counts", "count").languages
    ledger.check_read_alike(counted, table.sha256, languages, ledger.write_files_table(files))


def _write_indexes(
    config: ShardsConfig, shards: list[ShardRef], settings: ShardSettings, attempts: Attempts
) -> list[StoredFile]:
    """Write the files in which formats describe all shards together."""
    return [
        write_file(attempts, path, index.data, index.content_sha256)
        for path, index in write_folder_indexes(config.formats, shards, settings).items()
    ]


def _sum_up(
    read: LedgerTotals, items: list[ItemEncoded], num_tokens: int, documents_digest: str, fingerprint: str
) -> ShardsTotals:
    spelled: Counter[str] = Counter()
    for item in items:
        spelled.update(item.special_text)
    return ShardsTotals(
        records=read.records,
        files=read.files,
        text_bytes=read.text_bytes,
        shards=sum(len(item.shards) for item in items),
        tokens=num_tokens,
        documents_digest=documents_digest,
        fingerprint=fingerprint,
        special_text=dict(sorted(spelled.items())),
    )
