"""The shards of an output as files on this machine, opened in every format that they are stored in."""

from __future__ import annotations

from typing import NamedTuple

from tokcore.formats.documents import Documents, get_documents_path
from tokcore.formats.provenance import Provenance, get_provenance_path
from tokcore.formats.shard_format import ShardFormat, ShardReader
from tokcore.shards.format_table import SHARD_FORMATS, FormatFile
from tokcore_pipelines.store.local_shards import find_main_files
from tokcore_schemas.refs import ShardRef


class OpenShard(NamedTuple):
    """An open shard in one format."""

    path: str  # that it goes by, below shards/
    format: ShardFormat
    reader: ShardReader


def open_formats(folder: str, shard: ShardRef) -> list[OpenShard]:
    """The shard in every format, those with columns of their own first. folder: of all shards.

    Raises FormatError for a damaged file.
    """
    opened = [
        OpenShard(path, SHARD_FORMATS[name], FormatFile(name, f"{folder}/{path}").open())
        for name, path in find_main_files(shard)
    ]
    return sorted(opened, key=lambda one: not one.format.has_columns)


def open_documents(folder: str, shard: ShardRef) -> Documents | None:
    """The shard's documents file; None if it has none. folder: of all shards. Raises FormatError if it is damaged."""
    path = get_documents_path(shard.facts.stem)
    return Documents(f"{folder}/{path}") if path in {file.path for file in shard.files} else None


def open_provenance(folder: str, shard: ShardRef) -> Provenance:
    """Where the documents of a shuffled shard came from. folder: of all shards. Raises FormatError if it is damaged."""
    return Provenance(f"{folder}/{get_provenance_path(shard.facts.stem)}")
