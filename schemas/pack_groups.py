"""Groups of packed rows: which documents are packed together. They follow from the sizes of shards alone.

Shards of a folder and split, in the order of their manifest, are one sequence of documents. Where documents are
concatenated, a group is some rows of it; otherwise it is some windows of documents (tokcore.train.packing), none of
which looks at another. So each group can be made by itself, and groups depend neither on workers nor on how shards are
read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from tokcore.train.packing import WINDOW_DOCUMENTS
from tokcore_schemas.gaps import Gaps, StreamKey
from tokcore_schemas.refs import PackGroup, ShardRef
from tokcore_schemas.stage_manifests import PackedConfig

# A group has about this many full shards, so that the last one, which is not full, hardly matters.
SHARDS_PER_GROUP = 8


def list_streams(shards: Sequence[ShardRef], gaps: Collection[StreamKey] = ()) -> dict[StreamKey, list[ShardRef]]:
    """The shards of each folder and split, in their order. gaps: streams that are there, even if none of theirs is."""
    streams: dict[StreamKey, list[ShardRef]] = {key: [] for key in gaps}
    for shard in shards:
        streams.setdefault((shard.facts.folder, shard.facts.split), []).append(shard)
    return dict(sorted(streams.items()))


def list_groups(shards: Iterable[ShardRef], config: PackedConfig, gaps: Sequence[Gaps] = ()) -> tuple[PackGroup, ...]:
    """All groups, numbered over all streams. gaps: documents that were removed, and whose place is kept."""
    groups: list[PackGroup] = []
    of = {one.stream: one for one in gaps}
    sums = dict.fromkeys(of, (0, 0))
    for facts in (shard.facts for shard in shards):
        stream = facts.folder, facts.split
        documents, tokens = sums.get(stream, (0, 0))
        sums[stream] = documents + facts.documents, tokens + facts.tokens
    for (folder, split), (documents, tokens) in sorted(sums.items()):
        if (gone := of.get((folder, split))) is not None:
            documents, tokens = documents + len(gone.documents), tokens + sum(gone.lengths)
        if not documents:
            continue
        bounds = [*_list_bounds(documents, tokens, config)]
        for start, end in bounds:
            groups.append(PackGroup(len(groups), folder, split, start, end, (start, end) == bounds[-1]))
    return tuple(groups)


def _list_bounds(documents: int, tokens: int, config: PackedConfig) -> Iterator[tuple[int, int]]:
    wanted = SHARDS_PER_GROUP * config.target_tokens
    if config.strategy == "concatenate":
        total = max(1, -(-tokens // config.length)) * config.length  # documents without ids have a row, too
        step = max(1, wanted // config.length) * config.length
        yield from ((start, min(start + step, total)) for start in range(0, total, step))
        return
    window = WINDOW_DOCUMENTS
    num_windows = max(1, documents // window)
    step = max(1, wanted * documents // (max(1, tokens) * window))
    for first in range(0, num_windows, step):
        last = first + step
        yield first * window, last * window if last < num_windows else documents


def list_windows(group: PackGroup) -> list[tuple[int, int]]:
    """The windows of a group of documents: each as long as the window, the last one that or longer."""
    num = max(1, (group.end - group.start) // WINDOW_DOCUMENTS)
    starts = [group.start + i * WINDOW_DOCUMENTS for i in range(num)]
    return [*zip(starts, [*starts[1:], group.end], strict=True)]
