"""Shards that others are made out of, and what the workers of such a stage need to know. No Beam."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from tokcore.errors import StageError
from tokcore.shards.token_batch import TokenBatch
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.manifests import read_manifest
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.stored_shards import read_batches
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_manifests import MixtureManifest, PackedManifest, ShardsManifest
from tokcore_schemas.stage_table import STAGES


class ShardSource(NamedTuple):
    """The shards that are read."""

    output: str  # URL of the build
    stage: str  # that wrote them
    sha256: str  # of its manifest

    @classmethod
    def of(cls, output: str, made: ShardsManifest | MixtureManifest | PackedManifest) -> ShardSource:
        return cls(output, made.stage, made.as_input().sha256)

    def read_manifest(self) -> Any:
        """Their manifest. Raises StageError if it is not the one that the stage was started with."""
        return read_manifest(self.output, STAGES[self.stage], self.sha256, "shards were made from its shards")

    def list_shards(self) -> list[ShardRef]:
        """Raises as read_manifest."""
        return list_named_shards(self.read_manifest())

    def read_batches(self, shard: ShardRef) -> Iterator[TokenBatch]:
        """As tokcore_pipelines.store.stored_shards.read_batches."""
        return read_batches(self.output, shard, self.stage)


@functools.lru_cache(maxsize=4)
def list_shards_by_item(source: ShardSource) -> dict[int, list[ShardRef]]:
    """Number of a work item, or of a part of a shuffle -> its shards, in the order of their names."""
    found: dict[int, list[ShardRef]] = {}
    for shard in source.list_shards():
        found.setdefault(shard.facts.item, []).append(shard)
    return found


def require_file(source: ShardSource, shard: ShardRef, path: str) -> None:
    """Raise StageError if a file of a shard has other bytes than were committed."""
    [file] = [file for file in shard.files if file.path == path]
    url = urls.join(source.output, source.stage, path)
    if storage.compute_sha256(url) != file.sha256:
        raise StageError(
            f"{redact(url)}: its bytes are not those that were committed. `tokcore repair` makes the file again"
        )
