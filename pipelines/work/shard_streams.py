"""The shards of a work item: a sequence of them per split, and per language where they are kept apart by language.

A shard is closed at the first document that reaches the target, and recorded at once, so that an attempt that dies
later loses only the shards that were open.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

import numpy as np

from tokcore.count.token_counts import add_up
from tokcore.errors import StageError
from tokcore.kernel import IdRows
from tokcore_pipelines.work.encode_job import EncodeJob, Positions, Stream
from tokcore_pipelines.work.new_shard import ShardSequence, begin_facts
from tokcore_pipelines.work.shard_attempt import EncodedDocuments, ShardAttempt
from tokcore_pipelines.work.token_count_runs import read_id_run, write_id_run
from tokcore_schemas.refs import ShardEncoded, spell_shard_name


def make_shard_key(stream: Stream, item: int, number: int) -> str:
    """The record key of a shard that was finished before its work item was."""
    lang, split = stream
    return "-".join(filter(None, ("shard", lang, spell_shard_name(split, item, number))))


class ShardStreams:
    """One sequence of shards per split, and per language where shards are kept apart by language."""

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
        self._ahead: dict[Stream, int] = {}  # documents that come by and are in a shard of an earlier attempt

    def of(self, langs: Sequence[str], splits: Sequence[str]) -> list[Stream]:
        """The stream of each document."""
        return list(zip(langs if self._job.config.by == "lang" else [""] * len(langs), splits, strict=True))

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

    def write(self, some: EncodedDocuments, streams: Sequence[Stream]) -> None:
        """Write each document to the open shard of its stream."""
        distinct = dict.fromkeys(streams)
        for stream in distinct:
            own = some
            if len(distinct) > 1:
                own = some.take(np.array([i for i, one in enumerate(streams) if one == stream], np.int64))
            self._sequences[stream].write(own, own.tokens.offsets)

    def close(self) -> tuple[list[ShardEncoded], IdRows]:
        """All shards of the item, the last ones closed but not recorded; the counts of ids in all of them.

        Raises StageError if an earlier attempt read more documents.
        """
        sequences = self._sequences
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
