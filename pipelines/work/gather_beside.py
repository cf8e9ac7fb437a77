"""What a worker does to make a part of a shuffle out of the shards of the part before and what is new. No Beam.

Each folder and split is a sequence of shards, cut where the target is reached. So a document that comes or goes changes
the shard that it is in, and those after it in its part of the shuffle, until a shard happens to begin where one began
before. All other shards are taken over: on a disk as another name of the same bytes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokcore_pipelines.local.free_memory import freeing_memory
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.stored_shards import copy_shard_if_remote
from tokcore_pipelines.work.derived_shards import list_shards_by_item
from tokcore_pipelines.work.encode_job import EncodeJob, Stream
from tokcore_pipelines.work.gather_part import (
    STEP_DOCUMENTS,
    STEP_TOKENS,
    WRITTEN_DOCUMENTS,
    find_within,
    list_buckets,
    make_part_key,
    record_part,
)
from tokcore_pipelines.work.inherit_item import take_over_files
from tokcore_pipelines.work.item_results import read_records
from tokcore_pipelines.work.ordered_shards import OrderedShards
from tokcore_pipelines.work.scattered_runs import Scattered, join_scattered, read_scattered
from tokcore_pipelines.work.shard_attempt import EncodedDocuments
from tokcore_pipelines.work.shard_streams import ShardStreams
from tokcore_pipelines.work.survey_shards import Before, find_before, make_surveyed_key
from tokcore_schemas.refs import (
    PartGathered,
    PartSurveyed,
    ShardEncoded,
    ShardRef,
    ShardSurveyed,
    ShufflePart,
    spell_shard_name,
)
from tokcore_schemas.shuffle import get_heads, get_interval

Heads = npt.NDArray[np.uint64]


class _Old(NamedTuple):
    """A shard of the part before."""

    shard: ShardRef
    surveyed: ShardSurveyed

    @property
    def first(self) -> int:
        """The head of its first document."""
        return int(self.surveyed.first[:16], 16)

    @property
    def last(self) -> int:
        return int(self.surveyed.last[:16], 16)


@freeing_memory
def gather_beside(job: EncodeJob, part: ShufflePart) -> PartGathered:
    """Write the shards of a part, or take them over. Raises LedgerError if a run is not as the first pass wrote it."""
    key = make_part_key(part.number)
    if (done := job.attempts.result(key, PartGathered)) is not None:
        return done
    before = find_before(job.attempts)
    with contextlib.ExitStack() as stack:
        # Nothing is recorded on the way: most of a part is taken over, or written in one go.
        streams = ShardStreams(job, part.number, part.result_key, stack, resumes=False)
        ordered = stack.enter_context(contextlib.closing(OrderedShards(before.source, before.facts.num_parts)))
        own = _open_streams(job, part, before, ordered, streams)
        for low, high in _make_steps(part, own.values()):
            new = _read_new(job, part, low, high)
            for stream, documents in _deal(streams, new).items() if new is not None else ():
                own[stream].waiting = documents
            for one in own.values():
                one.go_to(high)
        job.attempts.sync()
        return record_part(job, part.number, streams)


def _open_streams(
    job: EncodeJob, part: ShufflePart, before: Before, ordered: OrderedShards, streams: ShardStreams
) -> dict[Stream, _StreamBeside]:
    """All folders and splits that have documents in the part."""
    old = defaultdict[Stream, list[_Old]](list)
    for one in _list_old(job, part, before):
        old[one.shard.facts.folder, one.shard.facts.split].append(one)
    new = _find_new_heads(job, part, streams)
    return {
        stream: _StreamBeside(job, part, before, ordered, streams, stream, old[stream], new.get(stream))
        for stream in sorted({*old, *new})
    }


def _list_old(job: EncodeJob, part: ShufflePart, before: Before) -> Iterator[_Old]:
    """The shards that have documents of the part, in the order of places within each folder and split."""
    start, end = get_interval(part.number, part.num_parts)
    num, of = before.facts.num_parts, part.num_parts
    numbers = range(part.number * num // of, max(part.number * num // of + 1, (part.number + 1) * num // of))
    surveyed = read_records(job.attempts, map(make_surveyed_key, numbers), PartSurveyed)
    shards = list_shards_by_item(before.source)
    for number, looked_at in zip(numbers, surveyed, strict=True):
        for found in map(_Old, shards.get(number, []), looked_at.shards):
            if found.first < end and start <= found.last:
                yield found


def _iterate_new(job: EncodeJob, part: ShufflePart) -> Iterator[Scattered]:
    """New documents of the part, in no order."""
    start, end = get_interval(part.number, part.num_parts)
    for run in part.runs:
        for documents in read_scattered(job.attempts, run):
            first, last = find_within(documents, start, end)
            if last > first:
                yield documents.slice(first, last)


def _find_new_heads(job: EncodeJob, part: ShufflePart, streams: ShardStreams) -> dict[Stream, Heads]:
    """The heads of the new documents of each folder and split, in order."""
    found = defaultdict[Stream, list[Heads]](list)
    for documents in _iterate_new(job, part):
        for stream, own in _deal(streams, documents).items():
            found[stream].append(get_heads(own.places))
    return {stream: np.sort(np.concatenate(heads)) for stream, heads in found.items()}


def _deal(streams: ShardStreams, documents: Scattered) -> dict[Stream, Scattered]:
    """The documents of each folder and split, in order."""
    splits = ["validation" if one else "train" for one in documents.is_validation.tolist()]
    where = defaultdict[Stream, list[int]](list)
    for i, stream in enumerate(streams.of(documents.tokens.langs, splits, documents.tokens.metadata)):
        where[stream].append(i)
    return {stream: documents.take(np.array(own, np.int64)) for stream, own in where.items()}


def _make_steps(part: ShufflePart, streams: Iterable[_StreamBeside]) -> list[tuple[int, int]]:
    """The part in intervals of heads, whose documents fit into memory."""
    start, end = get_interval(part.number, part.num_parts)
    facts = [one.shard.facts for stream in streams for one in stream.old]
    tokens = sum(run.tokens for run in part.runs) + sum(one.tokens for one in facts)
    documents = sum(run.documents for run in part.runs) + sum(one.documents for one in facts)
    num = max(1, -(-tokens // STEP_TOKENS), -(-documents // STEP_DOCUMENTS))
    bounds = [start + (end - start) * i // num for i in range(num + 1)]
    return [*itertools.pairwise(bounds)]


def _read_new(job: EncodeJob, part: ShufflePart, low: int, high: int) -> Scattered | None:
    """New documents with heads from low to high, end excluded, in order."""
    buckets = {*list_buckets(low, high, part.num_buckets)}
    found = []
    for run in part.runs:
        if run.run.partition in buckets:
            for documents in read_scattered(job.attempts, run):
                first, last = find_within(documents, low, high)
                found.append(documents.slice(first, last))
    return join_scattered(found).sort() if found else None


class _StreamBeside:
    """The documents of a folder and split in a part, old and new, on their way to shards."""

    def __init__(
        self,
        job: EncodeJob,
        part: ShufflePart,
        before: Before,
        ordered: OrderedShards,
        streams: ShardStreams,
        stream: Stream,
        old: Sequence[_Old],
        new: Heads | None,
    ) -> None:
        """old: shards, in order. new: the heads of new documents, in order."""
        self._job, self._part, self._before, self._ordered = job, part, before, ordered
        self._streams, self._stream = streams, stream
        self.old = old
        self._next = deque(range(len(old)))  # those of which nothing was read or taken over
        self._reading: list[_Old] = []
        self._new = np.zeros(0, np.uint64) if new is None else new
        self._at = get_interval(part.number, part.num_parts)[0]
        self.waiting: Scattered | None = None  # new documents from here to the end of the step

    def go_to(self, high: int) -> None:
        """Write, or take over, all documents with heads below this one."""
        while True:
            following = self._next[0] if self._next and self.old[self._next[0]].first < high else None
            self._write_to(high if following is None else self.old[following].first)
            if following is None:
                break
            self._next.popleft()
            one = self.old[following]
            if self._can_take_over(following):
                self._streams.take_over(self._stream, functools.partial(self._take_over, one))
                self._at = one.last + 1
            else:
                self._reading.append(one)
        self.waiting = None

    def _can_take_over(self, place: int) -> bool:
        """Whether the shard that begins here is one of the part before, document by document."""
        one = self.old[place]
        after = self.old[place + 1].first if place + 1 < len(self.old) else None
        is_full = one.shard.facts.tokens >= self._job.config.target_tokens
        # Documents with equal places, which are copies of one, might belong on either side of an end.
        is_apart = (place == 0 or self.old[place - 1].last < one.first) and (after is None or one.last < after)
        first_new = int(np.searchsorted(self._new, np.uint64(one.first), side="left"))
        next_new = int(np.searchsorted(self._new, np.uint64(one.last), side="right"))
        return (
            one.surveyed.whole is not None
            and not self._streams.is_open(self._stream)
            and self._part.num_parts == self._before.facts.num_parts  # else parts end elsewhere, and shards with them
            and is_apart
            and first_new == next_new
            and (is_full or (after is None and next_new == len(self._new)))
        )

    def _take_over(self, one: _Old, number: int) -> ShardEncoded:
        whole = one.surveyed.whole
        assert whole is not None
        output, facts = self._before.source.output, one.shard.facts
        name = spell_shard_name(facts.split, self._part.number, number)
        with copy_shard_if_remote(output, one.shard) as folder:
            shard = take_over_files(
                self._job.attempts, output, folder, self._part.number, one.shard, name, self._part.result_key
            )
        reach("inherit.shard")
        return dataclasses.replace(whole, shard=shard)

    def _write_to(self, limit: int) -> None:
        """Write the documents with heads from here to the limit, end excluded."""
        if limit <= self._at:
            return
        found = []
        if self.waiting is not None:
            first, last = find_within(self.waiting, self._at, limit)
            found.append(self.waiting.slice(first, last))
        for one in self._reading:
            for batch, places in self._ordered.read_shard(one.shard, self._at, limit):
                stays = np.flatnonzero(~self._before.mark_leaving(batch))
                is_validation = np.full(len(places), one.shard.facts.split == "validation")
                # Pre-tokens follow from the sums of the part before.
                found.append(Scattered(batch, np.zeros(len(places), np.int64), is_validation, places).take(stays))
        self._reading = [one for one in self._reading if one.last >= limit]
        self._at = limit
        if not found:
            return
        documents = join_scattered(found).sort()
        num = len(documents.places)
        if num:
            self._streams.unfinished([self._stream])
        # A few at a time, because writers copy what they get.
        for first in range(0, num, WRITTEN_DOCUMENTS):
            some = documents.slice(first, min(first + WRITTEN_DOCUMENTS, num))
            encoded = EncodedDocuments(some.tokens, some.pretokens, some.places)
            self._streams.write(encoded, [self._stream] * len(some.places))
