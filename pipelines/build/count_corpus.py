"""The count stage: from a plan to tables of pre-token counts, by language, and by split and source where there are."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tokcore.count import pretoken_tables
from tokcore.count.pretoken_rows import CountRows
from tokcore.errors import FormatError, LedgerError, StageError, TokError
from tokcore_pipelines.build import ledger
from tokcore_pipelines.build.commit import find_manifest, get_path_below, name_once
from tokcore_pipelines.build.counted_items import CountedItems
from tokcore_pipelines.build.dedup_corpus import name_documents
from tokcore_pipelines.build.inherited_records import tell_workers
from tokcore_pipelines.build.item_steps import count_steps
from tokcore_pipelines.build.prove_files import prove_files
from tokcore_pipelines.build.rejects import (
    Rejected,
    check_rejected,
    commit_rejects,
    read_file_ledgers,
    require_rejects,
    reuse_rejects,
    write_rejected_files,
)
from tokcore_pipelines.build.stage import BuildRun, Made, StageKey, run_stage
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.worker_modules import WORKER_MODULES
from tokcore_pipelines.run.choose import choose_executor
from tokcore_pipelines.run.task import do_steps
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.work.item_results import read_records
from tokcore_pipelines.work.key_ranges import choose_num_ranges
from tokcore_pipelines.work.language_totals import refuse_many_languages
from tokcore_pipelines.work.make_jobs import make_count_job
from tokcore_pipelines.work.range_tables import write_again
from tokcore_pipelines.work.result_keys import make_table_key
from tokcore_pipelines.work.runs import make_table_record_key, name_table
from tokcore_pipelines.work.stored_tables import read_table_file
from tokcore_schemas.build_tables import CountTable
from tokcore_schemas.count_key import CountKey, parse_count_key
from tokcore_schemas.plan import Plan
from tokcore_schemas.refs import LanguageCounts, StoredFile, TableRef, join_parts
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
    key = StageKey(COUNTS.name, run.config.count_identity(), name_documents(run, planned))
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
    languages = items.languages
    refuse_many_languages(languages, run.config.build.max_languages)
    reach("stage.worked")
    files = ledger.balance_ledgers(plan, items.ledgers, languages)
    origins = items.origins
    tables = _read_tables(attempts, origins if config.apart_by else languages)
    ledger.check_counted(languages, tables, run.config.count.sample < 1, bool(config.normalize))
    if config.apart_by:
        ledger.check_origins(languages, origins, tables)
    commit_rejects(run, plan, planned, files, Rejected(items.ledgers, items.rejects, attempts))
    rows: Counter[str] = Counter()
    for table in tables:
        rows[table.lang] += table.num_rows
    totals = ledger.sum_up_ledgers(files)
    of_languages = _describe_origins(origins)
    counted = {
        lang: dataclasses.replace(
            _sum_up_language(counts, rows[lang], items.list_masked(lang) if config.mask else None),
            origins=tuple(of_languages.get(lang, ())),
        )
        for lang, counts in languages.items()
    }
    # Before anything is committed, so that the build file can be corrected in place.
    _check(run, totals, counted)
    key = make_table_key(attempts.identity)
    return Made([(table.file, _describe_table(table, key)) for table in tables], totals, counted)


def _describe_table(table: TableRef, key: str) -> TableAbout:
    sizes = (table.num_rows, table.num_pretokens, table.size_bytes)
    return TableAbout(table.lang, *sizes, key, table.split, table.source)


def _count_items(run: BuildRun, config: CountsConfig, plan: Plan, attempts: Attempts) -> CountedItems:
    """Have all work items counted and their counts merged; what was recorded of the items, added up."""
    memory_bytes = run.config.count.memory_bytes
    job = make_count_job(config, attempts, run.config.base, choose_num_ranges(plan.size_bytes), memory_bytes)
    executor = run.find_executor(attempts)
    before = run.inheritance.before if run.inheritance is not None else None
    plan = prove_files(executor, plan, attempts, run.config.base, run.progress, before)
    inherits = tell_workers(run.inheritance, plan, attempts, config)
    job = dataclasses.replace(job, inherits=inherits, max_languages=run.config.build.max_languages)
    with run.progress.stage("count", plan.size_bytes) as shown:
        return do_steps(executor, count_steps(plan, job), attempts, shown.report, run.measure("count"))


def recount_tables(stored: Stored, tables: Sequence[TableRef]) -> Made[LedgerTotals, CountedLanguage, TableAbout]:
    """What the manifest of the counts has to say of these tables. What no table holds is as it says.

    Raises LedgerError if what was read, what was counted and what is in the tables does not add up.
    """
    made, files = stored.get(COUNTS), read_file_ledgers(stored.url)
    config, key, said = made.config, make_table_key(made.identity), made.languages
    languages = {
        lang: LanguageCounts(one.documents, one.text_bytes, one.counted_documents, one.counted_bytes, one.pretokens)
        for lang, one in said.items()
    }
    ledger.check_languages(files, languages)
    ledger.check_counted(languages, tables, config.sample != "1", bool(config.normalize))
    origins = {
        CountKey(lang, one.split, one.source).spell(): LanguageCounts(
            0, 0, one.counted_documents, one.counted_bytes, one.pretokens
        )
        for lang, language in said.items()
        for one in language.origins
    }
    if len(origins) != sum(len(one.origins) for one in said.values()):
        raise LedgerError("a split and source comes twice among the origins of a language")
    splits = ("train", "validation") if "split" in config.apart_by else ("",)
    for one in (*(table.key for table in tables), *map(parse_count_key, origins)):
        if one.split not in splits or (one.source and "source" not in config.apart_by):
            raise LedgerError(f"{one.spell()}: a split and source that its settings do not tell apart")
    if config.apart_by:
        ledger.check_origins(languages, origins, tables)
    rows: Counter[str] = Counter()
    for table in tables:
        rows[table.lang] += table.num_rows
    if strangers := rows.keys() - said.keys():
        raise LedgerError(f"a table of {min(strangers)!r}, which has no documents")
    described = [(_name_again(table, key), _describe_table(table, key)) for table in tables]
    held = {lang: dataclasses.replace(one, rows=rows[lang]) for lang, one in said.items()}
    return Made(described, ledger.sum_up_ledgers(files), held)


def _name_again(table: TableRef, key: str) -> StoredFile:
    """The file of a table with what its name, and of parts its sums, have to be."""
    path = name_table(table.key, key)
    if not table.file.parts:
        return dataclasses.replace(table.file, path=path)
    return join_parts(path, table.file.content_sha256, table.file.parts)


def recount_table(output: str, named: TableRef) -> TableRef:
    """A table with what its files hold. Raises FormatError, with its path, for one that is damaged or out of order."""
    held = pretoken_tables.sum_up_table(
        pretoken_tables.join_parts(
            (path, _read_named(output, path))
            for path in (get_path_below(COUNTS.name, file.path) for file in named.file.list_files())
        )
    )
    return dataclasses.replace(
        named,
        file=dataclasses.replace(named.file, content_sha256=held.content_sha256),
        num_rows=held.num_rows,
        num_pretokens=held.num_pretokens,
        size_bytes=held.key_bytes,
    )


def _read_named(output: str, path: str) -> Iterator[CountRows]:
    try:
        yield from read_table_file(urls.join(output, path))
    except TokError as error:
        raise FormatError(name_once(path, error)) from error


def name_tables(made: CountsManifest) -> list[TableRef]:
    """The tables as the manifest describes them."""
    return [
        TableRef(
            *(entry.about.lang, entry.describe()),
            *(entry.about.rows, entry.about.pretokens, entry.about.pretoken_bytes),
            *(entry.about.split, entry.about.source),
        )
        for entry in made.files
    ]


def count_again(
    options: RunOptions, base: str, plan: Plan, made: CountsManifest, attempts: Attempts
) -> dict[str, StoredFile]:
    """Count a plan once more, without a build file: path below the output -> the file in the working folder.

    attempts: of the counts, which are committed. base: folder of the build file.
    """
    job = make_count_job(made.config, attempts, base, choose_num_ranges(plan.size_bytes), CountTable().memory_bytes)
    progress = StageProgress()
    with contextlib.closing(Workers(options, WORKER_MODULES)) as workers:
        executor = choose_executor(options, workers, progress.say)
        plan = prove_files(executor, plan, attempts, base, progress)
        with progress.stage("count", plan.size_bytes) as shown:
            items = do_steps(executor, count_steps(plan, job), attempts, shown.report)
    arranged = {table.key: table.file for table in name_tables(made)}
    tables = [
        write_again(attempts, table, arranged.get(table.key, table.file))
        for table in _read_tables(attempts, items.origins or items.languages)
    ]
    files = ledger.balance_ledgers(plan, items.ledgers, items.languages)
    rejected = write_rejected_files(attempts, plan, files, Rejected(items.ledgers, items.rejects, attempts))
    return {
        **{f"counts/{file.path}": file for table in tables for file in table.list_files()},
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
