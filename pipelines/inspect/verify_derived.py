"""Checks of manifests whose shards are made out of other shards, and of the indexes of folders. No Beam."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from pipelines.work.result_keys import make_table_key
from schemas.refs import ShardRef, spell_shard_name
from schemas.shard_entries import list_apart, make_shard_entries, make_shard_settings, write_folder_indexes
from schemas.stage_manifests import CorpusAbout, MixtureManifest, PackedManifest, ShardsManifest
from tokcore.canonical import hash_sha256
from tokcore.format_table import list_all_paths
from tokcore.formats.shard_facts import ShardFacts


def check_shard_entries(made: MixtureManifest | PackedManifest, shards: Sequence[ShardRef]) -> Iterator[str]:
    """Check that each shard has its files, names and result key, and that the entries of its files agree."""
    where, config = f"{made.stage}/manifest.json", made.config
    key = make_table_key(made.identity)
    entries = {entry.path: entry for entry in made.files}
    streams: dict[tuple[int, str, str], list[ShardFacts]] = {}
    for shard in shards:
        facts = shard.facts
        streams.setdefault((facts.item, facts.lang, facts.split), []).append(facts)
        paths = tuple(sorted(file.path for file in shard.files))
        is_mixed = made.stage == "mixed"
        expected_paths = list_all_paths(config.formats, facts.stem, is_shuffled=is_mixed, is_packed=not is_mixed)
        if paths != expected_paths or "/" in facts.shard:
            yield f"{where}: {facts.shard}: {list(paths)}: not its files"
        if facts.result_key != key:
            yield f"{where}: {facts.shard}: its result key is {facts.result_key!r}, expected {key!r}"
        for expected in make_shard_entries(shard):
            entry, is_apart = entries[expected.path], expected.path in list_apart(facts)
            if entry.about != facts or (not is_apart and entry.content_sha256 != shard.content_sha256):
                yield f"{made.stage}/{entry.path}: described otherwise than {shard.files[0].path}, the same shard"
    for (item, _, split), own in streams.items():
        names = [spell_shard_name(split, item, number) for number in range(len(own))]
        if [one.shard for one in own] != names:
            yield f"{where}: shards {[one.shard for one in own]}, expected {names}"
        if any(one.tokens < config.target_tokens for one in own[:-1]):
            yield f"{where}: {own[0].shard} and on: a shard ended before it reached {config.target_tokens} tokens"


def check_folder_indexes(
    made: ShardsManifest | MixtureManifest | PackedManifest,
    shards: Sequence[ShardRef],
    vocab_size: int,
    other_files: Collection[str] = (),
) -> Iterator[str]:
    """Check that each format's index of its folder follows from the shards. other_files: neither shards nor indexes."""
    settings = make_shard_settings(made.config, made.totals.fingerprint, vocab_size)
    about = CorpusAbout(*(sum(getattr(one.facts, name) for one in shards) for name in ("documents", "tokens")))
    expected = {
        path: (hash_sha256(index.data), index.content_sha256, about)
        for path, index in write_folder_indexes(made.config.formats, shards, settings).items()
    }
    found = {
        entry.path: (entry.sha256, entry.content_sha256, entry.about)
        for entry in made.files
        if not isinstance(entry.about, ShardFacts) and entry.path not in other_files
    }
    for path in sorted(expected.keys() | found.keys()):
        if path not in found or path not in expected:
            what = "not there" if path in expected else "not a file of such a build"
            yield f"{made.stage}/manifest.json: {path}: {what}"
        elif found[path] != expected[path]:
            yield f"{made.stage}/{path}: not what follows from the shards"
