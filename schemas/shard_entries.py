"""Shards as the manifest of the encode stage lists them: one entry per file, each with the facts about its shard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schemas.manifest import FileEntry
from schemas.refs import ShardRef, StoredFile
from schemas.stage_manifests import ShardAbout, ShardsConfig, ShardsManifest
from tokcore.formats.shard_format import ShardSettings, ShardSummary
from tokcore.shard_formats import format_named


def about_shard(shard: ShardRef) -> ShardAbout:
    """What the entry of each of its files says."""
    return ShardAbout(
        shard=shard.name,
        item=shard.item,
        lang=shard.lang,
        split=shard.split,
        documents=shard.num_documents,
        tokens=shard.num_tokens,
        max_token_id=shard.max_token_id,
    )


def shard_entries(shard: ShardRef) -> tuple[FileEntry[ShardAbout], ...]:
    """The entries of a shard, one for each file."""
    return tuple(FileEntry.of(file, about_shard(shard)) for file in shard.files)


def named_shards(manifest: ShardsManifest) -> list[ShardRef]:
    """The shards that a manifest names, in its order, as the first entry of each describes it."""
    files: dict[tuple[str, str, str], list[StoredFile]] = {}
    abouts: dict[tuple[str, str, str], ShardAbout] = {}
    for entry in manifest.files:
        if isinstance(about := entry.about, ShardAbout):
            key = (about.shard, about.lang, about.split)
            abouts.setdefault(key, about)
            stored = StoredFile(entry.path, "", entry.size_bytes, entry.sha256, entry.content_sha256)
            files.setdefault(key, []).append(stored)
    return [_shard(about, files[key]) for key, about in abouts.items()]


def _shard(about: ShardAbout, files: Sequence[StoredFile]) -> ShardRef:
    return ShardRef(
        name=about.shard,
        item=about.item,
        lang=about.lang,
        split=about.split,
        num_documents=about.documents,
        num_tokens=about.tokens,
        max_token_id=about.max_token_id,
        content_sha256=files[0].content_sha256,
        files=tuple(files),
    )


def shard_settings(config: ShardsConfig, fingerprint: str, vocab_size: int) -> ShardSettings:
    """What formats need to know about a build. fingerprint, vocab_size: of its tokenizer."""
    told = {"dtype": config.dtype} if config.dtype else {}  # else no format asks for it
    return ShardSettings(fingerprint, vocab_size, config.compression, **told)


def folder_indexes(formats: Sequence[str], shards: Iterable[ShardRef], settings: ShardSettings) -> dict[str, bytes]:
    """Files that describe a format's folder: path -> content. They follow from the shards, so nothing else is kept.

    Raises FormatError for a format that this release does not know.
    """
    summaries = [ShardSummary(one.stem, one.split, one.num_documents, one.num_tokens) for one in shards]
    return {
        f"{name}/{path}": data
        for name in formats
        for path, data in format_named(name).folder_index(summaries, settings).items()
    }
