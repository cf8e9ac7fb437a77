"""The shards of an output, as files on this machine: where they are, and their documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from tokcore.errors import FormatError
from tokcore.formats.documents import get_documents_path
from tokcore.formats.provenance import Provenance, get_provenance_path
from tokcore.shards.format_table import FormatFile, find_format, find_format_of, list_paths, rank_reading
from tokcore.shards.token_batch import TokenBatch
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.local_copies import copy_if_remote
from tokcore_schemas.refs import ShardRef


def find_main_files(shard: ShardRef, folder: str = "") -> list[FormatFile]:
    """The shard in each format that it is stored in, the one that is read fastest first.

    folder: of all shards; "": paths are those below it.
    """
    found = ((find_format_of(file.path, shard.facts.stem), file.path) for file in shard.files)
    main = [(one.name, path) for one, path in found if one is not None]
    main.sort(key=lambda pair: rank_reading(pair[0]))
    return [FormatFile(name, f"{folder}/{path}" if folder else path) for name, path in main]


def copy_shard_if_remote(output: str, shard: ShardRef, stage: str = "shards") -> AbstractContextManager[str]:
    """The folder, on this machine, below which the shard's files are, while the block runs. stage: that wrote it."""
    sizes = {file.path: file.size_bytes for file in shard.files}
    return copy_if_remote(urls.join(output, stage), [*sizes], sizes)


def read_batches(
    output: str, shard: ShardRef, stage: str = "shards", *, names_sources: bool = False
) -> Iterator[TokenBatch]:
    """All documents of a shard, some at a time, with the records that they came from as its files say so themselves.

    names_sources: with those of a shuffled shard, too, which are in a file beside it. Only the files that this takes
    are copied. stage: that wrote it. Raises FormatError for a damaged file.
    """
    first, stem = find_main_files(shard)[0], shard.facts.stem
    wanted = {get_documents_path(stem), *list_paths(find_format(first.format), stem)}
    if names_sources:
        wanted.add(get_provenance_path(stem))
    sizes = {file.path: file.size_bytes for file in shard.files if file.path in wanted}
    with copy_if_remote(urls.join(output, stage), [*sizes], sizes) as folder:
        file = find_main_files(shard, folder)[0]
        batches, provenance = file.open().batches(), file.find_provenance() if names_sources else None
        yield from batches if provenance is None else provenance.restore_all(batches)


def open_provenance(file: FormatFile) -> Provenance:
    """Where the documents of a shuffled shard came from. Raises FormatError if that is damaged, or not there."""
    if (provenance := file.find_provenance()) is None:
        raise FormatError(f"{file.path}: its provenance file is not there")
    return provenance
