"""The pack stage: from token shards to shards of rows of one length."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Generator, Sequence

from tokcore.errors import LedgerError
from tokcore.formats.shard_facts import ShardFacts
from tokcore_pipelines.build.commit import require_manifest
from tokcore_pipelines.build.derived_before import find_derived_before
from tokcore_pipelines.build.shard_files import list_shard_files
from tokcore_pipelines.build.stage import BuildRun, Made, StageKey, name_inputs, run_stage, write_file
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.run.task import Step, do_steps, name_by_number
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.tokenizers import load_checked_spec
from tokcore_pipelines.work.derived_shards import ShardSource
from tokcore_pipelines.work.item_results import read_packed
from tokcore_pipelines.work.make_jobs import make_pack_job
from tokcore_pipelines.work.pack_group import PackedBefore, PackJob, make_group_key, pack_group
from tokcore_pipelines.work.result_keys import make_table_key
from tokcore_pipelines.work.row_gaps import find_gaps, find_gaps_url, read_gaps
from tokcore_schemas.gaps import GAPS, Gaps
from tokcore_schemas.pack_groups import list_groups
from tokcore_schemas.refs import GroupPacked, PackedSums, PackGroup, StoredFile
from tokcore_schemas.shard_entries import Afresh, iterate_named_shards, list_named_shards
from tokcore_schemas.stage_manifests import (
    CorpusAbout,
    MixtureManifest,
    Nothing,
    PackedManifest,
    PackedTotals,
    ShardsManifest,
)
from tokcore_schemas.stage_table import MIXED, PACKED, SHARDS, TOKENIZER


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
    key = StageKey(PACKED.name, config, name_inputs(packed_from, learned))

    def make(attempts: Attempts) -> Made[PackedTotals, Nothing, ShardFacts | CorpusAbout]:
        spec = load_checked_spec(run.output, learned)
        append, result_key = shards.config.append, make_table_key(key.identity)
        job = make_pack_job(config, attempts, run.output, packed_from, append, spec, result_key)
        if run.config.kept_rows is None:
            found = find_derived_before(run, config, PACKED.name, packed_from)
            if found is not None and not found.made.totals.removed:  # no place is kept in either
                before = PackedBefore(*(ShardSource.of(found.output, one) for one in (found.source, found.made)))
                job = dataclasses.replace(job, before=before)
            return _pack(run, packed_from, job)
        with run.progress.stage("find gaps", minor=True):
            gaps = find_gaps(run.config.kept_rows, job.source)
        file = write_file(attempts, GAPS, b"".join(one.to_line() for one in gaps))
        return _pack(run, packed_from, dataclasses.replace(job, gaps=attempts.find(file)), gaps, [file])

    return run_stage(run, key, make)


def _pack(
    run: BuildRun,
    shards: ShardsManifest | MixtureManifest,
    job: PackJob,
    gaps: Sequence[Gaps] = (),
    more: Sequence[StoredFile] = (),
) -> Made[PackedTotals, Nothing, ShardFacts | CorpusAbout]:
    """gaps: documents whose place is kept. more: files beside the shards."""
    attempts = job.attempts
    groups = list_groups(iterate_named_shards(shards), job.config, gaps)
    with run.progress.stage("pack"):
        packed = do_steps(run.find_executor(attempts), pack_steps(groups, job), attempts)
    run.take_turn(attempts)
    reach("stage.worked")
    totals = _sum_up(packed, job.settings.fingerprint)
    if wrong := _find_unpacked(totals, shards):
        raise LedgerError(f"pack: {wrong}")
    rows = Afresh(lambda: (shard for one in packed for shard in one.shards))
    about = CorpusAbout(totals.rows, totals.tokens + totals.padding)
    return Made(list_shard_files(job, rows, about, more), totals)


def pack_steps(groups: Sequence[PackGroup], job: PackJob) -> Generator[Step, bool, Sequence[GroupPacked]]:
    """Pack the documents of all groups into rows; what was recorded of the groups."""
    yield Step("pack", pack_group, (job,), groups, name_by_number(make_group_key))
    return read_packed(job.attempts, len(groups), GroupPacked, make_group_key)


def _sum_up(groups: Sequence[GroupPacked], fingerprint: str) -> PackedTotals:
    """The totals of the stage."""
    sums = functools.reduce(PackedSums.__add__, (group.sums for group in groups), PackedSums(0, 0, 0, 0, 0, 0))
    num_shards = sum(len(group.shards) for group in groups)
    return PackedTotals(num_shards, **dataclasses.asdict(sums), fingerprint=fingerprint)


def _find_unpacked(totals: PackedTotals, shards: ShardsManifest | MixtureManifest) -> str:
    """What is in the shards and not in the rows, or the other way round; empty if nothing is."""
    there = sum(shard.facts.documents for shard in iterate_named_shards(shards))
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
    removed = f"; {totals.removed:,} removed documents keep their place in it" if totals.removed else ""
    return [
        f"{totals.rows:,} of {made.config.length:,} ids",
        f"{padding:.3f} % padding{removed}; {totals.cut:,} documents are in more than one row",
    ]


# ---------------------------------------------------------------------------------------------------------- made again


def count_groups(stored: Stored) -> int:
    """How many groups of documents are packed."""
    return len(_list_groups(stored))


@functools.lru_cache(maxsize=2)
def _list_groups(stored: Stored) -> list[PackGroup]:
    made = stored.get(PACKED)
    gaps = [*read_gaps(url).values()] if (url := find_gaps_url(stored.url, made)) else []
    return [*list_groups(list_named_shards(stored.get_source(made)), made.config, gaps)]


def pack_again(stored: Stored, attempts: Attempts, number: int) -> GroupPacked:
    """Pack a group once more."""
    return pack_group(dataclasses.replace(_make_job_again(stored), attempts=attempts), _list_groups(stored)[number])


@functools.lru_cache(maxsize=2)
def _make_job_again(stored: Stored) -> PackJob:
    made = stored.get(PACKED)
    attempts, key = Attempts(stored.url, made.stage, made.identity), make_table_key(made.identity)
    append, source = stored.get(SHARDS).config.append, stored.get_source(made)
    job = make_pack_job(made.config, attempts, stored.url, source, append, stored.spec, key)
    return dataclasses.replace(job, gaps=find_gaps_url(stored.url, made))


def sum_up_again(
    stored: Stored, groups: Sequence[GroupPacked], _measured: Sequence[object]
) -> tuple[PackedTotals, dict[str, Nothing]]:
    """What the manifest of packed rows in these groups says of them all."""
    return _sum_up(groups, stored.get(PACKED).totals.fingerprint), {}
