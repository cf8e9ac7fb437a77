"""What a worker does in the second pass of a shuffle: sort the documents of one part, and write its shards.

A part is an interval of places. It is sorted in steps, each of which fits into memory. No Beam.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tokcore_pipelines.local.free_memory import freeing_memory
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.work.encode_job import EncodeJob
from tokcore_pipelines.work.hashed_documents import add_up_hashed
from tokcore_pipelines.work.language_totals import add_up_languages
from tokcore_pipelines.work.scatter_item import scatter_item
from tokcore_pipelines.work.scattered_runs import Scattered, join_scattered, read_scattered
from tokcore_pipelines.work.shard_attempt import EncodedDocuments
from tokcore_pipelines.work.shard_streams import ShardStreams
from tokcore_pipelines.work.token_count_runs import write_id_run
from tokcore_schemas.packed_rows import PackedRows, Row
from tokcore_schemas.plan import Plan
from tokcore_schemas.refs import ItemScattered, PartGathered, RunRef, ScatteredRun, ShufflePart
from tokcore_schemas.shuffle import SPAN, choose_num_buckets, get_heads, get_interval

# Ids that are sorted at a time: 128 MB, and about as much again while they are put in order.
STEP_TOKENS = 1 << 25
STEP_DOCUMENTS = 1 << 20

WRITTEN_DOCUMENTS = 4096


def make_part_key(part: int) -> str:
    """The record key of a part of the second pass."""
    return f"part-{part:05d}"


class DealtRuns:
    """The runs of a first pass, by bucket: very many, so they are packed."""

    def __init__(self) -> None:
        self.tokens = 0  # in all of them
        self._buckets: dict[int, PackedRows[ScatteredRun]] = {}

    def add(self, item: ItemScattered) -> None:
        """Take in the runs of the next work item."""
        for run in item.runs:
            self.tokens += run.tokens
            self._buckets.setdefault(run.run.partition, PackedRows(_flatten, _build)).append(run)

    def list_runs(self, bucket: int) -> Iterable[ScatteredRun]:
        """Those of a bucket, in the order of work items."""
        return self._buckets.get(bucket, ())


def flatten_run(run: RunRef) -> Row:
    """A run as JSON values: RunRef(*row) is equal to it."""
    return [run.key, run.partition, run.attempt, run.offset, run.size_bytes, run.sha256]


def _flatten(run: ScatteredRun) -> Row:
    return [*flatten_run(run.run), run.documents, run.tokens]


def _build(*row: Any) -> ScatteredRun:
    return ScatteredRun(RunRef(*row[:-2]), *row[-2:])


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the second pass, each made when it is asked for, with the runs that hold its documents."""

    num: int
    num_buckets: int
    result_key: str  # of the shards
    runs: DealtRuns

    def __len__(self) -> int:
        return self.num

    def __iter__(self) -> Iterator[ShufflePart]:
        return map(self.make, range(self.num))

    def make(self, number: int) -> ShufflePart:
        """The part of that number."""
        buckets = _find_buckets(number, self.num, self.num_buckets)
        own = tuple(run for bucket in buckets for run in self.runs.list_runs(bucket))
        return ShufflePart(number, self.num, self.num_buckets, self.result_key, own)


def _find_buckets(number: int, num_parts: int, num_buckets: int) -> range:
    """The buckets that a part has documents of."""
    first = number * num_buckets // num_parts
    return range(first, max(first + 1, (number + 1) * num_buckets // num_parts))


@freeing_memory
def gather_part(job: EncodeJob, part: ShufflePart) -> PartGathered:
    """Write the shards of a part. Shards that an interrupted attempt finished are kept.

    Raises LedgerError if a run is not as the first pass wrote it.
    """
    key = make_part_key(part.number)
    if (done := job.attempts.result(key, PartGathered)) is not None:
        return done
    with contextlib.ExitStack() as stack:
        streams = ShardStreams(job, part.number, part.result_key, stack)
        for documents in _iterate_in_order(job, part):
            splits = ["validation" if one else "train" for one in documents.is_validation.tolist()]
            of = streams.of(documents.tokens.langs, splits, documents.tokens.metadata)
            where = streams.unfinished(of)
            if len(where):
                rest = documents if len(where) == len(of) else documents.take(where)
                some = EncodedDocuments(rest.tokens, rest.pretokens, rest.places)
                streams.write(some, [of[i] for i in where.tolist()])
        return record_part(job, part.number, streams)


def record_part(job: EncodeJob, number: int, streams: ShardStreams) -> PartGathered:
    """Close the shards of a part, and record it."""
    key = make_part_key(number)
    shards, counts = streams.close()
    reach("encode.item")
    return job.attempts.record(
        key,
        PartGathered(
            number=number,
            languages=add_up_languages(one.languages for one in shards),
            shards=tuple(one.shard for one in shards),
            hashed=add_up_hashed(one.hashed for one in shards),
            token_counts=write_id_run(job.attempts, key, counts),
        ),
    )


def list_buckets(start: int, end: int, num_buckets: int) -> range:
    """The buckets of documents with heads from start to end, end excluded."""
    length = SPAN // num_buckets
    return range(start // length, -(-end // length))


def gather_again(job: EncodeJob, plan: Plan, number: int, num_parts: int, result_key: str) -> PartGathered:
    """One part, made from the inputs alone: every work item is read, and what is not of the part is left out."""
    num_buckets = choose_num_buckets(plan.size_bytes)
    heads = get_interval(number, num_parts)
    runs = DealtRuns()
    for item in plan.items:
        runs.add(scatter_item(job, num_buckets, plan.assignment(item), heads))
    return gather_part(job, Parts(num_parts, num_buckets, result_key, runs).make(number))


def _iterate_in_order(job: EncodeJob, part: ShufflePart) -> Iterator[Scattered]:
    for start, end, runs in _make_steps(part):
        found = []
        for run in runs:
            for documents in read_scattered(job.attempts, run):
                first, last = find_within(documents, start, end)
                if last > first:
                    found.append(documents.slice(first, last))
        if not found:
            continue
        ordered = join_scattered(found).sort()
        del found, documents
        # A few at a time, because writers copy what they get.
        for first in range(0, len(ordered.places), WRITTEN_DOCUMENTS):
            yield ordered.slice(first, min(first + WRITTEN_DOCUMENTS, len(ordered.places)))


def _make_steps(part: ShufflePart) -> Iterator[tuple[int, int, list[ScatteredRun]]]:
    """The part in intervals of heads, in order, and the runs of each. About the documents of one fit into memory."""
    start, end = get_interval(part.number, part.num_parts)
    for bucket in _find_buckets(part.number, part.num_parts, part.num_buckets):
        runs = [run for run in part.runs if run.run.partition == bucket]
        first, last = get_interval(bucket, part.num_buckets)
        first, last = max(first, start), min(last, end)
        # Places are spread evenly, so equal intervals have about equal shares.
        share = max(1, part.num_parts // part.num_buckets)
        tokens, documents = sum(run.tokens for run in runs) // share, sum(run.documents for run in runs) // share
        num_steps = max(1, -(-tokens // STEP_TOKENS), -(-documents // STEP_DOCUMENTS))
        bounds = [first + (last - first) * i // num_steps for i in range(num_steps + 1)]
        for low, high in itertools.pairwise(bounds):
            yield low, high, runs


def find_within(documents: Scattered, start: int, end: int) -> tuple[int, int]:
    """Where the documents with heads from start to end, end excluded, begin and end. documents: in order."""
    heads = get_heads(documents.places)
    first = int(np.searchsorted(heads, np.uint64(start), side="left"))
    return first, int(np.searchsorted(heads, np.uint64(end - 1), side="right"))
