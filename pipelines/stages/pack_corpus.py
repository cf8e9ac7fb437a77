"""The pack stage: from token shards to shards of rows of one length."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from pipelines.stages.commit import require_manifest
from pipelines.stages.stage import BuildRun, Made, StageKey, run_stage, write_file
from pipelines.stages.stage_passes import ID_BYTES, find_passes
from pipelines.store.attempts import Attempts
from pipelines.store.crashpoints import reach
from pipelines.store.tokenizers import load_checked_spec
from pipelines.work.item_results import read_records
from pipelines.work.make_jobs import make_pack_job
from pipelines.work.pack_group import PackJob, make_group_key
from pipelines.work.result_keys import make_table_key
from schemas.pack_groups import list_groups
from schemas.refs import GroupPacked, PackedSums, ShardRef
from schemas.shard_entries import list_named_shards, write_folder_indexes
from schemas.stage_manifests import (
    CorpusAbout,
    MixtureManifest,
    Nothing,
    PackedConfig,
    PackedManifest,
    PackedTotals,
    ShardsManifest,
)
from schemas.stage_table import MIXED, SHARDS, TOKENIZER
from tokcore.errors import LedgerError
from tokcore.formats.shard_facts import ShardFacts


def pack_corpus(run: BuildRun) -> PackedManifest | None:
    """Pack the documents of the shards into rows, if the build file asks for it.

    Raises ConfigError for a document that may not be cut and is longer than a row, LedgerError if what is in the rows
    is not what is in the shards.
    """
    config = run.config.pack_identity()
    if config is None:
        return None
    shards = require_manifest(run.output, SHARDS)
    is_mixed = run.config.mixture_identity() is not None
    packed_from = require_manifest(run.output, MIXED) if is_mixed else shards
    learned = require_manifest(run.output, TOKENIZER)
    key = StageKey("packed", config, {packed_from.stage: packed_from.as_input(), "tokenizer": learned.as_input()})

    def make(attempts: Attempts) -> Made[PackedTotals, Nothing, ShardFacts | CorpusAbout]:
        spec = load_checked_spec(run.output, learned)
        append, result_key = shards.config.append, make_table_key(key.identity)
        job = make_pack_job(config, attempts, run.output, packed_from, append, spec, result_key)
        return _pack(run, config, packed_from, job)

    return run_stage(run, key, make)


def _pack(
    run: BuildRun,
    config: PackedConfig,
    shards: ShardsManifest | MixtureManifest,
    job: PackJob,
) -> Made[PackedTotals, Nothing, ShardFacts | CorpusAbout]:
    attempts = job.attempts
    groups = list_groups(list_named_shards(shards), config)
    with run.progress.stage("pack"):
        run.workers.start()
        find_passes(run, attempts, len(groups), ID_BYTES * shards.totals.tokens).pack_groups(groups, job)
    run.take_turn(attempts)
    reach("stage.worked")
    packed = read_records(attempts, [make_group_key(group.number) for group in groups], GroupPacked)
    totals = sum_up_packed(packed, job.settings.fingerprint)
    if wrong := find_unpacked(totals, shards):
        raise LedgerError(f"pack: {wrong}")
    rows = [shard for one in packed for shard in one.shards]
    about = CorpusAbout(totals.rows, totals.tokens + totals.padding)
    indexes = [
        write_file(attempts, path, index.data, index.content_sha256)
        for path, index in write_folder_indexes(config.formats, rows, job.settings).items()
    ]
    return Made(
        [*((file, shard.facts) for shard in rows for file in shard.files), *((file, about) for file in indexes)],
        totals,
    )


def sum_up_packed(groups: Sequence[GroupPacked], fingerprint: str) -> PackedTotals:
    """The totals of the stage."""
    sums = functools.reduce(PackedSums.__add__, (group.sums for group in groups), PackedSums(0, 0, 0, 0, 0, 0))
    shards: list[ShardRef] = [shard for group in groups for shard in group.shards]
    return PackedTotals(
        len(shards), sums.rows, sums.documents, sums.pieces, sums.cut, sums.tokens, sums.padding, fingerprint
    )


def find_unpacked(totals: PackedTotals, shards: ShardsManifest | MixtureManifest) -> str:
    """What is in the shards and not in the rows, or the other way round; empty if nothing is."""
    there = sum(shard.facts.documents for shard in list_named_shards(shards))
    if (totals.documents, totals.tokens) == (there, shards.totals.tokens):
        return ""
    return (
        f"{there} documents of {shards.totals.tokens} tokens are in the shards, {totals.documents} of {totals.tokens} "
        f"in the rows"
    )


def tell_packed(made: PackedManifest) -> list[str]:
    """What the end of a build says of packed rows."""
    totals = made.totals
    padding = totals.padding / max(1, totals.tokens + totals.padding) * 100
    return [
        f"{totals.rows:,} of {made.config.length:,} ids",
        f"{padding:.3f} % padding; {totals.cut:,} documents are in more than one row",
    ]
