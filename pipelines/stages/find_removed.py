"""Documents in shards that tombstones say were removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pipelines.store.main_files import copy_shard_if_remote, find_main_files
from schemas.shard_entries import list_named_shards
from schemas.stage_manifests import ShardsManifest
from schemas.tombstones import Kind, Tombstones
from tokcore.format_table import FormatFile
from tokcore.labels import Labels


class FoundDocument(NamedTuple):
    """A document that is still in a shard."""

    source: str
    ordinal: int
    tombstones: tuple[str, ...]  # those that it has


def find_removed(output: str, made: ShardsManifest, removed: Tombstones) -> Iterator[FoundDocument]:
    """The documents of an output's shards that have one of these tombstones. Reads all shards.

    output: URL of what one build made. Raises FormatError for a damaged shard.
    """
    hashes = frozenset(removed.hashes)

    def has(kind: Kind, name: str) -> str:
        tombstone = removed.spell(kind, name)
        return tombstone if tombstone in hashes else ""

    def look_up(kind: Kind, labels: Labels) -> list[str]:
        found = [has(kind, name) for name in labels.names]
        return [found[code] for code in labels.codes.tolist()]

    for shard in list_named_shards(made):
        name, path = find_main_files(shard)[0]
        with copy_shard_if_remote(output, shard) as folder:
            for batch in FormatFile(name, f"{folder}/{path}").open().batches():
                langs, sources = look_up("lang", batch.langs), look_up("source", batch.sources)
                ids = [has("id", one) if one is not None else "" for one in batch.ids]
                for i, tombstones in enumerate(zip(ids, langs, sources, strict=True)):
                    if any(tombstones):
                        kept = tuple(filter(None, tombstones))
                        yield FoundDocument(batch.sources[i], int(batch.ordinals[i]), kept)
