"""Verification: an output is exactly what was committed, its parts agree, and its tokens are the source's text.

Three depths, each of which needs what the one before found sound: hashes of everything that is stored, and that the
manifests agree (`quick` stops here); what tokenizer, tables and shards say of each other, read out of the files
themselves; and, with `decode`, the pinned inputs, read again and compared document by document.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tokcore.count.token_counts import hash_content
from tokcore.errors import ConfigError, FormatError, TokError
from tokcore.files.jsonable import to_jsonable
from tokcore.tokenizer.tokenizer_spec import FILE_NAME
from tokcore_pipelines.build.commit import MANIFEST, RUN, find_written, get_path_below, require_output
from tokcore_pipelines.build.count_corpus import name_tables, recount_table
from tokcore_pipelines.build.dataset_card import CARD
from tokcore_pipelines.build.read_log import Log, locate_part
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.build.table import WORK, DerivedWork
from tokcore_pipelines.build.token_count_table import TOKEN_COUNTS, read_token_counts
from tokcore_pipelines.check.chain import Manifests, read_build, read_chain, read_manifests, require_commit
from tokcore_pipelines.check.recount import compare_manifests, recount, recount_as_said, require_whole
from tokcore_pipelines.check.sampled import Drawn, Sample, check_sizes, count_pieces, get_piece
from tokcore_pipelines.check.shards_made_again import compare, make_again
from tokcore_pipelines.check.verify_beside import CheckedBeside, check_beside
from tokcore_pipelines.check.verify_log import check_commit_card, check_kind, find_brought_back
from tokcore_pipelines.check.verify_order import Origins
from tokcore_pipelines.check.verify_shards import ShardSums, list_checks
from tokcore_pipelines.check.whole_files import check_files
from tokcore_pipelines.history.expire_commits import list_expired
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.progress import Phase, StageProgress
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import FOLDER, WATCHERS
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.decode_item import DecodeJob, decode_items
from tokcore_schemas.commit_log import PARTS, hash_parts, is_of_history, name_commit
from tokcore_schemas.manifest import AnyManifest, FileEntry
from tokcore_schemas.refs import TableRef
from tokcore_schemas.shard_entries import list_item_shards
from tokcore_schemas.shuffle import choose_num_parts
from tokcore_schemas.stage_manifests import ShardsManifest
from tokcore_schemas.stage_table import BUILD, COUNTS, REJECTED, SHARDS, STAGES, TOKENIZER, WHOLE

_OF_WATCHERS = f"{FOLDER}/{WATCHERS}/"
MANY_SHARDS = 10_000
_DECODED_TOGETHER = 1 << 21  # documents that a worker compares in one go, of shuffled shards


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What verification found; the output is sound if problems is empty."""

    problems: tuple[str, ...]
    root: str  # as recomputed from the manifests; empty if the build's cannot be read
    num_files: int
    size_bytes: int
    seconds: float
    num_read: int  # documents read out of the shards
    num_decoded: int  # documents compared with their source
    lossless: bool  # whether tokens give back their text; if not, the source was encoded again
    num_leftovers: int  # files of unfinished work, which `tokcore gc` removes
    totals: dict[str, Any]  # of the build, as JSON
    num_pieces: int = 0  # that a sample was drawn from; 0 if all was looked at
    num_drawn: int = 0
    seed: int = 0


class _How(NamedTuple):
    """What verify was asked for, the same for all parts of an output."""

    decode: int | None
    quick: bool
    base: str
    options: RunOptions
    progress: StageProgress
    workers: Workers  # for all parts
    sample: Sample | None


def verify(
    output: str,
    *,
    decode: int | None = 0,
    root: str = "",
    quick: bool = False,
    base: str = "",
    at: int | None = None,
    sample: Sample | None = None,
    options: RunOptions | None = None,
    progress: StageProgress | None = None,
) -> Report:
    """Check an output against its manifests, these against its content, and documents against their source.

    decode: how many documents of each part, spread over it; None for all. quick: hash what is stored, and no more.
    base: folder of the build file, against which relative input uris are resolved; only needed to decode. at: the
    number of a commit; None: the newest. Of other commits, only their files in the log are looked at.
    sample: the share of shards and count tables to look at; None for all. Of the others only sizes are compared, and
    sums over all of them are taken as they are said. Raises ConfigError if output, or the commit, does not exist.
    """
    started = time.monotonic()
    require_output(output)
    if sample is not None and decode is None:
        raise ConfigError("--sample: --decode all reads every source; give a number of documents")
    options, progress = options or RunOptions(), progress or StageProgress(-1)
    with progress.stage("look", minor=True):
        build, _ = first = read_build(output)
        if build is not None and build.totals.shards >= MANY_SHARDS:  # reading their manifest takes seconds
            progress.say(f"look       at what manifest.json names: {build.totals.shards:,} shards, and all other files")
        written = None if build is not None else _find_written(output)
        chain = read_chain(output, first)
        there = storage.list_tree(output)
    if written is not None and (decode != 0 or at is not None):
        raise ConfigError(f"{redact(output)}: WriteShards made it: it has no commits, and no sources to decode")
    log, problems, unread = chain.log, [*chain.breaks], [*chain.own.problems.values()]
    beside = check_beside(log, there, problems) if log is not None else CheckedBeside(frozenset(), 0, 0, 0)
    with contextlib.closing(Workers(options, ())) as workers:
        how = _How(decode, quick, base, options, progress, workers, sample)
        if written is not None:
            chain, problems = dataclasses.replace(chain, own=Manifests({SHARDS.name: written}, {})), []
        if log is None or unread or problems or (not log.commits and not at):
            apart = beside.paths
            if log is not None and log.commits:  # what the card says cannot be told, but whether it is a file
                apart |= {CARD}
                problems.extend(check_kind(output, CARD))
            found = _verify_part(output, chain.own, root, how, apart)
        else:
            require_commit(log, at)
            found = _verify_commit(log, at, chain.own, beside.paths, root, how)
            unnamed = {*_list_unnamed(log, there)}
            found = dataclasses.replace(found, num_leftovers=found.num_leftovers + len(unnamed))
    return dataclasses.replace(
        found,
        problems=tuple(dict.fromkeys([*problems, *found.problems])),
        num_files=found.num_files + beside.num_files,
        size_bytes=found.size_bytes + beside.size_bytes,
        num_leftovers=found.num_leftovers + beside.num_leftovers,
        seconds=time.monotonic() - started,
    )


def _find_written(output: str) -> ShardsManifest | None:
    """As find_written; None for what cannot be read, which is a problem found elsewhere."""
    with contextlib.suppress(TokError):
        return find_written(output)
    return None


def _list_unnamed(log: Log, there: Sequence[str]) -> Iterator[str]:
    """The files of parts that no commit that can be read names."""
    named = {part.path for part in log.reachable()}
    yield from (path for path in there if path.startswith(f"{PARTS}/") and "/".join(path.split("/")[:2]) not in named)
    yield from list_expired(log, there)


def _verify_commit(
    log: Log,
    at: int | None,
    own: Manifests,
    beside: frozenset[str],
    root: str,
    how: _How,
) -> Report:
    """As verify, of all parts of a commit. beside: paths of files that are of no build."""
    output = log.output
    problems = [*check_commit_card(log)] if at is None else []  # the card is of the newest commit
    parts, removed = [], log.tombstones(at)
    for part in log.parts(at):
        url = locate_part(output, part)
        with how.progress.stage("look", minor=True):
            of_part = own if url == output else read_manifests(url)
        apart = beside | {CARD} if url == output else frozenset[str]()
        made = _verify_part(url, of_part, "", how, apart)
        parts.append(made)
        prefix = "" if url == output else f"{part.path}/"
        if removed is not None and not how.quick and how.sample is None and not made.problems:
            problems.extend(f"{prefix}{found}" for found in find_brought_back(output, part, removed, how.workers))
        problems.extend(f"{prefix}{problem}" for problem in made.problems)
    found_root = hash_parts(log.parts(at))
    if root and found_root != root:
        problems.append(f"{name_commit(log.newest if at is None else at)}: its root is {found_root}, expected {root}")
    return Report(
        problems=tuple(problems),
        root=found_root,
        num_files=sum(made.num_files for made in parts) + log.newest,
        size_bytes=sum(made.size_bytes for made in parts),
        seconds=0,
        num_read=sum(made.num_read for made in parts),
        num_decoded=sum(made.num_decoded for made in parts),
        lossless=all(made.lossless for made in parts),
        num_leftovers=sum(made.num_leftovers for made in parts),
        totals=to_jsonable(log.totals(at) if at != 0 else log.build.totals),
        num_pieces=sum(made.num_pieces for made in parts),
        num_drawn=sum(made.num_drawn for made in parts),
        seed=how.sample.seed if how.sample is not None else 0,
    )


def _verify_part(output: str, made: Manifests, root: str, how: _How, apart: Collection[str]) -> Report:
    """As verify, of what one build made, or WriteShards. apart: paths of files that are not of this build any more."""
    started = time.monotonic()
    head = made.head
    # Without the build's, nothing vouches for the manifests of its stages.
    manifests = made.found if head is not None else {}
    problems = [*made.problems.values()] if manifests else [made.problems[BUILD]]
    entries = [(stage, entry) for stage, made in manifests.items() for entry in made.files]
    present = [path for path in storage.list_tree(output) if not is_of_history(path) and path not in apart]
    named = _check_names(manifests, head, entries, present, problems)
    drawn = Drawn({name: how.sample.draw(made) for name, made in manifests.items()}) if how.sample is not None else None
    every = [(stage, entry) for stage, entry in entries if stage != BUILD or entry.path not in apart]
    own = [(stage, entry) for stage, entry in every if drawn is None or drawn.has(stage, get_piece(entry))]
    if drawn is not None:
        left_out = [(stage, entry) for stage, entry in every if not drawn.has(stage, get_piece(entry))]
        problems.extend(check_sizes(output, left_out))
    size_bytes = sum(entry.size_bytes for _, entry in own)
    with how.progress.stage("hash", size_bytes, minor=True) as shown:
        for _, entry, wrong in check_files(output, own, how.options.num_workers):
            problems.extend(wrong)
            shown.advance(entry.size_bytes)
    found_root = (head.root or head.content_id()) if head is not None else ""
    if head is not None and root and found_root != root:
        problems.append(f"{get_path_below(head.stage, MANIFEST)}: its root is {found_root}, expected {root}")
    num_read = num_decoded = 0
    stored = Stored(output, manifests, how.base)
    if head is not None and not problems:
        num_read, num_decoded = _check_parts(stored, how, drawn, problems)
    return Report(
        problems=tuple(problems),
        root=found_root,
        num_files=len(named),
        size_bytes=sum(entry.size_bytes for _, entry in entries),
        seconds=time.monotonic() - started,
        num_read=num_read,
        num_decoded=num_decoded,
        lossless=bool(problems) or stored.is_lossless,
        num_leftovers=sum(path.startswith(f"{FOLDER}/") and not path.startswith(_OF_WATCHERS) for path in present),
        totals=to_jsonable(head.totals) if head is not None else {},
        num_pieces=count_pieces(manifests.values()) if drawn is not None else 0,
        num_drawn=sum(map(len, drawn.of.values())) if drawn is not None else 0,
        seed=how.sample.seed if how.sample is not None else 0,
    )


def _check_names(
    manifests: Mapping[str, AnyManifest],
    head: AnyManifest | None,
    entries: Sequence[tuple[str, FileEntry[Any]]],
    present: Sequence[str],
    problems: list[str],
) -> set[str]:
    """All paths that the manifests name, their own included; what is named twice or not at all becomes a problem."""
    if head is None:  # a problem already; what the others name is not known
        return {MANIFEST}
    unread = set(head.inputs) - set(manifests)
    named = {get_path_below(stage, MANIFEST) for stage in manifests}
    if head.stage != BUILD:
        named.add(get_path_below(TOKENIZER.name, FILE_NAME))
    for stage, entry in entries:
        path = get_path_below(stage, entry.path)
        if path in named:
            problems.append(f"{path}: named twice")
        named.add(path)
    for path in present:
        if path not in named and path.split("/")[0] not in unread and not may_be_unnamed(path):
            problems.append(f"{path}: no manifest names it")
    return named


def may_be_unnamed(path: str) -> bool:
    """Whether a file of an output, by its path, is none of verification's business: run.json, unfinished work."""
    parts = path.split("/")
    return path == RUN or parts[0] == FOLDER or (len(parts) == 2 and parts[0] in STAGES and parts[1] == RUN)


def _check_parts(stored: Stored, how: _How, drawn: Drawn | None, problems: list[str]) -> tuple[int, int]:
    """That manifests, tables, shards and sources agree; (documents read, documents compared with their source).

    Each check begins only if those before it found nothing.
    """
    num_read = num_decoded = 0
    try:
        if stored.find(WHOLE) is not None:
            require_whole(stored)
        else:
            stored.require_spec_inside()
        num_documents = stored.get(SHARDS).totals.records.documents
        with how.progress.stage("compare", minor=True):
            problems.extend(recount_as_said(stored, how.quick))
        if not how.quick and not problems:
            with how.progress.stage("read", num_documents, "documents", minor=True) as shown:
                num_read = _recount_content(stored, how.options, drawn, problems, shown)
        for name, work in WORK.items() if not how.quick else ():
            if name in stored.stages and isinstance(work, DerivedWork) and not problems:
                problems.extend(_make_again(stored, stored.stages[name], work, how, drawn))
        if not problems and how.decode != 0:
            wanted = num_documents if how.decode is None else how.decode
            with how.progress.stage("decode", wanted, "documents", minor=True) as shown:
                num_decoded = _decode(stored, how, problems, shown)
    except FormatError as error:
        problems.append(str(error))
    return num_read, num_decoded


def _recount_content(
    stored: Stored, options: RunOptions, drawn: Drawn | None, problems: list[str], shown: Phase
) -> int:
    """Read shards and count tables, and recount the manifests of them; how many documents there were.

    What was not drawn is taken as its manifest says.
    """
    counts, num_documents, sums = stored.find(COUNTS), stored.get(SHARDS).totals.records.documents, ShardSums()
    checks = [check for number, check in list_checks(stored) if drawn is None or drawn.has(SHARDS.name, number)]
    with ThreadPoolExecutor(options.num_workers) as threads, Origins(num_documents) as origins:
        for found in threads.map(lambda check: check(), checks):
            problems.extend(found.problems)
            sums.add(found)
            shown.advance(found.documents_of.total())
            origins.add(found.records)
        if origins.has_twice():
            problems.append("shards: a record is there twice, as the provenance files say")
        named = name_tables(counts) if counts is not None else []

        def read(table: TableRef) -> TableRef:
            is_drawn = drawn is None or drawn.has(COUNTS.name, table.file.path)
            return recount_table(stored.url, table) if is_drawn else table

        tables = [*threads.map(read, named)]
    held = sums.get() if drawn is None else sums.get().within(stored.get(SHARDS))
    records = {SHARDS.name: held, COUNTS.name: tables, REJECTED.name: sums.documents_of if drawn is None else None}
    for name, made in stored.stages.items() if not problems else ():
        if name in records:
            problems.extend(recount(stored, made, records[name]))
    if drawn is None and not problems and hash_content(read_token_counts(stored.url)) != held.token_counts:
        problems.append(f"{SHARDS.name}/{TOKEN_COUNTS}: its counts are not those of the shards")
    return sums.documents_of.total()


def _make_again(stored: Stored, made: AnyManifest, work: DerivedWork, how: _How, drawn: Drawn | None) -> Iterator[str]:
    """Make all pieces of a stage again, out of the shards of others, and compare all of their files and their sums.

    The files are known to be those that were committed. A piece is removed again once it is compared.
    """
    stage, shards = STAGES[made.stage], list_item_shards(made)

    def make(number: int) -> tuple[Any, list[str]]:
        with make_again(stored, made, number) as (attempts, record):
            own, stems = shards.get(number, []), {shard.facts.stem for shard in shards.get(number, [])}
            wrong = [one for shard in own for one in compare(stored.url, attempts, shard, record.shards).problems]
            left = [shard.facts.place for shard in record.shards if shard.facts.stem not in stems]
            return record, [
                *wrong,
                *(f"{stage.name}/{place}: follows from its inputs, and is not there" for place in left),
            ]

    total = sum(shard.facts.documents for own in shards.values() for shard in own)
    with (
        how.progress.stage(work.title, total, stage.nouns, minor=True) as shown,
        ThreadPoolExecutor(how.options.num_workers) as threads,
    ):
        try:
            records, num = [], work.count(stored)
            numbers = [number for number in range(num) if drawn is None or drawn.has(made.stage, number)]
            for record, wrong in threads.map(make, numbers):
                records.append(record)
                yield from wrong
                shown.advance(sum(shard.facts.documents for shard in record.shards))
            totals, languages = made.totals, made.languages
            if drawn is None:
                totals, languages = work.sum_up(stored, records, threads.map)
        except TokError as error:
            yield f"{stage.name}: {error}"
            return
    for place in [shard.facts.place for number in sorted(shards.keys() - range(num)) for shard in shards[number]]:
        yield f"{stage.name}/{place}: its inputs give no such shard"
    yield from compare_manifests(made, dataclasses.replace(made, totals=totals, languages=languages))


def _decode(stored: Stored, how: _How, problems: list[str], shown: Phase) -> int:
    """Compare documents with their sources; how many were. Spreads a limited number over the work items."""
    plan, made, options = stored.plan, stored.get(SHARDS), how.options
    shards = list_item_shards(made)
    limit = None if how.decode is None else -(-how.decode // max(1, len(plan.items)))
    config = made.config
    is_shuffled = config.shuffle is not None
    num_tokens = made.totals.tokens
    num_parts = choose_num_parts(num_tokens, config.target_tokens) if is_shuffled else len(plan.items)
    parts = tuple(tuple(shards.get(i, ())) for i in range(num_parts))
    # Documents of a work item are in all parts of a shuffle. So a worker opens these once, for many work items.
    num_documents = made.totals.records.documents
    num_jobs = max(options.num_workers, -(-num_documents // _DECODED_TOGETHER)) if is_shuffled else len(plan.items)
    jobs = [
        DecodeJob(
            stored.url,
            stored.base,
            tuple(plan.assignment(item) for item in plan.items[number::num_jobs]),
            parts if is_shuffled else (parts[number],),
            limit,
            config,
        )
        for number in range(min(num_jobs, len(plan.items)))
    ]
    num_decoded = 0
    pool = how.workers.start()
    calls = ((decode_items, (job,)) for job in jobs)
    looked = pool.run_all(calls) if pool is not None else enumerate(map(decode_items, jobs))
    told: dict[int, list[str]] = {}
    for number, (compared, found) in looked:
        told[number] = found
        num_decoded += compared
        shown.advance(compared)
    problems.extend(problem for number in sorted(told) for problem in told[number])
    return num_decoded


def describe_problems(problems: Sequence[str], limit: int = 20) -> list[str]:
    """The first problems, a line each, and how many more there are."""
    return [*problems[:limit], *([f"... and {len(problems) - limit} more"] if len(problems) > limit else [])]
