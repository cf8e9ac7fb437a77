"""The files of a shard that hold its documents, and where they are on this machine."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tokcore.shards.format_table import READING_ORDER, FormatFile, list_paths
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.local_copies import copy_if_remote
from tokcore_schemas.refs import ShardRef


def copy_shard_if_remote(output: str, shard: ShardRef, stage: str = "shards") -> AbstractContextManager[str]:
    """The folder, on this machine, below which the shard's files are, while the block runs. stage: that wrote it."""
    sizes = {file.path: file.size_bytes for file in shard.files}
    return copy_if_remote(urls.join(output, stage), [*sizes], sizes)


def find_main_files(shard: ShardRef) -> list[FormatFile]:
    """The shard in each format that it is stored in, the one that is read fastest first; paths below shards/."""
    named = {file.path for file in shard.files}
    main = [FormatFile(one.name, list_paths(one, shard.facts.stem)[0]) for one in READING_ORDER]
    return [file for file in main if file.path in named]
