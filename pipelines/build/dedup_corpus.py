"""The stage that finds duplicates: from a plan to the same plan, whose work items know which documents to leave out."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Generator
from typing import Any

from tokcore.errors import LedgerError
from tokcore_pipelines.build.commit import find_manifest, get_folder
from tokcore_pipelines.build.item_steps import do_collected
from tokcore_pipelines.build.prove_files import prove_files
from tokcore_pipelines.build.stage import BuildRun, Made, StageKey, list_plain_files, name_inputs, run_stage
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.worker_modules import WORKER_MODULES
from tokcore_pipelines.run.choose import choose_executor
from tokcore_pipelines.run.task import Items, Pieces, Step, do_steps, name_by_number
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.combining import Combining
from tokcore_pipelines.work.drop_lists import parse_drops
from tokcore_pipelines.work.find_duplicates import (
    DedupJob,
    digest_item,
    judge_part,
    list_drops,
    make_digested_key,
    make_dropped_key,
    make_judged_key,
)
from tokcore_pipelines.work.item_results import read_items, read_numbered
from tokcore_pipelines.work.read_plan import with_drops
from tokcore_pipelines.work.result_keys import make_table_key
from tokcore_schemas.manifest import Input
from tokcore_schemas.plan import Plan
from tokcore_schemas.prefer import PIECES
from tokcore_schemas.refs import (
    DropPiece,
    ItemDigested,
    ItemDropped,
    ItemRun,
    JudgePart,
    PartJudged,
    RunRef,
    StoredFile,
)
from tokcore_schemas.shuffle import choose_num_buckets
from tokcore_schemas.stage_manifests import DedupConfig, DedupTotals, DropsAbout, Nothing, PlanManifest
from tokcore_schemas.stage_table import DEDUP

MakeKey = Callable[[int], str]
_ROWS_OF_PIECES = 4  # bytes of rows of each stored byte of text, about


def dedup_corpus(run: BuildRun, plan: Plan, planned: PlanManifest) -> Plan:
    """Find the duplicates among the documents of a plan, if the build drops them; the plan, as documents are read then.

    Raises StageError for an input that cannot be read, or has changed.
    """
    if (config := run.config.dedup_identity()) is None:
        return plan
    key = StageKey(DEDUP.name, config, name_inputs(planned))
    return with_drops(plan, run.output, run_stage(run, key, functools.partial(_dedup, run, config, plan)))


def name_documents(run: BuildRun, planned: PlanManifest) -> dict[str, Input]:
    """The inputs of a stage that reads documents: the plan, and which of these are duplicates, if the build asks."""
    made = find_manifest(run.output, DEDUP) if run.config.dedup_identity() is not None else None
    return name_inputs(planned, *([made] if made is not None else []))


def _dedup(
    run: BuildRun, config: DedupConfig, plan: Plan, attempts: Attempts
) -> Made[DedupTotals, Nothing, DropsAbout]:
    job = _make_job(config, plan, attempts, run.config.base, run.config.build.max_languages)
    executor = run.find_executor(attempts)
    plan = prove_files(executor, plan, attempts, run.config.base, run.progress)
    with run.progress.stage("dedup", plan.size_bytes) as shown:
        digested, listed = do_steps(executor, _list_steps(plan, job), attempts, shown.report, run.measure("dedup"))
    run.take_turn(attempts)
    files = [(one.file, DropsAbout(one.number, one.duplicates, job.result_key)) for one in listed]
    documents = sum(one.documents for one in digested)
    return Made(files, DedupTotals(documents, sum(one.duplicates for one in listed)))


def dedup_again(options: RunOptions, stored: Stored, attempts: Attempts) -> dict[str, StoredFile]:
    """Find the duplicates once more, without a build file: path below the output -> the file in the working folder.

    attempts: of the stage, which is committed.
    """
    plan, made = stored.plan, stored.get(DEDUP)
    plan = dataclasses.replace(plan, drops=())
    job = _make_job(made.config, plan, attempts, stored.base, 0)
    progress = StageProgress()
    with contextlib.closing(Workers(options, WORKER_MODULES)) as workers:
        executor = choose_executor(options, workers, progress.say)
        plan = prove_files(executor, plan, attempts, stored.base, progress)
        with progress.stage("dedup", plan.size_bytes) as shown:
            _, listed = do_steps(executor, _list_steps(plan, job), attempts, shown.report)
    return {f"{DEDUP.name}/{one.file.path}": one.file for one in listed}


def recount_drops(stored: Stored, _: object) -> Made[DedupTotals, Nothing, DropsAbout]:
    """What the manifest has to say of its files. How many documents were compared is as it says.

    Raises LedgerError if there is not one for each work item, FormatError if one cannot be read.
    """
    made = stored.get(DEDUP)
    key = make_table_key(made.identity)
    num = len(stored.plan.items)
    if [entry.about.item for entry in made.files] != [*range(num)]:
        raise LedgerError(f"{len(made.files)} files, of {num} work items")
    files = []
    for file, about in list_plain_files(made):
        url = urls.join(get_folder(stored.url, DEDUP.name), file.path)
        held = parse_drops(storage.read_bytes(url), f"{DEDUP.name}/{file.path}")
        places = {(stored.plan.files[r.file].uri, r.start) for r in stored.plan.items[about.item].ranges}
        if strangers := held.keys() - places:
            raise LedgerError(f"{file.path}: {min(strangers)} is no range of work item {about.item}")
        files.append((file, DropsAbout(about.item, sum(map(len, held.values())), key)))
    return Made(files, DedupTotals(made.totals.documents, sum(about.duplicates for _, about in files)))


def _make_job(config: DedupConfig, plan: Plan, attempts: Attempts, base: str, max_languages: int) -> DedupJob:
    key = make_table_key(attempts.identity)
    # A line takes more bytes as a row than as text.
    size_bytes = plan.size_bytes * (_ROWS_OF_PIECES if config.by in PIECES else 1)
    return DedupJob(attempts, config, base, choose_num_buckets(size_bytes), key, max_languages)


def _list_steps(plan: Plan, job: DedupJob) -> Generator[Step, bool, tuple[list[ItemDigested], list[ItemDropped]]]:
    """The three passes; what was recorded of the first and of the last."""
    attempts = job.attempts
    yield from do_collected(_make_step("digest", digest_item, job, Items(plan), make_digested_key), attempts)
    digested = read_items(attempts, plan, ItemDigested, make_digested_key)
    of_bucket: defaultdict[int, list[ItemRun]] = defaultdict(list)
    for item in digested:
        for run in item.runs:
            of_bucket[run.partition].append(ItemRun(item.item, run))
    parts = [JudgePart(number, tuple(of_bucket[number])) for number in range(job.num_buckets)]
    yield from do_collected(_make_step("judge", judge_part, job, parts, make_judged_key), attempts)
    judged = read_numbered(attempts, len(parts), PartJudged, make_judged_key)
    runs_of: dict[int, list[RunRef]] = {item.item: [item.dropped] for item in digested}
    for part in judged:
        for one in part.dropped:
            runs_of[one.item].append(one.run)
    pieces = [
        DropPiece(
            item.number, tuple((plan.files[r.file].uri, r.start) for r in item.ranges), tuple(runs_of[item.number])
        )
        for item in plan.items
    ]
    yield from do_collected(_make_step("list", list_drops, job, pieces, make_dropped_key), attempts)
    return digested, read_numbered(attempts, len(pieces), ItemDropped, make_dropped_key)


def _make_step(name: str, function: Callable[..., Any], job: DedupJob, pieces: Pieces, make_key: MakeKey) -> Step:
    return Step(name, function, (job,), pieces, name_by_number(make_key), combining=Combining(make_key))
