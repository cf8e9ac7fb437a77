"""The files of a stage that writes shards: those of the shards, and those that describe all of them together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tokcore.formats.shard_facts import ShardFacts
from tokcore_pipelines.build.stage import write_file
from tokcore_pipelines.work.encode_job import ShardJob
from tokcore_schemas.refs import ShardRef, StoredFile
from tokcore_schemas.shard_entries import write_folder_indexes
from tokcore_schemas.stage_manifests import CorpusAbout


def list_shard_files(
    job: ShardJob[Any], shards: Iterable[ShardRef], about: CorpusAbout, more: Iterable[StoredFile] = ()
) -> list[tuple[StoredFile, ShardFacts | CorpusAbout]]:
    """All files and what is said of each; those in which formats describe a folder are written here.

    about: what is said of these, and of more, which come last.
    """
    shards = [*shards]
    indexes = [
        write_file(job.attempts, path, index.data, index.content_sha256)
        for path, index in write_folder_indexes(job.config.formats, shards, job.settings).items()
    ]
    return [
        *((file, shard.facts) for shard in shards for file in shard.files),
        *((file, about) for file in (*indexes, *more)),
    ]
