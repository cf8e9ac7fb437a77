"""The shards of a work item: a sequence of them per split, and per language or partition where these are kept apart.

A shard is closed at the first document that reaches the target, and recorded at once, so that an attempt that dies
later loses only the shards that were open.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from tokcore.count.token_counts import add_up
from tokcore.errors import StageError
from tokcore.formats.partition_names import is_partition
from tokcore.kernel import IdRows
from tokcore.shards.labels import Labels
from tokcore.shards.partitions import label_partitions
from tokcore_pipelines.local.open_files import allow_open_files
from tokcore_pipelines.work.encode_job import EncodeJob, Positions, Stream
from tokcore_pipelines.work.language_totals import refuse_many_partitions
from tokcore_pipelines.work.new_shard import ShardSequence, begin_facts
from tokcore_pipelines.work.shard_attempt import EncodedDocuments, ShardAttempt
from tokcore_pipelines.work.token_count_runs import read_id_run, write_id_run
from tokcore_schemas.refs import ShardEncoded, spell_shard_name


def make_shard_key(stream: Stream, item: int, number: int) -> str:
    """The record key of a shard that was finished before its work item was."""
    folder, split = stream
    if is_partition(folder):  # which may be longer than a file's name
        folder = hashlib.sha256(folder.encode()).hexdigest()
    return "-".join(filter(None, ("shard", folder, spell_shard_name(split, item, number))))


class ShardStreams:
    """One sequence of shards per split, and per language or partition where shards are kept apart by these."""

    def __init__(
        self, job: EncodeJob, item: int, result_key: str, stack: contextlib.ExitStack, resumes: bool = True
    ) -> None:
        """item: number of the work item, or of the part of a shuffle. result_key: of its shards.

        resumes: whether full shards are recorded, so that another attempt can go on after them.
        """
        self._job = job
        self._item = item
        self._result_key = result_key
        self._stack = stack
        self._resumes = resumes
        self._sequences: dict[Stream, ShardSequence[ShardAttempt, ShardEncoded]] = {}
        self._partitions: set[str] = set()
        if job.config.partitioning is not None:
            allow_open_files()
        self._ahead: dict[Stream, int] = {}  # documents that come by and are in a shard of an earlier attempt

    def of(self, langs: Labels, splits: Sequence[str], metadata: pa.RecordBatch | None) -> list[Stream]:
        """The stream of each document. metadata: has the columns that partitions depend on.

        Raises StageError for more partitions than shards.max_partitions allows.
        """
        folders: Sequence[str] = langs if self._job.config.by == "lang" else [""] * len(langs)
        if (by := self._job.config.partitioning) is not None:
            folders = label_partitions(by, langs, metadata)
            self._partitions.update(folders.names)
            refuse_many_partitions(self._partitions, self._job.max_partitions)
        return list(zip(folders, splits, strict=True))

    def unfinished(self, streams: Sequence[Stream]) -> Positions:
        """Positions of the next documents that no finished shard of an earlier attempt holds; call once for each."""
        for stream in dict.fromkeys(streams):
            if stream not in self._sequences:
                self._sequences[stream] = own = self._begin(stream)
                self._ahead[stream] = sum(one.shard.facts.documents for one in own.done)
        if not any(self._ahead.values()):
            return np.arange(len(streams))
        where = []
        for i, stream in enumerate(streams):
            if self._ahead[stream]:
                self._ahead[stream] -= 1
            else:
                where.append(i)
        return np.asarray(where, np.int64)

    def is_open(self, stream: Stream) -> bool:
        """Whether the next document of a stream goes to a shard that has some."""
        return stream in self._sequences and self._sequences[stream].open is not None

    def take_over(self, stream: Stream, make: Callable[[int], ShardEncoded]) -> None:
        """Append a finished shard, with counts of ids. make: gives it, of its number in the stream. None is open."""
        self.unfinished([stream])
        done = self._sequences[stream].done
        done.append(make(len(done)))

    def write(self, some: EncodedDocuments, streams: Sequence[Stream]) -> None:
        """Write each document to the open shard of its stream."""
        positions: dict[Stream, list[int]] = {}
        for i, stream in enumerate(streams):
            positions.setdefault(stream, []).append(i)
        for stream, where in positions.items():
            own = some if len(positions) == 1 else some.take(np.array(where, np.int64))
            self._sequences[stream].write(own, own.tokens.offsets)

    def close(self) -> tuple[list[ShardEncoded], IdRows]:
        """All shards of the item, the last ones closed but not recorded; the counts of ids in all of them.

        Raises StageError if an earlier attempt read more documents.
        """
        # They hold this object: a cycle would keep the open shards until the collector comes, which may be never.
        sequences, self._sequences = self._sequences, {}
        last = {stream: one.open.close() for stream, one in sequences.items() if one.open is not None}
        if any(self._ahead.values()):
            raise StageError(
                f"work item {self._item}: {sum(self._ahead.values())} documents fewer than an earlier attempt read"
            )
        total = add_up([rows for _, rows in last.values()])
        shards: list[ShardEncoded] = []
        for stream in sorted(sequences):
            for recorded in sequences[stream].done:
                assert recorded.token_counts is not None
                # The counts of one recorded shard are in memory at a time.
                total = add_up([total, read_id_run(self._job.attempts, recorded.token_counts)])
                shards.append(recorded)
            if stream in last:
                shards.append(last[stream][0])
        return shards, total

    def _begin(self, stream: Stream) -> ShardSequence[ShardAttempt, ShardEncoded]:
        def begin(number: int) -> ShardAttempt:
            return ShardAttempt(self._job, begin_facts(stream, self._item, number, self._result_key), self._stack)

        def record(shard: ShardAttempt, number: int) -> ShardEncoded:
            # At once: an attempt that dies later, however large its item, loses the shard it is at.
            attempts = self._job.attempts
            closed, rows = shard.close()
            counts = write_id_run(attempts, closed.shard.facts.shard, rows)
            full = dataclasses.replace(closed, token_counts=counts)
            return attempts.record(self._key(stream, number), full) if self._resumes else full

        return ShardSequence(self._job.config.target_tokens, begin, record, self._resumed(stream))

    def _resumed(self, stream: Stream) -> list[ShardEncoded]:
        shards: list[ShardEncoded] = []
        if not self._resumes:
            return shards
        while (one := self._job.attempts.result(self._key(stream, len(shards)), ShardEncoded)) is not None:
            shards.append(one)
        return shards

    def _key(self, stream: Stream, number: int) -> str:
        return make_shard_key(stream, self._item, number)
