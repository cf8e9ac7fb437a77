"""The end of WriteShards: one manifest, created only if there is none, names the shards of all buckets. No Beam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokcore.count import token_counts
from tokcore.errors import ConfigError, LedgerError, StageError
from tokcore.formats.shard_facts import ShardFacts
from tokcore.tokenizer.tokenizer_spec import FILE_NAME, TokenizerSpec
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts, publish
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.hashed_documents import add_up_hashed
from tokcore_pipelines.work.language_totals import add_up_languages, sum_up_encoded
from tokcore_pipelines.work.semantics import SEMANTICS
from tokcore_pipelines.work.token_count_runs import add_up_id_runs
from tokcore_schemas.manifest import FileEntry, Manifest, compute_identity
from tokcore_schemas.refs import HashedDocuments, ItemEncoded, ShardsCommitted, StoredFile
from tokcore_schemas.shard_entries import make_shard_entries, write_folder_indexes
from tokcore_schemas.stage_manifests import (
    CorpusAbout,
    FileTotals,
    RecordTotals,
    ShardsConfig,
    ShardsManifest,
    ShardsTotals,
)
from tokcore_schemas.stage_table import SHARDS, parse_manifest

_MANIFEST = "manifest.json"
_TOKEN_COUNTS = "token_counts.parquet"


def commit_shards(
    job: EncodeJob, config: ShardsConfig, spec: TokenizerSpec, items: Sequence[ItemEncoded]
) -> ShardsCommitted:
    """Give the shards of all buckets their names, and create the manifest that names them.

    A runner may do this twice at a time. The attempt that ends first removes the files that both work with; the other
    finds its manifest.
    Raises ConfigError if the folder holds other shards, LedgerError if documents and digests do not add up.
    """
    hashed = add_up_hashed(item.hashed for item in items)
    identity = compute_identity("shards", {"tokenizer": spec.fingerprint, "documents": hashed.digest}, {}, SEMANTICS)
    url = urls.join(job.attempts.final_folder, _MANIFEST)
    try:
        manifest = _commit(job, config, spec, items, hashed, identity)
    except LedgerError:
        raise
    except StageError:
        data = storage.read_if_there(url)
        if data is None:
            raise
        manifest = parse_manifest(data, url, SHARDS)
        if (manifest.identity, manifest.config) != (identity, config):
            raise
    totals = manifest.totals
    return ShardsCommitted(
        job.attempts.output, manifest.content_id(), totals.shards, totals.records.documents, totals.tokens
    )


def _commit(
    job: EncodeJob,
    config: ShardsConfig,
    spec: TokenizerSpec,
    items: Sequence[ItemEncoded],
    hashed: HashedDocuments,
    identity: str,
) -> ShardsManifest:
    attempts = job.attempts
    items = sorted(items, key=lambda item: item.item)
    languages = add_up_languages(item.languages for item in items)
    num_documents = sum(counts.num_documents for counts in languages.values())
    shards = [shard for item in items for shard in item.shards]
    if not num_documents == hashed.documents == sum(shard.facts.documents for shard in shards):
        raise LedgerError(f"{redact(attempts.output)}: {num_documents} documents came, {hashed.documents} were written")
    num_tokens = sum(shard.facts.tokens for shard in shards)
    text_bytes = sum(counts.text_bytes for counts in languages.values())
    corpus = CorpusAbout(num_documents, num_tokens)
    indexes = write_folder_indexes(config.formats, shards, job.settings)
    more = [_write(attempts, path, index.data, index.content_sha256) for path, index in indexes.items()]
    more.append(_write_token_counts(attempts, items, num_tokens))
    files: list[FileEntry[ShardFacts | CorpusAbout]] = [one for shard in shards for one in make_shard_entries(shard)]  # type: ignore[misc]
    files += [FileEntry.of(file, corpus) for file in more]
    manifest: ShardsManifest = Manifest(
        stage="shards",
        identity=identity,
        config=config,
        inputs={},
        files=tuple(files),
        totals=ShardsTotals(
            records=RecordTotals(num_documents, num_documents, {}),
            files=FileTotals(0, {}, 0, 0),
            text_bytes=text_bytes,
            shards=len(shards),
            tokens=num_tokens,
            documents_digest=hashed.digest,
            fingerprint=spec.fingerprint,
            special_text={},
        ),
        languages={lang: sum_up_encoded(counts, spec.model.unknown is not None) for lang, counts in languages.items()},
    )
    url = urls.join(attempts.final_folder, _MANIFEST)
    if (standing := storage.read_if_there(url)) is not None and standing != manifest.to_bytes():
        raise _make_error(url, "shards")
    _create(attempts, urls.join(attempts.output, "tokenizer", FILE_NAME), spec.to_json_bytes(), "tokenizer")
    publish(attempts, attempts.final_folder, [*(file for shard in shards for file in shard.files), *more])
    _create(attempts, url, manifest.to_bytes(), "shards")
    return manifest


def _write_token_counts(attempts: Attempts, items: Sequence[ItemEncoded], num_tokens: int) -> StoredFile:
    rows = add_up_id_runs(attempts, (item.token_counts for item in items))
    if (total := int(rows.counts.sum())) != num_tokens:
        raise LedgerError(f"{num_tokens} tokens were written to shards, {total} of them counted by id")
    table: Any = token_counts.make_table(rows)
    with attempts.new_final(_TOKEN_COUNTS) as new:
        token_counts.write_id_table(new.file, table)
    return new.stored(_TOKEN_COUNTS, token_counts.hash_content(table))


def _write(attempts: Attempts, path: str, data: bytes, content_sha256: str) -> StoredFile:
    with attempts.new_final(path) as new:
        new.file.write(data)
    return new.stored(path, content_sha256)


def _create(attempts: Attempts, url: str, data: bytes, what: str) -> None:
    if not storage.create_exclusive(url, data, attempts.scratch) and storage.read_bytes(url) != data:
        raise _make_error(url, what)


def _make_error(url: str, what: str) -> ConfigError:
    return ConfigError(f"{redact(url)}: the folder holds other {what}. Name another folder.")
