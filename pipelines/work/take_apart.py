"""What a worker does to make shards out of those under a larger vocabulary, or in other folders: no text is read.

Documents are read from the shards of another output, taken apart, and written as encoding would write them: a work
item's as its shards, or those of a part of a shuffle, by their places. No Beam.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import heapq
import itertools
import threading
from collections.abc import Iterator, Sequence

import numpy as np

from tokcore.errors import IdentityError
from tokcore.formats.provenance import Places
from tokcore.kernel import IdReplacer
from tokcore.shards.token_batch import TokenBatch, join_batches
from tokcore.tokenizer.smaller import find_smaller
from tokcore.tokenizer.tokenizer_spec import TokenizerSpec
from tokcore_pipelines.local.free_memory import freeing_memory
from tokcore_pipelines.local.worker import report_progress
from tokcore_pipelines.store import storage
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.work.derived_shards import ShardSource, list_shards_by_item
from tokcore_pipelines.work.encode_job import EncodeJob, Stream
from tokcore_pipelines.work.gather_part import STEP_DOCUMENTS, STEP_TOKENS, WRITTEN_DOCUMENTS, make_part_key
from tokcore_pipelines.work.hashed_documents import add_up_hashed
from tokcore_pipelines.work.language_totals import add_up_languages
from tokcore_pipelines.work.ordered_shards import OrderedShards
from tokcore_pipelines.work.read_shards import read_shard
from tokcore_pipelines.work.result_keys import make_shards_key
from tokcore_pipelines.work.scattered_runs import Scattered, join_scattered
from tokcore_pipelines.work.shard_attempt import EncodedDocuments
from tokcore_pipelines.work.shard_streams import ShardStreams
from tokcore_pipelines.work.token_count_runs import write_id_run
from tokcore_schemas.plan import Assignment
from tokcore_schemas.refs import PartGathered, ShardRef, ShufflePart

_loading = threading.Lock()


@dataclasses.dataclass(frozen=True, slots=True)
class ApartJob:
    """What every worker needs to know."""

    encode: EncodeJob  # of the shards to write
    source: ShardSource  # the shards to read
    tokenizer: str  # URL of the tokcore.json of these
    tokenizer_sha256: str
    num_parts: int = 0  # of the shuffle that wrote them
    num_documents: int = 0  # in all of them
    num_tokens: int = 0  # the same
    is_refined: bool = True  # whether all documents of a folder to write come from one folder that is read

    @property
    def attempts(self) -> Attempts:
        return self.encode.attempts


def take_item_apart(job: ApartJob, assignment: Assignment) -> PartGathered:
    """Write the shards of a work item. Raises StageError for a shard that is damaged."""
    if (done := job.attempts.result(make_part_key(assignment.number), PartGathered)) is None:
        result_key = make_shards_key(job.encode.settings_sha256, assignment)
        with _Writing(job, assignment.number, result_key) as writing:
            streams: dict[Stream, list[ShardRef]] = {}
            for shard in list_shards_by_item(job.source).get(assignment.number, []):
                streams.setdefault((shard.facts.folder, shard.facts.split), []).append(shard)
            for split in sorted({split for _, split in streams}):
                own = [_read_stream(job, shards) for (_, of), shards in streams.items() if of == split]
                for batch in itertools.chain.from_iterable(own) if job.is_refined else _merge(own, assignment):
                    writing.write(batch, [split] * batch.num_documents)
            done = writing.record()
    report_progress("read", assignment.size_bytes)
    return done


@freeing_memory
def take_part_apart(job: ApartJob, part: ShufflePart) -> PartGathered:
    """Write the shards of a part of the shuffle, of which there may be more under the smaller vocabulary."""
    if (done := job.attempts.result(make_part_key(part.number), PartGathered)) is None:
        with _Writing(job, part.number, part.result_key) as writing:
            for some in _iterate_by_place(job, part):
                splits = ["validation" if one else "train" for one in some.is_validation.tolist()]
                writing.write(some.tokens, splits, some.places)
            done = writing.record()
    return done


class _Writing(contextlib.ExitStack):
    """The shards of a work item or a part while they are written; they are recorded when all are there."""

    def __init__(self, job: ApartJob, number: int, result_key: str) -> None:
        super().__init__()
        self._job, self._number = job, number
        self._replacer = _load_replacer(job)
        # Nothing is recorded before all shards were compared with their manifest.
        self._streams = ShardStreams(job.encode, number, result_key, self, resumes=False)

    def write(self, batch: TokenBatch, splits: list[str], places: Places | None = None) -> None:
        """Take documents apart, and append them."""
        if not splits:
            return
        of = self._streams.of(batch.langs, splits, batch.metadata)
        self._streams.unfinished(of)
        # How many pre-tokens there are follows from the manifest of the shards that are read.
        none = np.zeros(len(splits), np.int64)
        taken = batch if self._replacer is None else batch.replace_ids(self._replacer)
        self._streams.write(EncodedDocuments(taken, none, places), of)

    def record(self) -> PartGathered:
        """What was written."""
        shards, counts = self._streams.close()
        reach("encode.item")
        key = make_part_key(self._number)
        return self._job.attempts.record(
            key,
            PartGathered(
                number=self._number,
                languages=add_up_languages(one.languages for one in shards),
                shards=tuple(one.shard for one in shards),
                hashed=add_up_hashed(one.hashed for one in shards),
                token_counts=write_id_run(self._job.attempts, key, counts),
            ),
        )


def _read_stream(job: ApartJob, shards: Sequence[ShardRef]) -> Iterator[TokenBatch]:
    """The documents of shards, one after the other. Raises StageError for a shard that is damaged."""
    return (batch for shard in shards for batch, _ in read_shard(job.source.output, shard))


def _merge(streams: Sequence[Iterator[TokenBatch]], assignment: Assignment) -> Iterator[TokenBatch]:
    """The documents of several streams, each in the order of the plan, in that order, some at a time."""
    number_of = {one.uri: number for number, one in enumerate(assignment.ranges)}

    def find_key(batch: TokenBatch, row: int) -> tuple[int, int]:
        return number_of[batch.sources[row]], int(batch.ordinals[row])

    def take_next(number: int) -> None:
        while (batch := next(streams[number], None)) is not None:
            if batch.num_documents:
                heapq.heappush(heads, (find_key(batch, 0), number, batch))  # no two keys are equal
                return

    heads: list[tuple[tuple[int, int], int, TokenBatch]] = []
    for number in range(len(streams)):
        take_next(number)
    waiting: list[TokenBatch] = []
    while heads:
        _, number, batch = heapq.heappop(heads)
        end = batch.num_documents
        if heads and find_key(batch, end - 1) > heads[0][0]:
            end = bisect.bisect_left(range(end), heads[0][0], key=functools.partial(find_key, batch))
        waiting.append(batch.slice(0, end))
        if end < batch.num_documents:
            rest = batch.slice(end, batch.num_documents)
            heapq.heappush(heads, (find_key(rest, 0), number, rest))
        else:
            take_next(number)
        if len(waiting) >= WRITTEN_DOCUMENTS:
            yield join_batches(waiting)
            waiting = []
    if waiting:
        yield join_batches(waiting)


def _iterate_by_place(job: ApartJob, part: ShufflePart) -> Iterator[Scattered]:
    """The documents of a part, as they are in the shards that are read, in the order of their places."""
    ordered = _open_ordered(job.source, job.num_parts)
    steps = max(job.num_tokens // STEP_TOKENS, job.num_documents // STEP_DOCUMENTS)
    # Intervals whose documents fit into memory; each is within a part of either shuffle.
    num = max(part.num_parts, job.num_parts, 1 << steps.bit_length())
    for interval in range(part.number * num // part.num_parts, (part.number + 1) * num // part.num_parts):
        found = [
            Scattered(batch, np.zeros(len(places), np.int64), np.full(len(places), split == "validation"), places)
            for split, batch, places in ordered.read(interval, num)
        ]
        if not found:
            continue
        documents = join_scattered(found).sort()
        for start in range(0, len(documents.places), WRITTEN_DOCUMENTS):
            yield documents.slice(start, min(start + WRITTEN_DOCUMENTS, len(documents.places)))


@functools.lru_cache(maxsize=1)
def _open_ordered(source: ShardSource, num_parts: int) -> OrderedShards:
    return OrderedShards(source, num_parts)


def _load_replacer(job: ApartJob) -> IdReplacer | None:
    """What takes documents apart, made once a process; None if their ids stay.

    Raises IdentityError for tokenizers that do not fit.
    """
    if job.tokenizer_sha256 == job.encode.tokenizer_sha256:
        return None
    own = (job.encode.tokenizer, job.encode.tokenizer_sha256)
    with _loading:  # a worker of an engine has threads, which come at the same time
        return _make_replacer(job.tokenizer, job.tokenizer_sha256, *own)


@functools.lru_cache(maxsize=1)
def _make_replacer(larger: str, larger_sha256: str, smaller: str, smaller_sha256: str) -> IdReplacer:
    specs = [
        TokenizerSpec.from_json_bytes(storage.read_bytes(url), url, sha256)
        for url, sha256 in ((larger, larger_sha256), (smaller, smaller_sha256))
    ]
    if (found := find_smaller(*specs)) is None:
        raise IdentityError(f"{smaller}: is not made of the first merges of {larger}")
    return found.make_replacer()
