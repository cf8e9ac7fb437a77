"""Shards that others are made out of, as workers read them. No Beam."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from tokcore.formats.documents import get_documents_path
from tokcore.formats.provenance import get_provenance_path
from tokcore.shards.format_table import READING_ORDER, FormatFile, list_paths
from tokcore.shards.token_batch import TokenBatch
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.local_copies import copy_if_remote
from tokcore_pipelines.store.manifests import read_manifest
from tokcore_schemas.refs import ShardRef
from tokcore_schemas.shard_entries import list_named_shards
from tokcore_schemas.stage_table import STAGES


class DerivedJob(Protocol):
    """Out of which shards a stage makes others."""

    @property
    def output(self) -> str:
        """URL of the build."""

    @property
    def made_from(self) -> str:
        """The stage whose shards are read."""

    @property
    def shards_sha256(self) -> str:
        """Of the manifest of that stage."""


def read_named_shards(job: DerivedJob) -> list[ShardRef]:
    """The shards that are read. Raises StageError if their manifest is not the one that the stage was started with."""
    meanwhile = "shards were made from its shards"
    made: Any = read_manifest(job.output, STAGES[job.made_from], job.shards_sha256, meanwhile)
    return list_named_shards(made)


def read_batches(job: DerivedJob, shard: ShardRef) -> Iterator[TokenBatch]:
    """All documents of a shard, with the records that they came from only where its files say so themselves."""
    named = {file.path for file in shard.files}
    one = next(one for one in READING_ORDER if list_paths(one, shard.facts.stem)[0] in named)
    apart = get_provenance_path(shard.facts.stem)
    wanted = [get_documents_path(shard.facts.stem), *list_paths(one, shard.facts.stem)]
    with copy_if_remote(
        urls.join(job.output, job.made_from), [path for path in wanted if path in named and path != apart]
    ) as folder:
        reader = FormatFile(one.name, f"{folder}/{list_paths(one, shard.facts.stem)[0]}").open()
        yield from reader.batches()
