"""What a worker of `tokcore verify` does with one piece of the work. Each leaves a record, as the work of stages does.

Pieces say all that decides what is found (tokcore_schemas.verified), so the key of a record follows from its piece: a
file that was changed since makes another piece. No Beam.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from tokcore.errors import FormatError, TokError
from tokcore.files.canonical_json import write_canonical_json
from tokcore.files.jsonable import from_jsonable, to_jsonable
from tokcore.shards.tombstone_lookup import TombstoneLookup
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.build.commit import get_path_below
from tokcore_pipelines.build.count_corpus import recount_table
from tokcore_pipelines.build.read_log import read_log
from tokcore_pipelines.build.rejects import read_file_ledgers
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.table import WORK, DerivedWork
from tokcore_pipelines.check import verify_shards
from tokcore_pipelines.check.shards_made_again import compare, make_again
from tokcore_pipelines.check.verify_order import AnyOrder, Order, PlanOrder, ShuffledOrder, list_ordinal_ends
from tokcore_pipelines.check.verify_shards import MOST_NAMED, Found
from tokcore_pipelines.check.whole_files import check_file
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts, compute_key
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_pipelines.store.tokenizers import load_spec
from tokcore_pipelines.work.decode_item import DecodeJob, decode_items
from tokcore_pipelines.work.token_count_runs import add_up_id_runs, write_id_run
from tokcore_schemas.commit_log import OWN
from tokcore_schemas.refs import HashedDocuments, LanguageCounts, RunRef, ShardRef
from tokcore_schemas.shard_entries import list_item_shards
from tokcore_schemas.shuffle import get_interval
from tokcore_schemas.stage_table import SHARDS, STAGES
from tokcore_schemas.verified import (
    FilesHashed,
    FilesToHash,
    FileToHash,
    IdsToAddUp,
    ItemsDecoded,
    ItemsToDecode,
    PieceMade,
    PieceToMake,
    SeenFile,
    ShardsRead,
    ShardsToRead,
    TableRead,
    TableToRead,
)

T = TypeVar("T")

_WITH_PROBLEMS = "problems"  # folder of the keys of pieces in which something was wrong


@dataclasses.dataclass(frozen=True, slots=True)
class VerifyJob:
    """What all pieces of a verification share."""

    attempts: Attempts  # where records go
    output: str
    base: str
    run: str  # name of this run: what a worker has read of the output it keeps for it, and no longer
    at: int | None = None  # the commit, of an output with commits
    is_kept: bool = True  # whether records outlive the run; else nothing is synced


def make_piece_key(piece: Any) -> str:
    """The key of a piece's record."""
    return compute_key(type(piece).__name__.lower(), piece)


def locate(output: str, part: str) -> str:
    """The URL of a part. part: its path; OWN is the output itself."""
    return output if part == OWN else urls.join(output, part)


def _once(job: VerifyJob, piece: Any, cls: type[T], make: Callable[[str], T]) -> T:
    """The record of a piece: that of an earlier attempt, or what make(key) gives."""
    if not job.is_kept:
        storage.leave_unsynced(job.attempts.output)
    key = make_piece_key(piece)
    if (done := job.attempts.result(key, cls)) is not None:
        report_progress("read", piece.size_bytes)
        return done
    found = make(key)
    if getattr(found, "problems", ()):
        mark = urls.join(job.attempts.folder, _WITH_PROBLEMS, key)
        storage.create_exclusive(mark, b"", job.attempts.scratch)
    return job.attempts.record(key, found)


def forget_problems(attempts: Attempts) -> None:
    """Remove the records of pieces in which something was wrong, so that they are looked at again.

    What was wrong may have been the way to the file.
    """
    folder = urls.join(attempts.folder, _WITH_PROBLEMS)
    keys = storage.list_tree(folder)
    storage.remove_files(urls.join(attempts.folder, "done"), [f"{key}.json" for key in keys])
    storage.remove_files(folder, keys)


# --------------------------------------------------------------------------------------------------------------- files


def hash_files(job: VerifyJob, piece: FilesToHash) -> FilesHashed:
    """Compare the bytes of files with what was committed."""
    url = locate(job.output, piece.part)

    def check(file: FileToHash) -> list[str]:
        wrong = check_file(url, file.stage, file)
        report_progress("read", file.size_bytes)
        return wrong

    def make(_key: str) -> FilesHashed:
        found = map(check, piece.files) if urls.is_local(url) else run_at_once(check, piece.files)
        problems = tuple(itertools.chain.from_iterable(found))
        seen = (SeenFile(get_path_below(one.stage, one.path), one.size_bytes, one.version) for one in piece.files)
        return FilesHashed(tuple(seen), problems)

    return _once(job, piece, FilesHashed, make)


# -------------------------------------------------------------------------------------------------------------- shards


def read_shards(job: VerifyJob, piece: ShardsToRead) -> ShardsRead:
    """Read shards, and compare them with what manifest, plan, ledger and tokenizer say."""

    def make(key: str) -> ShardsRead:
        found = Found()
        try:
            _read_shards(job, piece, found)
        except FormatError as error:
            found.problems.append(str(error))
        report_progress("read", piece.size_bytes)
        said = {shard.facts.shard: shard for shard in piece.shards}
        is_sound = not found.problems
        return ShardsRead(
            problems=tuple(found.problems),
            brought_back=tuple(
                f"shards: {one.source}, ordinal {one.ordinal}: was removed, and is there"
                for one in found.brought_back[:MOST_NAMED]
            ),
            differing=tuple(shard for shard in found.shards if shard != said[shard.facts.shard]),
            documents_of=dict(found.documents_of),
            languages={
                lang: LanguageCounts(documents, 0, num_tokens=tokens, num_unknown=unknown)
                for lang, (documents, tokens, unknown) in found.languages.items()
            },
            hashed=HashedDocuments(found.hashed.num_documents, found.hashed.hexdigest()),
            ids=write_id_run(job.attempts, key, found.ids.take()) if is_sound else None,
            records=_write_records(job.attempts, key, found.records) if is_sound and piece.num_parts else None,
        )

    return _once(job, piece, ShardsRead, make)


def _read_shards(job: VerifyJob, piece: ShardsToRead, found: Found) -> None:
    url = locate(job.output, piece.part)
    order: Order = AnyOrder()
    validation: Collection[str] = ()
    if piece.assignment is not None:
        ranges = piece.assignment.ranges
        order = PlanOrder(ranges, dict(zip((one.uri for one in ranges), piece.records, strict=True)), found.problems)
        validation = {one.uri for one in ranges if one.settings.validation}
    elif piece.num_parts:
        ends, validation = _list_planned(job.run, url)
        order = ShuffledOrder(get_interval(piece.number, piece.num_parts), ends, found.problems, found.records)
    rules = verify_shards.make_rules(_find_spec(url, piece.fingerprint), piece.config, validation)
    removed = _find_removed(job.run, job.output, job.at)
    verify_shards.check_shards(url, rules, piece.shards, order, found, removed)
    order.close()


def _write_records(attempts: Attempts, key: str, records: bytearray) -> RunRef:
    with attempts.new_file(f"{key}.records") as new:
        new.file.write(memoryview(records))
    return RunRef("", 0, new.attempt, 0, new.file.size_bytes, new.file.sha256)


_specs: dict[str, TokenizerSpec] = {}  # by fingerprint: parts of an output have equal ones


def _find_spec(url: str, fingerprint: str) -> TokenizerSpec:
    """The tokenizer of a part. Raises FormatError if it is another one."""
    if (spec := _specs.get(fingerprint)) is None:
        spec = load_spec(url)
        if spec.fingerprint != fingerprint:
            raise FormatError(f"tokenizer: its fingerprint is {spec.fingerprint}, the shards' is {fingerprint}")
        _specs.clear()
        _specs[fingerprint] = spec
    return spec


@functools.lru_cache(maxsize=2)
def _list_planned(_run: str, url: str) -> tuple[Mapping[str, int], frozenset[str]]:
    """(the end of its ordinals by planned file, the files for validation), of a part that is shuffled."""
    plan = Stored(url).plan
    ends = list_ordinal_ends(plan, {file.uri: file.records for file in read_file_ledgers(url)})
    return ends, frozenset(file.uri for file in plan.files if plan.settings[file.settings].validation)


@functools.lru_cache(maxsize=1)
def _find_removed(_run: str, output: str, at: int | None) -> TombstoneLookup | None:
    """The tombstones of a commit, whose documents no part may hold. None if at is: then nobody asks for them."""
    return None if at is None else read_log(output).open_tombstones(at)


def add_up_ids(job: VerifyJob, piece: IdsToAddUp) -> RunRef:
    """Add up counts of token ids."""
    return _once(
        job, piece, RunRef, lambda key: write_id_run(job.attempts, key, add_up_id_runs(job.attempts, piece.runs))
    )


# -------------------------------------------------------------------------------------------------------------- tables


def read_table(job: VerifyJob, piece: TableToRead) -> TableRead:
    """Read a count table."""

    def make(_key: str) -> TableRead:
        try:
            return TableRead(recount_table(locate(job.output, piece.part), piece.table), ())
        except FormatError as error:
            return TableRead(None, (str(error),))
        finally:
            report_progress("read", piece.size_bytes)

    return _once(job, piece, TableRead, make)


# ----------------------------------------------------------------------------------------------------------- made again


def make_piece_again(job: VerifyJob, piece: PieceToMake) -> PieceMade:
    """Make a piece of a stage again, out of the shards of others, and compare its shards with those that are stored."""
    stored = _open(job.run, locate(job.output, piece.part), job.base)

    def make(_key: str) -> PieceMade:
        stage = STAGES[piece.stage].name
        with make_again(stored, stored.get(STAGES[stage]), piece.number) as (attempts, record):
            stems = {shard.facts.stem for shard in piece.shards}
            wrong = [
                one for shard in piece.shards for one in compare(stored.url, attempts, shard, record.shards).problems
            ]
            left = [shard.facts.place for shard in record.shards if shard.facts.stem not in stems]
            wrong += [f"{stage}/{place}: follows from its inputs, and is not there" for place in left]
            report_progress("read", piece.size_bytes)
            return PieceMade(_write(record), tuple(wrong))

    return _once(job, piece, PieceMade, lambda key: _told(piece.stage, lambda: make(key)))


def measure_piece(job: VerifyJob, piece: PieceToMake) -> PieceMade:
    """Measure what a stage was made from, as its row says."""
    work = WORK[piece.stage]
    assert isinstance(work, DerivedWork)
    assert work.measured is not None
    measure, stored = work.measured.measure, _open(job.run, locate(job.output, piece.part), job.base)
    return _once(
        job,
        piece,
        PieceMade,
        lambda _key: _told(piece.stage, lambda: PieceMade(_write(measure(stored, piece.number)), ())),
    )


def _told(stage: str, make: Callable[[], PieceMade]) -> PieceMade:
    try:
        return make()
    except TokError as error:
        return PieceMade("", (f"{stage}: {error}",))


def _write(record: Any) -> str:
    return write_canonical_json(to_jsonable(record)).decode()


def read_made(cls: type[T], made: PieceMade) -> T:
    """The record of a piece that was made again."""
    return from_jsonable(cls, json.loads(made.record), cls.__name__)


@functools.lru_cache(maxsize=2)
def _open(_run: str, url: str, base: str) -> Stored:
    return Stored(url, base=base)


# -------------------------------------------------------------------------------------------------------------- decode


def decode_documents(job: VerifyJob, piece: ItemsToDecode) -> ItemsDecoded:
    """Compare the documents of work items with their sources. Raises StageError for an input that changed."""

    def make(_key: str) -> ItemsDecoded:
        url = locate(job.output, piece.part)
        parts = _list_parts(job.run, url, piece.num_parts) if piece.num_parts else (piece.shards,)
        base = _open(job.run, url, job.base).base
        num, problems = decode_items(DecodeJob(url, base, piece.assignments, parts, piece.limit, piece.config))
        return ItemsDecoded(num, tuple(problems))

    return _once(job, piece, ItemsDecoded, make)


@functools.lru_cache(maxsize=1)
def _list_parts(_run: str, url: str, num_parts: int) -> tuple[tuple[ShardRef, ...], ...]:
    shards = list_item_shards(Stored(url).get(SHARDS))
    return tuple(tuple(shards.get(number, ())) for number in range(num_parts))
