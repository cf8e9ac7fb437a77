"""The shards of an output as files on this machine, opened in every format that they are stored in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from pipelines.store import urls
from pipelines.store.local_copies import copy_if_remote
from pipelines.work.derived_shards import update_content
from schemas.refs import ShardRef
from tokcore.errors import TokError
from tokcore.format_table import READING_ORDER, SHARD_FORMATS, FormatFile, list_paths
from tokcore.formats.documents import Documents, get_documents_path
from tokcore.formats.provenance import Provenance, get_provenance_path
from tokcore.formats.shard_format import ShardFormat, ShardReader
from tokcore.token_batch import ShardContent


class OpenShard(NamedTuple):
    """An open shard in one format."""

    path: str  # that it goes by, below shards/
    format: ShardFormat
    reader: ShardReader


def copy_shard_if_remote(output: str, shard: ShardRef, stage: str = "shards") -> AbstractContextManager[str]:
    """The folder, on this machine, below which the shard's files are, while the block runs. stage: that wrote it."""
    return copy_if_remote(urls.join(output, stage), [file.path for file in shard.files])


def find_main_files(shard: ShardRef) -> list[FormatFile]:
    """The shard in each format that it is stored in, the one that is read fastest first; paths below shards/."""
    named = {file.path for file in shard.files}
    main = [FormatFile(one.name, list_paths(one, shard.facts.stem)[0]) for one in READING_ORDER]
    return [file for file in main if file.path in named]


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


@contextlib.contextmanager
def naming_stored_files(folder: str, stage: str) -> Iterator[None]:
    """In this block, errors name files of the output, not their copies here. folder: where the copies lie."""
    try:
        yield
    except TokError as error:
        raise TokError(str(error).replace(f"{folder}/", f"{stage}/")) from error


def hash_documents(one: OpenShard) -> str:
    """The digest of a shard's content as this format and its documents file have it. Reads all documents."""
    content = ShardContent()
    for documents in one.reader.batches():
        update_content(content, documents)
    return content.hexdigest()


def has_content(shard: ShardRef, content: ShardContent) -> bool:
    """Whether what the manifest says of a shard is true of these documents."""
    facts = shard.facts
    said = (facts.documents, facts.tokens, facts.max_token_id, shard.content_sha256)
    return said == (content.num_documents, content.num_tokens, content.max_token_id, content.hexdigest())
