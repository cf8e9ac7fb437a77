"""The shards of an output as files on this machine, opened in every format that they are stored in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from pipelines.store.main_files import find_main_files
from pipelines.work.derived_shards import update_content
from schemas.refs import ShardRef
from tokcore.errors import TokError
from tokcore.format_table import SHARD_FORMATS, FormatFile
from tokcore.formats.documents import Documents, get_documents_path
from tokcore.formats.provenance import Provenance, get_provenance_path
from tokcore.formats.shard_format import ShardFormat, ShardReader
from tokcore.token_batch import ShardContent


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
