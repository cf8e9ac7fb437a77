"""What a worker does to pack a group: read documents from the shards of the build, and write rows. No Beam.

Rows are documents of one length to the formats. The shards of a group are closed like others, once they reach the
target; a record carries the result.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tokcore.formats.pieces import Pieces, PiecesFile, PiecesWriter, get_pieces_path
from tokcore.formats.shard_facts import ShardFacts
from tokcore.shards.token_batch import TokenBatch
from tokcore.train.packed_rows import PackSettings, Part, RowBatch, fill_gaps, make_rows
from tokcore_pipelines.local.free_memory import freeing_memory
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.stored_shards import copy_shard_if_remote
from tokcore_pipelines.work.derived_shards import ShardSource, list_shards_by_item, require_file
from tokcore_pipelines.work.encode_job import ShardJob
from tokcore_pipelines.work.inherit_item import take_over_files
from tokcore_pipelines.work.new_shard import NewShard, ShardSequence, begin_facts
from tokcore_pipelines.work.read_shards import read_shard
from tokcore_pipelines.work.row_gaps import OwnGaps, cut_gaps, read_gaps
from tokcore_schemas.gaps import Gaps
from tokcore_schemas.pack_groups import list_groups, list_streams, list_windows
from tokcore_schemas.refs import GroupPacked, PackedSums, PackGroup, ShardRef, spell_shard_name
from tokcore_schemas.stage_manifests import PackedConfig


class PackedBefore(NamedTuple):
    """The rows of the part whose place this one takes, made in the same way."""

    source: ShardSource  # what they were made from
    rows: ShardSource  # they themselves

    @property
    def config(self) -> PackedConfig:
        """How they were packed."""
        config: PackedConfig = self.rows.read_manifest().config
        return config


@dataclasses.dataclass(frozen=True, slots=True)
class PackJob(ShardJob[PackedConfig]):
    """What every worker of the stage needs to know."""

    source: ShardSource
    padding: int  # id that fills rows
    result_key: str
    before: PackedBefore | None = None  # what may be taken over
    gaps: str = ""  # URL of the file of documents that were removed, and whose place is kept; empty: none is

    @property
    def rows(self) -> PackSettings:
        """How rows are made."""
        config = self.config
        return PackSettings(config.length, config.strategy, config.cut, config.last == "keep", self.padding)


def make_group_key(group: int) -> str:
    """The record key of a group."""
    return f"packed-{group:05d}"


@freeing_memory
def pack_group(job: PackJob, group: PackGroup) -> GroupPacked:
    """Write the rows of a group. Raises ConfigError for a document that may not be cut and is longer than a row."""
    key = make_group_key(group.number)
    if (done := job.attempts.result(key, GroupPacked)) is not None:
        return done
    if (taken := _take_over_group(job, group)) is not None:
        return job.attempts.record(key, taken)
    with contextlib.ExitStack() as stack:

        def begin(number: int) -> _RowShard:
            stream = (group.folder, group.split)
            return _RowShard(job, begin_facts(stream, group.number, number, job.result_key), stack)

        shards, sums = ShardSequence[_RowShard, ShardRef](job.config.target_tokens, begin), PackedSums(0, 0, 0, 0, 0, 0)
        for batch in iterate_group(job, group):
            sums += sum_up(batch, job.config.length)
            shards.write(batch, batch.rows.offsets)
        packed = GroupPacked(group.number, tuple(shards.close()), sums)
    reach("pack.group")
    return job.attempts.record(key, packed)


# ----------------------------------------------------------------------------------------------------------- taken over


class _Stretch(NamedTuple):
    """Some of a shard of the stream: what determines the rows that are made of it."""

    place: str
    content_sha256: str
    start: int  # of documents, or of ids where documents are concatenated
    end: int


def describe_group(config: PackedConfig, own: Sequence[_Own], group: PackGroup) -> tuple[object, ...]:
    """What determines the rows of a group under equal settings. own: the shards of its stream."""
    stretches = []
    for one in own:
        assert one.shard is not None  # nothing is taken over where there are gaps
        facts = one.shard.facts
        if config.strategy == "concatenate":  # an empty document at an end may belong to either group
            first, num = one.first_token, facts.tokens
            touches = first <= group.end and group.start <= first + num
        else:
            first, num = one.first_document, facts.documents
            touches = first < group.end and group.start < first + num
        if touches:
            stretches.append(_Stretch(facts.place, one.shard.content_sha256, group.start - first, group.end - first))
    return group.folder, group.split, group.end - group.start, group.is_last, *stretches


@functools.lru_cache(maxsize=1)
def _index_before(before: PackedBefore) -> dict[tuple[object, ...], int]:
    """What determines the rows of each group of the part before -> its number there."""
    shards, config = before.source.list_shards(), before.config
    streams = {key: list_own(own) for key, own in list_streams(shards).items()}
    groups = list_groups(shards, config)
    return {describe_group(config, streams[one.folder, one.split], one): one.number for one in groups}


def _take_over_group(job: PackJob, group: PackGroup) -> GroupPacked | None:
    """A group out of the part before, if that has one of the same documents; else None.

    Raises StageError if its rows are damaged.
    """
    if job.before is None:
        return None
    number = _index_before(job.before).get(describe_group(job.config, _list_own(job, group), group))
    if number is None:
        return None
    rows, taken, sums = job.before.rows, [], PackedSums(0, 0, 0, 0, 0, 0)
    for shard in list_shards_by_item(rows).get(number, []):
        for _ in read_shard(rows.output, shard, rows.stage):
            pass
        require_file(rows, shard, get_pieces_path(shard.facts.stem))
        with copy_shard_if_remote(rows.output, shard, rows.stage) as folder:
            pieces = PiecesFile(f"{folder}/{get_pieces_path(shard.facts.stem)}").read()
            sums += _sum_up_pieces(pieces, shard.facts.documents, shard.facts.tokens, job.config.length)
            name = spell_shard_name(group.split, group.number, int(shard.facts.shard.rpartition("-")[2]))
            taken.append(
                take_over_files(
                    *(job.attempts, rows.output, folder, group.number, shard, name, job.result_key), rows.stage
                )
            )
        reach("inherit.shard")
    job.attempts.sync()
    return GroupPacked(group.number, tuple(taken), sums)


# --------------------------------------------------------------------------------------------------------------- packed


def iterate_group(job: PackJob, group: PackGroup) -> Iterator[RowBatch]:
    """The rows of a group, in order, each window's numbered from 0."""
    own = _list_own(job, group)
    rows = job.rows
    if rows.strategy == "concatenate":
        yield from make_rows(_read_ids(job, own, group.start, group.end), rows, group.is_last)
        return
    windows = list_windows(group)
    for window in windows:
        is_last = group.is_last and window == windows[-1]
        yield from make_rows(_read_documents(job, own, *window), rows, is_last)


class _Own(NamedTuple):
    """A shard of the group's stream, with the gaps before and between its documents."""

    shard: ShardRef | None  # None: of no shard, but gaps that are the whole stream
    first_document: int
    first_token: int
    gaps: OwnGaps
    num_documents: int
    num_tokens: int

    @property
    def end_document(self) -> int:
        return self.first_document + self.num_documents

    @property
    def end_token(self) -> int:
        return self.first_token + self.num_tokens


def _list_own(job: PackJob, group: PackGroup) -> list[_Own]:
    """The shards of the stream. Raises StageError if the manifest is not the one that the stage was started with."""
    stream = (group.folder, group.split)
    shards = list_streams(job.source.list_shards(), [stream])[stream]
    return list_own(shards, read_gaps(job.gaps).get(stream) if job.gaps else None)


def list_own(shards: Sequence[ShardRef], of_stream: Gaps | None = None) -> list[_Own]:
    """The shards of a stream, and where each begins. of_stream: documents whose place is kept."""
    gaps = cut_gaps(of_stream, [one.facts.documents for one in shards])
    own, documents, tokens = [], 0, 0
    held: list[ShardRef | None] = [*shards] if shards else [None]
    for shard, gone in zip(held, gaps, strict=True):
        sizes = (shard.facts.documents, shard.facts.tokens) if shard is not None else (0, 0)
        num_documents, num_tokens = sizes[0] + len(gone.lengths), sizes[1] + sum(gone.lengths)
        own.append(_Own(shard, documents, tokens, gone, num_documents, num_tokens))
        documents, tokens = documents + num_documents, tokens + num_tokens
    return own


def _read_parts(job: PackJob, own: _Own) -> Iterator[Part]:
    """All documents of a shard, in order, and padding in the place of those that were removed."""
    before, lengths = own.gaps
    first = gap = 0  # documents, and gaps, that came
    for batch in job.source.read_batches(own.shard) if own.shard is not None else ():
        assert own.shard is not None
        documents = Part(own.shard.facts.place, first, batch)
        at, end = 0, batch.num_documents
        while gap < len(before) and before[gap] < first + end:
            place, last = before[gap] - first, bisect.bisect_right(before, before[gap], gap)
            if at < place:
                yield documents.slice(at, place)
            yield fill_gaps(lengths[gap:last], job.padding)
            at, gap = place, last
        if at < end:
            yield documents.slice(at, end)
        first += end
    if gap < len(before):
        yield fill_gaps(lengths[gap:], job.padding)


def _read_documents(job: PackJob, own: Sequence[_Own], start: int, end: int) -> Iterator[Part]:
    """Documents start to end of the stream, end excluded."""
    for one in own:
        if one.first_document >= end or one.end_document <= start:
            continue
        at = one.first_document
        for part in _read_parts(job, one):
            low, high = max(start - at, 0), min(end - at, part.batch.num_documents)
            if low < high:
                yield part.slice(low, high)
            at += part.batch.num_documents
            if at >= end:
                break


def _read_ids(job: PackJob, own: Sequence[_Own], start: int, end: int) -> Iterator[Part]:
    """The documents that have ids from start to end of the stream, cut there; end excluded.

    An empty document is where the id before it is.
    """
    for one in own:
        if one.first_token > end or one.end_token < start:
            continue
        at = one.first_token
        for part in _read_parts(job, one):
            batch = part.batch
            begins = batch.offsets[:-1] - batch.offsets[0] + at
            ends = batch.offsets[1:] - batch.offsets[0] + at
            places = np.maximum(begins - 1, 0)
            wanted = np.where(ends > begins, (ends > start) & (begins < end), (places >= start) & (places < end))
            if len(where := np.flatnonzero(wanted)):
                low, high = int(where[0]), int(where[-1]) + 1
                skipped = max(start - int(begins[low]), 0)
                some = part.slice(low, high)
                yield some._replace(batch=_cut_end(some.batch, int(ends[high - 1]) - end), skipped=skipped)
            at = int(ends[-1]) if len(ends) else at
            if at > end:
                break


def _cut_end(batch: TokenBatch, num: int) -> TokenBatch:
    """Return the batch without its last num ids, which all belong to its last document. num <= 0: all of it."""
    if num <= 0:
        return batch
    offsets = batch.offsets.copy()
    offsets[-1] -= num
    return batch._replace(offsets=offsets)


def sum_up(rows: RowBatch, length: int) -> PackedSums:
    """What is in some rows. length: ids of a full row."""
    return _sum_up_pieces(rows.pieces, rows.rows.num_documents, rows.rows.num_tokens, length)


def _sum_up_pieces(pieces: Pieces, num_rows: int, num_ids: int, length: int) -> PackedSums:
    gone = pieces.are_gaps
    tokens = int(pieces.lengths[~gone].sum())
    begin = pieces.starts == 0
    # Of a document that is cut, this is the second piece alone.
    cut = int(((pieces.starts > 0) & (pieces.starts <= length) & ~gone).sum())
    return PackedSums(
        num_rows,
        int((begin & ~gone).sum()),
        int((~gone).sum()),
        cut,
        tokens,
        num_ids - tokens,
        int((begin & gone).sum()),
        int(pieces.lengths[gone].sum()),
    )


class _RowShard:
    """One shard of rows, and its pieces file."""

    def __init__(self, job: PackJob, empty: ShardFacts, stack: contextlib.ExitStack) -> None:
        pieces = functools.partial(PiecesWriter, length=job.config.length, compression=job.settings.compression)
        self._shard = NewShard(job, empty, stack, (get_pieces_path(empty.stem), pieces))

    @property
    def num_tokens(self) -> int:
        return self._shard.num_tokens

    def write(self, batch: RowBatch) -> None:
        batch = number_rows(batch, self._shard.num_documents)
        self._shard.write(batch.rows)
        self._shard.beside.write(batch.pieces)

    def close(self) -> ShardRef:
        shard = self._shard.close()
        reach("pack.shard")
        return shard


def number_rows(batch: RowBatch, first: int) -> RowBatch:
    """The same rows with the numbers that they have in a shard. first: number of the first one."""
    num = batch.rows.num_documents
    rows = batch.rows._replace(ordinals=np.arange(first, first + num, dtype=np.int64))
    numbers = np.repeat(np.arange(first, first + num, dtype=np.int64), np.diff(batch.bounds))
    return batch._replace(rows=rows, pieces=batch.pieces._replace(rows=numbers))
