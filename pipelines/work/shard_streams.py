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
from tokcore.formats.provenance import Places
from tokcore.formats.shard_facts import ShardFacts
from tokcore.kernel import IdRows
from tokcore.shards.token_batch import TokenBatch
from tokcore_pipelines.work.encode_job import EncodeJob, Positions, Stream
from tokcore_pipelines.work.shard_attempt import ShardAttempt
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
        self._open: dict[Stream, ShardAttempt] = {}
        self._finished: dict[Stream, list[ShardEncoded]] = {}
        self._ahead: dict[Stream, int] = {}  # documents that come by and are in a shard of an earlier attempt

    def of(self, langs: Sequence[str], splits: Sequence[str]) -> list[Stream]:
        """The stream of each document."""
        return list(zip(langs if self._job.by_lang else [""] * len(langs), splits, strict=True))

    def unfinished(self, streams: Sequence[Stream]) -> Positions:
        """Positions of the next documents that no finished shard of an earlier attempt holds; call once for each."""
        for stream in dict.fromkeys(streams):
            if stream not in self._finished:
                self._finished[stream] = self._resumed(stream)
                self._ahead[stream] = sum(one.shard.facts.documents for one in self._finished[stream])
        if not any(self._ahead.values()):
            return np.arange(len(streams))
        where = []
        for i, stream in enumerate(streams):
            if self._ahead[stream]:
                self._ahead[stream] -= 1
            else:
                where.append(i)
        return np.asarray(where, np.int64)

    def write(
        self, tokens: TokenBatch, pretokens: Positions, streams: Sequence[Stream], places: Places | None = None
    ) -> None:
        """Write each document to the open shard of its stream. pretokens: how many each document has.

        places: where a shuffle put each; None in the order of the plan.
        """
        distinct = dict.fromkeys(streams)
        for stream in distinct:
            if len(distinct) == 1:
                self._write_stream(stream, tokens, pretokens, places)
            else:
                where = [i for i, s in enumerate(streams) if s == stream]
                own = places[where] if places is not None else None
                self._write_stream(stream, tokens.take(where), pretokens[where], own)

    def close(self) -> tuple[list[ShardEncoded], IdRows]:
        """All shards of the item, the last ones closed but not recorded; the counts of ids in all of them.

        Raises StageError if an earlier attempt read more documents.
        """
        last = {stream: shard.close() for stream, shard in self._open.items()}
        self._open.clear()
        if any(self._ahead.values()):
            raise StageError(
                f"work item {self._item}: {sum(self._ahead.values())} documents fewer than an earlier attempt read"
            )
        total = add_up([rows for _, rows in last.values()])
        shards: list[ShardEncoded] = []
        for stream in sorted(self._finished):
            for recorded in self._finished[stream]:
                assert recorded.token_counts is not None
                # The counts of one recorded shard are in memory at a time.
                total = add_up([total, read_id_run(self._job.attempts, recorded.token_counts)])
                shards.append(recorded)
            if stream in last:
                shards.append(last[stream][0])
        return shards, total

    def _resumed(self, stream: Stream) -> list[ShardEncoded]:
        shards: list[ShardEncoded] = []
        if not self._resumes:
            return shards
        while (one := self._job.attempts.result(self._key(stream, len(shards)), ShardEncoded)) is not None:
            shards.append(one)
        return shards

    def _key(self, stream: Stream, number: int) -> str:
        return make_shard_key(stream, self._item, number)

    def _write_stream(self, stream: Stream, tokens: TokenBatch, pretokens: Positions, places: Places | None) -> None:
        start = 0
        finished = self._finished[stream]
        while start < len(tokens.langs):
            shard = self._open.get(stream)
            if shard is None:
                name = spell_shard_name(stream[1], self._item, len(finished))
                facts = ShardFacts(name, self._item, *stream, 0, 0, -1, self._result_key)
                shard = self._open[stream] = ShardAttempt(self._job, facts, self._stack)
            room = self._job.target_tokens - shard.num_tokens
            # The first document that reaches the target is the shard's last.
            reached = int(np.searchsorted(tokens.offsets, tokens.offsets[start] + room, side="left"))
            end = min(max(reached, start + 1), len(tokens.langs))
            own = places[start:end] if places is not None else None
            shard.write(tokens.slice(start, end), pretokens[start:end], own)
            if shard.num_tokens >= self._job.target_tokens:
                # Recorded at once: an attempt that dies later, however large its item, loses the shard it is at.
                finished.append(self._record(self._open.pop(stream), self._key(stream, len(finished))))
            start = end

    def _record(self, shard: ShardAttempt, key: str) -> ShardEncoded:
        attempts = self._job.attempts
        closed, rows = shard.close()
        counts = write_id_run(attempts, closed.shard.facts.shard, rows)
        full = dataclasses.replace(closed, token_counts=counts)
        return attempts.record(key, full) if self._resumes else full
