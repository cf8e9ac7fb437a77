"""Which input file has most of each token id, found by reading all shards of an output.

In the order of the plan documents come file by file, so the counts of a file are added up while its documents pass, and
only the largest count of each id is kept. Memory: one work item's counts, and two numbers per id.

Shuffled documents come in any order. Their counts go to temporary files, each of which has those of some input files;
then one after the other is added up. Memory: the counts of one; room on the disk: 16 bytes for each id of each batch.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tokcore.count.token_counts import add_up
from tokcore.errors import FormatError
from tokcore.kernel import IdCounter, IdRows
from tokcore.shards.token_batch import TokenBatch
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.store.stored_shards import (
    copy_shard_if_remote,
    find_main_files,
    open_provenance,
    read_batches,
)
from tokcore_schemas.plan import AssignedRange, Plan
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_table import SHARDS

# Tokens of the documents whose counts are in one temporary file, about; and the most such files.
SPILL_TOKENS = 1 << 24
_MOST_SPILLS = 512


class TopSource(NamedTuple):
    """The file that has an id most often, of equal ones the first in the plan, and how many times."""

    uri: str
    times: int


def find_top_sources(stored: Stored, vocab_size: int) -> dict[int, TopSource]:
    """Id -> the file that has most of it, for each id that occurs. A file that was cut into ranges counts as one.

    stored: a build, or a part. Raises FormatError for a damaged shard, for a document of a file that
    is not planned for its shard, and for an id that is not below vocab_size.
    """
    made, shards = stored.plan, stored.get(SHARDS)
    tops = _Tops(len(made.files), vocab_size)
    if shards.config.shuffle is not None:
        _find_shuffled(stored.url, made, list_named_shards(shards), shards.totals.tokens, tops)
        return tops.name(made)
    shards_of: defaultdict[int, list[ShardRef]] = defaultdict(list)
    for shard in list_named_shards(shards):
        shards_of[shard.facts.item].append(shard)
    ranges_left = Counter(r.file for item in made.items for r in item.ranges)
    unfinished: dict[int, IdRows] = {}  # file -> counts of those of its ranges that were read
    for item in made.items:
        for file, rows in _count_by_file(stored.url, made.assignment(item).ranges, shards_of[item.number]):
            tops.check(rows.ids)
            unfinished[file] = add_up([unfinished[file], rows]) if file in unfinished else rows
        for r in item.ranges:
            ranges_left[r.file] -= 1
            if not ranges_left[r.file] and (whole := unfinished.pop(r.file, None)) is not None:
                tops.add(r.file, whole.ids, whole.counts)
    return tops.name(made)


class _Tops:
    """Of each id the file that has most of it, among those that were added."""

    def __init__(self, num_files: int, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._file = np.full(vocab_size, num_files, np.int64)
        self._count = np.zeros(vocab_size, np.uint64)

    def check(self, ids: Any) -> None:
        """Raise FormatError for an id that the tokenizer does not have. ids: ascending."""
        if len(ids) and int(ids[-1]) >= self._vocab_size:
            raise FormatError(f"shards: id {int(ids[-1])} is not below the tokenizer's {self._vocab_size}")

    def add(self, file: int, ids: Any, counts: Any) -> None:
        """A file, with how often it has each of these ids."""
        file_before, count_before = self._file[ids], self._count[ids]
        is_more = (counts > count_before) | ((counts == count_before) & (file < file_before))
        self._file[ids] = np.where(is_more, file, file_before)
        self._count[ids] = np.where(is_more, counts, count_before)

    def name(self, plan: Plan) -> dict[int, TopSource]:
        """Id -> its top source."""
        found = np.flatnonzero(self._count)
        files, counts = self._file[found].tolist(), self._count[found].tolist()
        return {
            id: TopSource(plan.files[file].uri, count)
            for id, file, count in zip(found.tolist(), files, counts, strict=True)
        }


def _find_shuffled(output: str, plan: Plan, shards: Sequence[ShardRef], num_tokens: int, tops: _Tops) -> None:
    """Add all files of a shuffled build."""
    numbers = {file.uri: number for number, file in enumerate(plan.files)}
    num_spills = min(_MOST_SPILLS, len(plan.files), 1 + num_tokens // SPILL_TOKENS)
    with contextlib.ExitStack() as stack:
        spills = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(num_spills)]
        for shard in shards:
            with copy_shard_if_remote(output, shard) as folder:
                file = find_main_files(shard, folder)[0]
                for batch in open_provenance(file).restore_all(file.open().batches()):
                    pairs = _count_pairs(shard, batch, numbers, tops)
                    # A pair is file * 2^32 + id.
                    which = (pairs[:, 0] >> np.uint64(32)) % np.uint64(num_spills)
                    for number in np.unique(which).tolist():
                        spills[number].write(pairs[which == number].tobytes())
        for spill in spills:
            spill.seek(0)
            pairs = np.frombuffer(spill.read(), np.uint64).reshape(-1, 2)
            distinct, where = np.unique(pairs[:, 0], return_inverse=True)
            counts = np.zeros(len(distinct), np.uint64)
            np.add.at(counts, where, pairs[:, 1])
            files = distinct >> np.uint64(32)
            bounds = [*np.flatnonzero(np.diff(files, prepend=files[:1] + np.uint64(1))).tolist(), len(files)]
            for first, last in itertools.pairwise(bounds):
                ids = (distinct[first:last] & np.uint64(2**32 - 1)).astype(np.int64)
                tops.add(int(files[first]), ids, counts[first:last])


def _count_pairs(shard: ShardRef, batch: TokenBatch, numbers: Mapping[str, int], tops: _Tops) -> Any:
    """uint64 rows (file * 2^32 + id, times) of the documents of a batch, distinct."""
    named = batch.sources.names
    if unknown := [named[code] for code in np.unique(batch.sources.codes).tolist() if named[code] not in numbers]:
        raise FormatError(f"shards: {shard.facts.shard} holds documents of {unknown[0]}, which is not planned")
    files = np.array([numbers.get(name, 0) for name in named], np.uint64)[batch.sources.codes]
    ids = batch.tokens[batch.offsets[0] : batch.offsets[-1]]
    if len(ids) and int(ids.min()) < 0:
        raise FormatError(f"shards: {shard.facts.shard}: id {int(ids.min())}")
    pairs = np.repeat(files << np.uint64(32), np.diff(batch.offsets)) | ids.astype(np.uint64)
    distinct, counts = np.unique(pairs, return_counts=True)
    tops.check([int(ids.max())] if len(ids) else [])
    return np.stack([distinct, counts.astype(np.uint64)], axis=1)


def _count_by_file(
    output: str, ranges: Sequence[AssignedRange], shards: Sequence[ShardRef]
) -> Iterator[tuple[int, IdRows]]:
    """Counts of the ids in a work item's shards, with the file that they are from; a file may come several times."""
    numbers = {r.uri: r.file for r in ranges}
    counter = IdCounter()
    for shard in shards:
        last = ""
        for batch in read_batches(output, shard):
            end = 0
            for source, rows in itertools.groupby(batch.sources):
                start, end = end, end + sum(1 for _ in rows)
                if source not in numbers:
                    raise FormatError(
                        f"shards: {shard.facts.shard} holds documents of {source}, which is not planned for it"
                    )
                if source != last and last:
                    yield numbers[last], counter.take()
                last = source
                try:
                    counter.add(batch.tokens, batch.offsets[start : end + 1])
                except ValueError as error:
                    raise FormatError(f"shards: {shard.facts.shard}: {error}") from error
        if last:
            yield numbers[last], counter.take()
