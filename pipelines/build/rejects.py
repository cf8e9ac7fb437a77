"""What was rejected: gathered from the workers' files, each record numbered within its file, and committed."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokcore.errors import ConfigError, LedgerError, StageError
from tokcore.files.canonical_json import Sha256Writer, hash_sha256, write_canonical_json
from tokcore.files.jsonable import to_jsonable
from tokcore_pipelines.build import ledger
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.build.dedup_corpus import name_documents
from tokcore_pipelines.build.file_rejections import REJECTS
from tokcore_pipelines.build.overlap_receipt import OVERLAPS, has_overlaps, write_overlaps
from tokcore_pipelines.build.reject_causes import find_main_cause
from tokcore_pipelines.build.stage import (
    BuildRun,
    Made,
    StageKey,
    list_plain_files,
    run_stage,
    take_over,
    write_file,
)
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.json_lines import read_lines, read_table
from tokcore_pipelines.store.printable import join_lines
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.packed_rows import SortedRows
from tokcore_schemas.plan import Plan
from tokcore_schemas.refs import RangeLedger, RejectRef, StoredFile
from tokcore_schemas.stage_manifests import LedgerTotals, Nothing, PlanManifest, RejectedConfig, RejectedManifest
from tokcore_schemas.stage_table import REJECTED, Stage

LEDGER = "files.jsonl"


@dataclasses.dataclass(frozen=True, slots=True)
class Rejected:
    """What workers rejected."""

    ledgers: Iterable[RangeLedger]  # of all ranges
    files: Sequence[str]  # attempt files with rejects, in the order of work items
    attempts: Attempts  # of the stage that read


def commit_rejects(
    run: BuildRun, plan: Plan, planned: PlanManifest, files: Sequence[ledger.FileLedger], rejected: Rejected
) -> RejectedManifest:
    """Commit the ledger of every file and every reject with its place, whether or not the build goes on."""

    def make(own: Attempts) -> Made[LedgerTotals, Nothing, Nothing]:
        stored = write_rejected_files(own, plan, files, rejected)
        return Made([(file, Nothing()) for file in stored], ledger.sum_up_ledgers(files))

    return run_stage(run, _make_key(run, planned), make)


def write_rejected_files(
    own: Attempts, plan: Plan, files: Sequence[ledger.FileLedger], rejected: Rejected
) -> list[StoredFile]:
    """The files of rejected/, in a working folder of their own."""
    receipt = [write_file(own, OVERLAPS, write_overlaps(plan, files))] if has_overlaps(plan) else []
    parts = [rejected.attempts.url(name) for name in rejected.files]
    return [
        write_file(own, LEDGER, lambda file: file.writelines(ledger.write_files_table(files))),
        *receipt,
        write_rejects(own, plan, rejected.ledgers, parts),
    ]


def _make_key(run: BuildRun, planned: PlanManifest) -> StageKey[RejectedConfig]:
    return StageKey(REJECTED.name, RejectedConfig(run.config.encode.special_text), name_documents(run, planned))


def reuse_rejects(run: BuildRun, planned: PlanManifest) -> None:
    """Take over what run.reuse says was rejected, if it read the same input. Equal plans reject the same."""
    if not run.reuse or find_manifest(run.output, REJECTED) is not None:
        return
    theirs = find_manifest(run.reuse, REJECTED)
    if theirs is not None and theirs.inputs == name_documents(run, planned):
        run_stage(run, _make_key(run, planned), lambda attempts: take_over(run, theirs, attempts))


def require_rejects(run: BuildRun, stage: Stage[Any]) -> None:
    """Raise ConfigError if a stage that read the corpus is there, and rejected/, which it made, is gone."""
    if find_manifest(run.output, stage) is not None and find_manifest(run.output, REJECTED) is None:
        name, command = stage.name, stage.command
        raise ConfigError(
            f"{redact(run.output)}: holds {name}/, but not rejected/, which `tokcore {command}` makes with it. "
            f"Copy rejected/ from where {name}/ came from (--from OUTPUT does), or make both again: "
            f"`tokcore build {run.config.as_argument} --replace {command}`"
        )


def check_rejected(run: BuildRun, totals: LedgerTotals) -> None:
    """Raise StageError if more of the input was rejected than build.max_rejected allows."""
    share, limit = ledger.compute_rejected_share(totals), run.config.build.max_rejected
    if share <= limit:
        return
    url = urls.join(run.output, "rejected", REJECTS)
    said = f"{share * 100:.4f} % of the input was rejected, more than build.max_rejected = {limit} allows"
    if cause := find_main_cause(run.config, run.output):
        raise StageError(f"{said}, nearly all for one cause:\n{cause}\nAll rejects are in {redact(url)}.")
    raise StageError(
        f"{said}:\n"
        + join_lines(*(f"  {line}" for line in read_first_rejects(url)))
        + f"\nAll of them are in {redact(url)}. Correct how the build file reads it, "
        f"fix the input and add --replace plan, or raise build.max_rejected (1 = never fail)."
    )


def read_file_ledgers(output: str) -> list[ledger.FileLedger]:
    """What became of each input file, as the output's rejected/ says."""
    return read_table(urls.join(output, REJECTED.name, LEDGER), ledger.FileLedger)


def recount_rejected(stored: Stored, documents: Mapping[str, int] | None) -> Made[LedgerTotals, Nothing, Nothing]:
    """What the manifest of what was rejected has to say of its files.

    documents: how many are in the shards, by uri; None: as many as the ledger says. Raises LedgerError for a file whose
    ledger is not what the plan, these and the rejects give.
    """
    files = read_file_ledgers(stored.url)
    records, whole = Counter[tuple[str, str]](), {}
    for reject in read_lines(urls.join(stored.url, REJECTED.name, REJECTS), ledger.PlacedReject):
        if reject.record is None:
            whole[reject.file] = reject.reason
        else:
            records[reject.file, reject.reason] += 1
    by_file: dict[str, dict[str, int]] = {}
    for (uri, reason), num in sorted(records.items()):
        by_file.setdefault(uri, {})[reason] = num
    for said, planned in itertools.zip_longest(files, stored.plan.files):
        if said is None or planned is None or said.uri != planned.uri:
            raise LedgerError(f"{LEDGER}: {len(files)} files, not the {len(stored.plan.files)} that were planned")
        num = said.documents if documents is None else documents.get(said.uri, 0)
        rejected = by_file.pop(said.uri, {})
        held = dataclasses.replace(
            said,
            stored_bytes=planned.size_bytes,
            records=num + sum(rejected.values()) + said.num_filtered + said.removed,
            documents=num,
            rejected=rejected,
            rejected_file=whole.pop(said.uri, ""),
        )
        for field in dataclasses.fields(held):
            if (mine := getattr(said, field.name)) != (theirs := getattr(held, field.name)):
                raise LedgerError(f"{LEDGER}: {said.uri}: {field.name} = {mine}, its files give {theirs}")
    made = stored.get(REJECTED)
    if has_overlaps(stored.plan) and made.file(OVERLAPS).sha256 != hash_sha256(write_overlaps(stored.plan, files)):
        raise LedgerError(f"{OVERLAPS}: is not what {LEDGER} gives")
    if by_file or whole:
        raise LedgerError(f"{REJECTS}: {min([*by_file, *whole])}: not a file of the plan")
    return Made(list_plain_files(made), ledger.sum_up_ledgers(files))


def write_rejects(attempts: Attempts, plan: Plan, ranges: Iterable[RangeLedger], parts: Iterable[str]) -> StoredFile:
    """One file with the rejects of all work items, in the order of files and records.

    parts: URLs of what the workers wrote, in the order of items.
    """
    first = number_first_records(ranges)
    parts = list(parts)

    def write(file: Sha256Writer) -> None:
        for part in parts:
            for reject in read_lines(part, RejectRef):
                file.write(_place_reject(plan, first, reject))

    return write_file(attempts, REJECTS, write)


def read_first_rejects(url: str, limit: int = 5) -> list[str]:
    """The first rejects of a committed file, a line each, for a message."""
    rejects = itertools.islice(read_lines(url, ledger.PlacedReject), limit)
    return [f"{r.file}: {_get_record_name(r.record)}: {r.reason}: {r.detail}" for r in rejects]


def _get_record_name(record: int | None) -> str:
    return "the whole file" if record is None else f"record {record}"


def number_first_records(ranges: Iterable[RangeLedger]) -> dict[tuple[int, int], int]:
    """(file, start of a range) -> number, within the file, of the first record that the range owns.

    Of ranges with rejected records, since there may be ten million.
    """
    first: dict[tuple[int, int], int] = {}
    file, record = -1, 0
    sort = SortedRows(list, lambda *row: row, lambda row: row[:2])
    for r in ranges:
        sort.add((r.file, r.start, r.num_records, len(r.rejected)))
    for number, start, num_records, num_reasons in sort:
        if number != file:
            file, record = number, 0
        if num_reasons:
            first[number, start] = record
        record += num_records
    return first


def _place_reject(plan: Plan, first: Mapping[tuple[int, int], int], reject: RejectRef) -> bytes:
    placed = ledger.PlacedReject(
        file=plan.files[reject.file].uri,
        record=None if reject.record is None else first[reject.file, reject.start] + reject.record,
        reason=reject.reason,
        detail=reject.detail,
        sample=reject.sample,
    )
    return write_canonical_json(to_jsonable(placed))
