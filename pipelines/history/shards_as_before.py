"""How many shards of a part have the bytes that they had in the part whose place it takes: for receipts, and before."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from tokcore.files.canonical_json import hash_sha256
from tokcore.formats.shard_facts import ShardFacts
from tokcore_pipelines.build.commit import find_manifests, require_manifest
from tokcore_pipelines.build.read_log import Log, locate_part
from tokcore_pipelines.history.make_commit import NewPart, name_whole
from tokcore_schemas.commit_log import Part
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import iterate_named_shards
from tokcore_schemas.stage_table import SHARDS, STAGES


class AsBefore(NamedTuple):
    """Shards of a part, with those of its mixture and rows."""

    same: int  # of these, those that have the bytes that they had
    of: int


def count_as_before(log: Log, added: Sequence[Part], dropped: Sequence[str]) -> AsBefore:
    """What new parts have of an output of which each commit is one part; nothing of another. Reads manifests alone."""
    if not name_whole(log.build.config):
        return AsBefore(0, 0)
    old = [locate_part(log.output, part) for part in log.parts() if part.path in dropped]
    had = {one for url in old for one in _list_contents(url)}
    has = [one in had for part in added for one in _list_contents(locate_part(log.output, part))]
    return AsBefore(sum(has), len(has))


def _list_contents(url: str) -> Iterator[int]:
    """A number for the bytes of each shard. There may be very many."""
    for made in find_manifests(url, [SHARDS, *(stage for stage in STAGES.values() if stage.is_derived)]).values():
        for shard in iterate_named_shards(made):
            told = " ".join([made.stage, *(file.sha256 for file in shard.files)])
            yield int(hash_sha256(told.encode())[:15], 16)


def count_written(urls_of_parts: Sequence[str], hit: Collection[tuple[str, str]], parts: Sequence[NewPart]) -> AsBefore:
    """The token shards of parts that a removal would leave alone, at least, of all.

    urls_of_parts: of those that hold something of it. hit: (URL, stem) of shards that do. parts: what would be made.
    """
    num = same = 0
    for url in urls_of_parts:
        made = require_manifest(url, SHARDS)
        is_taken_over = any(one.inheritance is not None and one.inheritance.output == url for one in parts)
        for _, shards in groupby(iterate_named_shards(made), lambda one: one.facts.item):
            own = [*shards]
            num += len(own)
            same += _count_left_alone(url, own, hit, made.config.shuffle is not None) if is_taken_over else 0
    return AsBefore(same, num)


def _count_left_alone(url: str, shards: Sequence[ShardRef], hit: Collection[tuple[str, str]], is_shuffled: bool) -> int:
    """Of the shards of a work item: all if none is hit. Of a part of a shuffle: those before the first that is."""
    if not is_shuffled:
        return 0 if any((url, one.facts.stem) in hit for one in shards) else len(shards)
    left, ended = 0, set[tuple[str, str]]()
    for one in shards:
        stream = _name_stream(one.facts)
        if (url, one.facts.stem) in hit:
            ended.add(stream)
        left += stream not in ended
    return left


def _name_stream(facts: ShardFacts) -> tuple[str, str]:
    return facts.folder, facts.split
