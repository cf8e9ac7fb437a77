"""Shards as the manifest of the encode stage lists them: one entry per file, each with the facts about its shard."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from tokcore.files.canonical_json import hash_sha256
from tokcore.formats.pieces import get_pieces_path
from tokcore.formats.provenance import get_provenance_path
from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardFormat, ShardSettings, StoredShard
from tokcore.shards.format_table import find_format, list_paths
from tokcore_schemas.manifest import FileEntry
from tokcore_schemas.refs import ShardRef, StoredFile
from tokcore_schemas.stage_manifests import (
    MixtureManifest,
    PackedManifest,
    ShardsManifest,
)

T = TypeVar("T")


def make_shard_entries(shard: ShardRef) -> tuple[FileEntry[ShardFacts], ...]:
    """The entries of a shard, one for each file."""
    return tuple(FileEntry.of(file, shard.facts) for file in shard.files)


def list_named_shards(manifest: ShardsManifest | MixtureManifest | PackedManifest) -> list[ShardRef]:
    """The shards that a manifest names, in its order, as the first entry of each describes it."""
    return _group_files(manifest.files)


def iterate_item_shards(
    manifest: ShardsManifest | MixtureManifest | PackedManifest,
) -> Iterator[tuple[int, list[ShardRef]]]:
    """(number, shards) of each work item, part or group, as list_item_shards, in the manifest's order, one at a time.

    A number whose entries do not stand together comes more than once.
    """
    entries: Iterator[FileEntry[Any]] = (entry for entry in manifest.files if isinstance(entry.about, ShardFacts))
    for number, some in itertools.groupby(entries, lambda entry: entry.about.item):
        yield number, _group_files(some)


def iterate_named_shards(manifest: ShardsManifest | MixtureManifest | PackedManifest) -> Iterator[ShardRef]:
    """As list_named_shards, a work item at a time. A shard whose entries do not stand together comes more than once."""
    return itertools.chain.from_iterable(shards for _, shards in iterate_item_shards(manifest))


def _group_files(entries: Iterable[FileEntry[Any]]) -> list[ShardRef]:
    files: dict[tuple[str, str, str], list[StoredFile]] = {}
    facts: dict[tuple[str, str, str], ShardFacts] = {}
    for entry in entries:
        if isinstance(about := entry.about, ShardFacts):
            key = (about.shard, about.folder, about.split)
            facts.setdefault(key, about)
            files.setdefault(key, []).append(entry.describe())
    return [ShardRef(own, _find_content(own, files[key]), tuple(files[key])) for key, own in facts.items()]


def list_item_shards(manifest: ShardsManifest | MixtureManifest | PackedManifest) -> dict[int, list[ShardRef]]:
    """Number of a work item, or of a part or group -> the shards that it wrote, in the manifest's order."""
    found: dict[int, list[ShardRef]] = {}
    for shard in list_named_shards(manifest):
        found.setdefault(shard.facts.item, []).append(shard)
    return found


def list_apart(facts: ShardFacts) -> tuple[str, str]:
    """Paths of the files of a shard whose content is not that of the shard: provenance and pieces."""
    return get_provenance_path(facts.stem), get_pieces_path(facts.stem)


def _find_content(facts: ShardFacts, files: Sequence[StoredFile]) -> str:
    """The content_sha256 of a shard; files that say where its documents came from have one of their own."""
    apart = list_apart(facts)
    return next((file.content_sha256 for file in files if file.path not in apart), "")


class WrittenConfig(Protocol):
    """What the configuration of every stage that writes shards has."""

    @property
    def compression(self) -> str: ...

    @property
    def dtype(self) -> str: ...


def make_shard_settings(config: WrittenConfig, fingerprint: str, vocab_size: int) -> ShardSettings:
    """What formats need to know about a build. fingerprint, vocab_size: of its tokenizer."""
    told = {"dtype": config.dtype} if config.dtype else {}  # else no format asks for it
    metadata = tuple(getattr(config, "metadata", ()))  # which packed rows have not: several documents share one
    return ShardSettings(fingerprint, vocab_size, config.compression, **told, metadata=metadata)


class Afresh(Collection[T]):
    """What make() gives, made again whenever it is gone through, so that nothing holds it all."""

    def __init__(self, make: Callable[[], Iterable[T]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[T]:
        return iter(self._make())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, thing: object) -> bool:
        return any(thing == one for one in self)


class FolderIndex(NamedTuple):
    """A file that describes a format's folder."""

    data: bytes
    content_sha256: str  # of the same index of shards whose names have no result keys


def write_folder_indexes(
    formats: Sequence[str], shards: Iterable[ShardRef], settings: ShardSettings
) -> dict[str, FolderIndex]:
    """Files that describe a format's folder, by path. They follow from the shards, so nothing else is kept.

    shards: may be gone through many times; of formats without such a file they are not.
    Raises FormatError for a format that this release does not know.
    """
    indexes = {}
    for name in formats:
        one = find_format(name)
        if type(one).folder_index is ShardFormat.folder_index:
            continue
        stored = Afresh(functools.partial(_find_all_stored, shards, name))
        unkeyed = Afresh(functools.partial(map, _remove_key, stored))
        contents = {path: hash_sha256(data) for path, data in one.folder_index(unkeyed, settings).items()}
        for path, data in one.folder_index(stored, settings).items():
            indexes[f"{name}/{path}"] = FolderIndex(data, contents[path])
    return indexes


def _find_all_stored(shards: Iterable[ShardRef], name: str) -> Iterator[StoredShard]:
    return (_find_stored(shard, name) for shard in shards)


def _remove_key(stored: StoredShard) -> StoredShard:
    return stored._replace(facts=dataclasses.replace(stored.facts, result_key=""))


def _find_stored(shard: ShardRef, name: str) -> StoredShard:
    """The shard in the format of that name. A manifest that lacks its file, which is reported elsewhere, has size 0."""
    path = list_paths(find_format(name), shard.facts.stem)[0]
    sizes = {file.path: file.size_bytes for file in shard.files}
    return StoredShard(shard.facts, sizes.get(path, 0), shard.content_sha256)
