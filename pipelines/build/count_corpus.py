"""The count stage: from a plan to tables of pre-token counts, by language, and by split and source where there are."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Mapping

from tokcore.errors import StageError
from tokcore_pipelines.build import ledger
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.inherited_records import tell_workers
from tokcore_pipelines.build.item_steps import count_steps
from tokcore_pipelines.build.rejects import (
    check_rejected,
    commit_rejects,
    require_rejects,
    reuse_rejects,
    write_rejected_files,
)
from tokcore_pipelines.build.stage import BuildRun, Made, StageKey, name_inputs, run_stage
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.worker_modules import WORKER_MODULES
from tokcore_pipelines.run.choose import choose_executor
from tokcore_pipelines.run.task import do_steps
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.work.item_results import read_records, sum_up_languages
from tokcore_pipelines.work.language_totals import add_up_languages, refuse_many_languages
from tokcore_pipelines.work.make_jobs import make_count_job
from tokcore_pipelines.work.result_keys import make_table_key
from tokcore_pipelines.work.runs import make_table_record_key
from tokcore_schemas.build_tables import CountTable
from tokcore_schemas.count_key import parse_count_key
from tokcore_schemas.plan import Plan
from tokcore_schemas.refs import ItemCounted, LanguageCounts, StoredFile, TableRef
from tokcore_schemas.stage_manifests import (
    CountedLanguage,
    CountedOrigin,
    CountsConfig,
    CountsManifest,
    LedgerTotals,
    PlanManifest,
    TableAbout,
)
from tokcore_schemas.stage_table import COUNTS, REJECTED


def count_corpus(run: BuildRun, plan: Plan, planned: PlanManifest) -> CountsManifest:
    """Count pre-tokens into tables; commit what was rejected, too.

    Raises StageError for too many rejects, and for a source without documents; LedgerError if what was read and what
    was counted do not add up.
    """
    reuse_rejects(run, planned)
    require_rejects(run, COUNTS)
    key = StageKey(COUNTS.name, run.config.count_identity(), name_inputs(planned))
    if find_manifest(run.output, REJECTED) is None:
        run = dataclasses.replace(run, reuse="")  # counts alone are of no use
    manifest = run_stage(run, key, functools.partial(_count, run, key.config, plan, planned))
    _check(run, manifest.totals, manifest.languages)
    return manifest


def _count(
    run: BuildRun, config: CountsConfig, plan: Plan, planned: PlanManifest, attempts: Attempts
) -> Made[LedgerTotals, CountedLanguage, TableAbout]:
    items = _count_items(run, config, plan, attempts)
    run.take_turn(attempts)
    languages = sum_up_languages(items)
    refuse_many_languages(languages, run.config.build.max_languages)
    reach("stage.worked")
    files = ledger.balance_ledgers(plan, [one for item in items for one in item.ledgers], languages)
    origins = add_up_languages(item.origins or {} for item in items)
    tables = _read_tables(attempts, origins if config.apart_by else languages)
    ledger.check_counted(languages, tables, run.config.count.sample < 1, bool(config.normalize))
    if config.apart_by:
        ledger.check_origins(languages, origins, tables)
    commit_rejects(run, plan, planned, files, items, attempts)
    rows: Counter[str] = Counter()
    for table in tables:
        rows[table.lang] += table.num_rows
    totals = ledger.sum_up_ledgers(files)
    of_languages = _describe_origins(origins)
    counted = {
        lang: dataclasses.replace(
            _sum_up_language(counts, rows[lang], _sum_up_masked(items, lang) if config.mask else None),
            origins=tuple(of_languages.get(lang, ())),
        )
        for lang, counts in languages.items()
    }
    # Before anything is committed, so that the build file can be corrected in place.
    _check(run, totals, counted)
    key = make_table_key(attempts.identity)
    files_made = [
        (t.file, TableAbout(t.lang, t.num_rows, t.num_pretokens, t.size_bytes, key, t.split, t.source)) for t in tables
    ]
    return Made(files_made, totals, counted)


def _count_items(run: BuildRun, config: CountsConfig, plan: Plan, attempts: Attempts) -> list[ItemCounted]:
    """Have all work items counted and their counts merged; what was recorded of the items."""
    memory_bytes = run.config.count.memory_bytes
    job = make_count_job(config, attempts, run.config.base, plan.num_partitions, memory_bytes)
    inherits = tell_workers(run.inheritance, plan, attempts, config)
    job = dataclasses.replace(job, inherits=inherits, max_languages=run.config.build.max_languages)
    executor = run.find_executor(attempts)
    with run.progress.stage("count", plan.size_bytes) as shown:
        return do_steps(executor, count_steps(plan, job), attempts, shown.report, run.measure("count"))


def count_again(
    options: RunOptions, base: str, plan: Plan, made: CountsManifest, attempts: Attempts
) -> dict[str, StoredFile]:
    """Count a plan once more, without a build file: path below the output -> the file in the working folder.

    attempts: of the counts, which are committed. base: folder of the build file.
    """
    job = make_count_job(made.config, attempts, base, plan.num_partitions, CountTable().memory_bytes)
    progress = StageProgress()
    with (
        progress.stage("count", plan.size_bytes) as shown,
        contextlib.closing(Workers(options, WORKER_MODULES)) as workers,
    ):
        executor = choose_executor(options, workers, progress.say)
        items = do_steps(executor, count_steps(plan, job), attempts, shown.report)
    languages = sum_up_languages(items)
    ledgers = [one for item in items for one in item.ledgers]
    tables = _read_tables(attempts, add_up_languages(item.origins or {} for item in items) or languages)
    rejected = write_rejected_files(attempts, plan, ledger.balance_ledgers(plan, ledgers, languages), items, attempts)
    return {
        **{f"counts/{table.file.path}": table.file for table in tables},
        **{f"rejected/{file.path}": file for file in rejected},
    }


def _read_tables(attempts: Attempts, counted: Mapping[str, LanguageCounts]) -> list[TableRef]:
    """counted: by the spelled keys of tables."""
    keys = [make_table_record_key(key) for key, counts in counted.items() if counts.num_pretokens]
    return read_records(attempts, keys, TableRef)


def _describe_origins(origins: Mapping[str, LanguageCounts]) -> dict[str, list[CountedOrigin]]:
    """Language -> what its splits and sources bring, in the order of keys. origins: by spelled keys."""
    described: dict[str, list[CountedOrigin]] = {}
    for key, counts in sorted((parse_count_key(spelled), counts) for spelled, counts in origins.items()):
        sizes = counts.num_counted, counts.counted_bytes, counts.num_pretokens
        described.setdefault(key.lang, []).append(CountedOrigin(*sizes, key.split, key.source))
    return described


def _sum_up_language(counts: LanguageCounts, num_rows: int, masked: dict[str, int] | None) -> CountedLanguage:
    """masked: preset -> spans; None without a mask."""
    return CountedLanguage(
        documents=counts.num_documents,
        text_bytes=counts.text_bytes,
        counted_documents=counts.num_counted,
        counted_bytes=counts.counted_bytes,
        pretokens=counts.num_pretokens,
        rows=num_rows,
        masked_bytes=None if masked is None else counts.masked_bytes,
        masked=masked,
    )


def _sum_up_masked(items: Iterable[ItemCounted], lang: str) -> dict[str, int]:
    """Preset of count.mask -> spans that were found in the documents of a language."""
    matches: Counter[str] = Counter()
    for item in items:
        matches.update(item.masked.get(lang, {}))
    return dict(sorted(matches.items()))


def _check(run: BuildRun, totals: LedgerTotals, languages: Mapping[str, CountedLanguage]) -> None:
    """Raise StageError for too many rejects, and for a source without documents."""
    check_rejected(run, totals)
    if run.config.counts_too:  # a part of an output has the files that are new: of few sources, or empty ones
        return
    if not any(language.documents for language in languages.values()):
        raise StageError("the corpus is empty: no document was read. Check source.files and rejected/rejected.jsonl.")
    for number, source in enumerate(run.config.sources):
        if source.lang is not None and run.config.spell_lang(source.lang) not in languages:
            raise StageError(
                f"source[{number}]: language {source.lang!r} has no documents. Check its files, or remove the source."
            )
