"""Gaps in packed rows (tokcore_schemas.gaps): which they are, and between which documents of a shard. No Beam.

Documents of a part whose rows stay where they are in another one: that has the same documents in the same order, but
for those that were removed. So one pass over both finds the gaps, whatever removed them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tokcore.errors import LedgerError
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.json_lines import read_table
from tokcore_pipelines.store.manifests import read_manifest
from tokcore_pipelines.store.stored_shards import read_batches
from tokcore_pipelines.work.derived_shards import ShardSource
from tokcore_schemas.gaps import GAPS, Gaps, KeptRows, StreamKey
from tokcore_schemas.pack_groups import list_streams
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.stage_manifests import PackedManifest
from tokcore_schemas.stage_table import MIXED, PACKED, SHARDS


class OwnGaps(NamedTuple):
    """The gaps in one shard. before: the document of it that follows each, ascending. lengths: the ids of each."""

    before: Sequence[int]
    lengths: Sequence[int]


class Place(NamedTuple):
    """What tells a document apart from all others of its stream, but its own copies."""

    source: str
    ordinal: int
    length: int  # in ids


@functools.lru_cache(maxsize=4)
def read_gaps(url: str) -> Mapping[StreamKey, Gaps]:
    """The gaps in a file, by stream. Raises FormatError if it is damaged."""
    return {one.stream: one for one in read_table(url, Gaps)}


def find_gaps_url(part: str, made: PackedManifest) -> str:
    """URL of the gaps of the rows of a part; empty if they have none."""
    return urls.join(part, PACKED.name, GAPS) if made.config.in_place_of else ""


def cut_gaps(gaps: Gaps | None, nums: Sequence[int]) -> list[OwnGaps]:
    """The gaps in each shard of a stream; of none, in one without documents. nums: documents of the shards.

    >>> cut_gaps(Gaps("train", (0, 4, 5), (7, 8, 9)), [2, 2])
    [OwnGaps(before=[0], lengths=[7]), OwnGaps(before=[1, 1], lengths=[8, 9])]
    """
    nums = nums or [0]
    if gaps is None:
        return [OwnGaps((), ())] * len(nums)
    # As many documents come before a gap as its number says, less the gaps among them.
    before = np.array(gaps.documents, np.int64) - np.arange(len(gaps.documents))
    firsts = np.cumsum(nums) - nums
    bounds = [0, *np.searchsorted(before, firsts[1:]).tolist(), len(before)]
    return [
        OwnGaps((before[start:end] - first).tolist(), list(gaps.lengths[start:end]))
        for first, start, end in zip(firsts.tolist(), bounds[:-1], bounds[1:], strict=True)
    ]


def find_gaps(kept: KeptRows, after: ShardSource) -> list[Gaps]:
    """The gaps that keep rows where they are. after: the shards whose documents are to be packed.

    Reads all shards of both parts, one by one. Raises LedgerError unless the documents of after are those that the rows
    have, in their order, without some.
    """
    packed = read_manifest(kept.part, PACKED, kept.sha256, "its rows are to stay where they are")
    stage = MIXED.name if MIXED.name in packed.inputs else SHARDS.name
    before = ShardSource(kept.part, stage, packed.inputs[stage].sha256)
    there = read_gaps(url) if (url := find_gaps_url(kept.part, packed)) else {}
    old, new = list_streams(before.list_shards(), there), list_streams(after.list_shards())
    found = []
    for folder, split in sorted({*old, *new}):
        stream = (folder, split)
        places, left = (_read_places(one, of.get(stream, ())) for one, of in ((before, old), (after, new)))
        gaps = [*compare_streams(places, left, there.get(stream))]
        if gaps:
            numbers, lengths = zip(*gaps, strict=True)
            found.append(Gaps(split, numbers, lengths, folder))
    return found


def _read_places(source: ShardSource, shards: Iterable[ShardRef]) -> Iterator[Place]:
    for shard in shards:
        for batch in read_batches(source.output, shard, source.stage, names_sources=True):
            lengths = np.diff(batch.offsets).tolist()
            yield from map(Place, batch.sources, batch.ordinals.tolist(), lengths)


def compare_streams(
    before: Iterable[Place], after: Iterable[Place], gaps: Gaps | None = None
) -> Iterator[tuple[int, int]]:
    """(number, length) of each document that only the stream before has. gaps: that this has already.

    Raises LedgerError unless the stream after has nothing else, in the same order.

    >>> a, b, c = (Place("f", ordinal, 9) for ordinal in range(3))
    >>> [*compare_streams([a, b, b, c], [a, c], Gaps("train", (1,), (5,)))]
    [(1, 5), (2, 9), (3, 9)]
    """
    left = iter(after)
    wanted = next(left, None)
    holes = iter(zip(gaps.documents, gaps.lengths, strict=True) if gaps is not None else ())
    hole = next(holes, None)
    number = 0
    for one in before:
        while hole is not None and hole[0] == number:
            yield hole
            number, hole = number + 1, next(holes, None)
        if one == wanted:
            wanted = next(left, None)
        else:
            yield number, one.length
        number += 1
    if hole is not None:
        yield hole
    yield from holes
    if wanted is not None:
        raise LedgerError(
            f"{wanted.source}, ordinal {wanted.ordinal}: comes where the rows have it not, so they cannot stay where "
            f"they are. Leave --in-place-rows out, and rows are made again"
        )
