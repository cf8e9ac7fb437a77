"""How many shards of a part have the bytes that they had in the part whose place it takes: for receipts, and before."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from tokcore.files.canonical_json import hash_sha256
from tokcore.formats.shard_facts import ShardFacts
from tokcore_pipelines.build.commit import find_manifest, find_manifests, require_manifest
from tokcore_pipelines.build.read_log import Log, locate_part
from tokcore_pipelines.history.make_commit import NewPart, name_whole
from tokcore_schemas.commit_log import Part
from tokcore_schemas.manifest import AnyManifest
from tokcore_schemas.pack_groups import list_groups
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import iterate_named_shards, list_named_shards
from tokcore_schemas.stage_table import MIXED, PACKED, SHARDS, STAGES, Stage


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


class Hit(NamedTuple):
    """What a shard has of what would go."""

    documents: int = 0  # or rows that have some
    tokens: int = 0
    made_of: frozenset[str] = frozenset()  # places of shards, of a shard of rows

    def plus(self, tokens: int) -> Hit:
        """With one more document."""
        return Hit(self.documents + 1, self.tokens + tokens)


Hits = Mapping[tuple[str, str, str], Hit]  # (URL of a part, stage, stem of a shard that has some, or is of rows) ->


def count_written(
    urls_of_parts: Sequence[str], hits: Hits, parts: Sequence[NewPart], moves_weights: bool, in_place_rows: bool
) -> tuple[AsBefore, int]:
    """(shards that a removal would leave alone, at least, of all; rows that it would not, at most).

    urls_of_parts: of those that hold something of it. parts: what would be made. moves_weights: whether other
    documents of a mixture come and go.
    """
    num = same = rows = 0
    kept = [one.inheritance for one in parts if one.inheritance is not None]
    # Pieces of rows name the shards that they are of.
    is_named_alike = all(by == of for one in kept for by, of in (*one.kept.items(), *one.thinned.items()))
    for url in urls_of_parts:
        shards, mixed, packed = require_manifest(url, SHARDS), find_manifest(url, MIXED), find_manifest(url, PACKED)
        is_taken_over, is_drawn_alike = any(one.output == url for one in kept), not moves_weights
        left = _list_left_alone(shards, _pick(hits, url, SHARDS), shards.config.shuffle is not None)
        alone: list[tuple[AnyManifest, set[str]]] = [(shards, left if is_taken_over else set())]
        if mixed is not None:
            left = _list_left_alone(mixed, _pick(hits, url, MIXED), is_ordered=True)
            alone.append((mixed, left if is_taken_over and is_drawn_alike else set()))
        source, left = alone[-1]
        if packed is not None:
            written = {one.facts.place for one in iterate_named_shards(source) if one.facts.stem not in left}
            own, gone = _pick(hits, url, PACKED), _pick(hits, url, SHARDS if mixed is None else MIXED)
            if in_place_rows:
                left = {stem for stem, hit in own.items() if is_named_alike and not hit.made_of & written}
            else:
                left = _list_rows_alone(packed, own, list_named_shards(source), gone)
            left = left if is_taken_over and is_drawn_alike else set()
            rows += sum(one.facts.documents for one in iterate_named_shards(packed) if one.facts.stem not in left)
            alone.append((packed, left))
        num += sum(made.totals.shards for made, _ in alone)
        same += sum(len(of) for _, of in alone)
    return AsBefore(same, num), rows


def _pick(hits: Hits, url: str, stage: Stage[Any]) -> dict[str, Hit]:
    """Stem -> hit, for the shards of a stage of a part."""
    return {stem: hit for (of, by, stem), hit in hits.items() if (of, by) == (url, stage.name)}


def _list_left_alone(made: AnyManifest, hits: Collection[str], is_ordered: bool) -> set[str]:
    """Of the shards of each work item: all if none is hit. If it is a part of a shuffle: those before the first."""
    left = set[str]()
    for _, own in groupby(iterate_named_shards(made), lambda one: one.facts.item):
        shards, ended = [*own], set[tuple[str, str]]()
        if not is_ordered and any(one.facts.stem in hits for one in shards):
            continue
        for one in shards:
            stream = _name_stream(one.facts)
            if one.facts.stem in hits:
                ended.add(stream)
            if stream not in ended:
                left.add(one.facts.stem)
    return left


def _list_rows_alone(
    made: AnyManifest, hits: Mapping[str, Hit], source: Sequence[ShardRef], gone: Mapping[str, Hit]
) -> set[str]:
    """The shards of rows in groups before the first that is hit, which begin and end as before.

    source: the shards that rows are made of. gone: stem -> what goes of such a shard.
    """
    shards = [*iterate_named_shards(made)]
    if made.totals.removed:  # the place of documents that are gone is closed, too
        return set()
    ended = {_name_stream(one.facts): one.facts.item for one in reversed(shards) if hits[one.facts.stem].documents}
    groups = list_groups(source, made.config)
    after = list_groups([_take_away(one, gone) for one in source], made.config)
    then = {dataclasses.replace(one, number=0) for one in after}
    same = {
        one.number
        for one in groups
        if one.number < ended.get((one.folder, one.split), len(groups)) and dataclasses.replace(one, number=0) in then
    }
    return {one.facts.stem for one in shards if one.facts.item in same}


def _take_away(shard: ShardRef, gone: Mapping[str, Hit]) -> ShardRef:
    facts, hit = shard.facts, gone.get(shard.facts.stem, Hit())
    left = dataclasses.replace(facts, documents=facts.documents - hit.documents, tokens=facts.tokens - hit.tokens)
    return dataclasses.replace(shard, facts=left)


def _name_stream(facts: ShardFacts) -> tuple[str, str]:
    return facts.folder, facts.split
