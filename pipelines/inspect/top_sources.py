"""Which input file has most of each token id, found by reading all shards of an output.

Documents come file by file, in the order of the plan, so the counts of a file are added up while its documents pass,
and only the largest count of each id is kept. Memory: one work item's counts, and two numbers per id.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pipelines.inspect.stored_shards import copy_shard_if_remote, find_main_files
from pipelines.stages.plan_corpus import read_plan
from schemas.plan import AssignedRange
from schemas.refs import ShardRef
from schemas.shard_entries import list_named_shards
from schemas.stage_manifests import PlanManifest, ShardsManifest
from tokcore.errors import FormatError
from tokcore.format_table import FormatFile
from tokcore.formats.shard_format import ShardReader
from tokcore.kernel import IdCounter, IdRows
from tokcore.token_counts import add_up


class TopSource(NamedTuple):
    """The file that has an id most often, of equal ones the first in the plan, and how many times."""

    uri: str
    times: int


def find_top_sources(output: str, plan: PlanManifest, shards: ShardsManifest, vocab_size: int) -> dict[int, TopSource]:
    """Id -> the file that has most of it, for each id that occurs. A file that was cut into ranges counts as one.

    plan, shards: the manifests of these stages. Raises FormatError for a damaged shard, for a document of a file that
    is not planned for its shard, and for an id that is not below vocab_size.
    """
    made = read_plan(output, plan)
    shards_of: defaultdict[int, list[ShardRef]] = defaultdict(list)
    for shard in list_named_shards(shards):
        shards_of[shard.facts.item].append(shard)
    ranges_left = Counter(r.file for item in made.items for r in item.ranges)
    unfinished: dict[int, IdRows] = {}  # file -> counts of those of its ranges that were read
    top_file = np.full(vocab_size, len(made.files), np.int64)
    top_count = np.zeros(vocab_size, np.uint64)
    for item in made.items:
        for file, rows in _count_by_file(output, made.assignment(item).ranges, shards_of[item.number]):
            if len(rows.ids) and int(rows.ids[-1]) >= vocab_size:
                raise FormatError(f"shards: id {int(rows.ids[-1])} is not below the tokenizer's {vocab_size}")
            unfinished[file] = add_up([unfinished[file], rows]) if file in unfinished else rows
        for r in item.ranges:
            ranges_left[r.file] -= 1
            if ranges_left[r.file] or (whole := unfinished.pop(r.file, None)) is None:
                continue
            file_before, count_before = top_file[whole.ids], top_count[whole.ids]
            is_more = (whole.counts > count_before) | ((whole.counts == count_before) & (r.file < file_before))
            top_file[whole.ids] = np.where(is_more, r.file, file_before)
            top_count[whole.ids] = np.where(is_more, whole.counts, count_before)
    found = np.flatnonzero(top_count)
    return {
        id: TopSource(made.files[file].uri, count)
        for id, file, count in zip(found.tolist(), top_file[found].tolist(), top_count[found].tolist(), strict=True)
    }


def _count_by_file(
    output: str, ranges: Sequence[AssignedRange], shards: Sequence[ShardRef]
) -> Iterator[tuple[int, IdRows]]:
    """Counts of the ids in a work item's shards, with the file that they are from; a file may come several times."""
    numbers = {r.uri: r.file for r in ranges}
    counter = IdCounter()
    for shard in shards:
        last = ""
        with copy_shard_if_remote(output, shard) as folder:
            for batch in _open(folder, shard).batches():
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


def _open(folder: str, shard: ShardRef) -> ShardReader:
    """The shard in the format that is read fastest."""
    name, path = find_main_files(shard)[0]
    return FormatFile(name, f"{folder}/{path}").open()
