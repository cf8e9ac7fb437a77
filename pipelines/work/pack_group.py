"""What a worker does to pack a group: read documents from the shards of the build, and write rows. No Beam.

Rows are documents of one length to the formats. The shards of a group are closed like others, once they reach the
target; a record carries the result.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tokcore.formats.pieces import PiecesWriter, get_pieces_path
from tokcore.formats.shard_facts import ShardFacts
from tokcore.shards.token_batch import TokenBatch
from tokcore.train.packed_rows import PackSettings, Part, RowBatch, make_rows
from tokcore_pipelines.local.free_memory import freeing_memory
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.work.derived_shards import ShardSource
from tokcore_pipelines.work.encode_job import ShardJob
from tokcore_pipelines.work.new_shard import NewShard, ShardSequence, begin_facts
from tokcore_schemas.pack_groups import list_streams, list_windows
from tokcore_schemas.refs import GroupPacked, PackedSums, PackGroup, ShardRef
from tokcore_schemas.stage_manifests import PackedConfig


@dataclasses.dataclass(frozen=True, slots=True)
class PackJob(ShardJob[PackedConfig]):
    """What every worker of the stage needs to know."""

    source: ShardSource
    padding: int  # id that fills rows
    result_key: str

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
    """A shard of the group's stream."""

    shard: ShardRef
    first_document: int
    first_token: int


def _list_own(job: PackJob, group: PackGroup) -> list[_Own]:
    """The shards of the stream. Raises StageError if the manifest is not the one that the stage was started with."""
    shards = list_streams(job.source.list_shards())[group.folder, group.split]
    own, documents, tokens = [], 0, 0
    for shard in shards:
        own.append(_Own(shard, documents, tokens))
        documents, tokens = documents + shard.facts.documents, tokens + shard.facts.tokens
    return own


def _read_documents(job: PackJob, own: Sequence[_Own], start: int, end: int) -> Iterator[Part]:
    """Documents start to end of the stream, end excluded."""
    for one in own:
        if one.first_document >= end or one.first_document + one.shard.facts.documents <= start:
            continue
        at = one.first_document
        for batch in job.source.read_batches(one.shard):
            low, high = max(start - at, 0), min(end - at, batch.num_documents)
            if low < high:
                yield Part(one.shard.facts.place, at - one.first_document + low, batch.slice(low, high))
            at += batch.num_documents
            if at >= end:
                break


def _read_ids(job: PackJob, own: Sequence[_Own], start: int, end: int) -> Iterator[Part]:
    """The documents that have ids from start to end of the stream, cut there; end excluded.

    An empty document is where the id before it is.
    """
    for one in own:
        if one.first_token > end or one.first_token + one.shard.facts.tokens < start:
            continue
        at, row = one.first_token, 0
        for batch in job.source.read_batches(one.shard):
            begins = batch.offsets[:-1] - batch.offsets[0] + at
            ends = batch.offsets[1:] - batch.offsets[0] + at
            places = np.maximum(begins - 1, 0)
            wanted = np.where(ends > begins, (ends > start) & (begins < end), (places >= start) & (places < end))
            if len(where := np.flatnonzero(wanted)):
                low, high = int(where[0]), int(where[-1]) + 1
                skipped = max(start - int(begins[low]), 0)
                some = _cut_end(batch.slice(low, high), int(ends[high - 1]) - end)
                yield Part(one.shard.facts.place, row + low, some, skipped)
            at, row = int(ends[-1]) if len(ends) else at, row + batch.num_documents
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
    pieces, num = rows.pieces, rows.rows.num_documents
    tokens = int(pieces.lengths.sum())
    documents = int((pieces.starts == 0).sum())
    # Of a document that is cut, this is the second piece alone.
    cut = int(((pieces.starts > 0) & (pieces.starts <= length)).sum())
    return PackedSums(num, documents, len(pieces.rows), cut, tokens, rows.rows.num_tokens - tokens)


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
