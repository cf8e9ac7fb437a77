"""Checks of manifests that name shards, whatever stage made them: names, numbers, keys, sums, indexes. No Beam."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from tokcore.files.canonical_json import hash_sha256
from tokcore.formats.shard_facts import ShardFacts
from tokcore.shards.format_table import list_all_paths
from tokcore_schemas.manifest import Manifest
from tokcore_schemas.refs import ShardRef, spell_shard_name
from tokcore_schemas.shard_entries import list_apart, make_shard_entries, make_shard_settings, write_folder_indexes
from tokcore_schemas.stage_manifests import CorpusAbout
from tokcore_schemas.stage_table import STAGES

OfShards = Manifest[Any, Any, Any, ShardFacts | CorpusAbout]


def check_shards(
    made: OfShards, shards: Sequence[ShardRef], find_key: Callable[[ShardFacts], str], num_items: int | None = None
) -> Iterator[str]:
    """Check the files, names, numbers and result keys of all shards, and that the entries of their files agree.

    find_key: the result key that a shard is to have. num_items: what a shard is of is below this; None: any number.
    """
    where, target = f"{made.stage}/manifest.json", made.config.target_tokens
    streams: dict[tuple[int, str, str], list[ShardFacts]] = {}
    for shard in shards:
        yield from check_place(made, shard)
        facts = shard.facts
        streams.setdefault((facts.item, facts.lang, facts.split), []).append(facts)
        if facts.result_key != (key := find_key(facts)):
            yield f"{where}: {facts.shard}: its result key is {facts.result_key!r}, expected {key!r}"
    for (item, _, split), stream in streams.items():
        names = [spell_shard_name(split, item, number) for number in range(len(stream))]
        if [one.shard for one in stream] != names or not 0 <= item < (item + 1 if num_items is None else num_items):
            yield f"{where}: {[one.shard for one in stream]}: expected {names}"
        for one in stream[:-1]:
            if one.tokens < target:
                yield f"{where}: {one.shard}: ended before it reached {target} tokens"
    yield from check_entries(made, shards)


def check_place(made: OfShards, shard: ShardRef) -> Iterator[str]:
    """That a shard has the files, and the names, that the stage's configuration gives it."""
    stage, facts = STAGES[made.stage], shard.facts
    is_shuffled = stage.beside == "provenance" or getattr(made.config, "shuffle", None) is not None
    expected = list_all_paths(made.config.formats, facts.stem, is_shuffled, is_packed=stage.beside == "pieces")
    paths = [file.path for file in shard.files]
    if tuple(sorted(paths)) != expected or "/" in facts.shard:
        yield f"{made.stage}/manifest.json: {facts.shard}: {paths}: not its files"


def check_entries(made: OfShards, shards: Sequence[ShardRef]) -> Iterator[str]:
    """That the entries of a shard's files say the same of it."""
    found = {entry.path: entry for entry in made.files}
    for shard in shards:
        apart = list_apart(shard.facts)
        for expected in make_shard_entries(shard):
            entry = found[expected.path]
            content = expected.content_sha256 if expected.path in apart else shard.content_sha256
            if (entry.about, entry.content_sha256) != (expected.about, content):
                yield f"{made.stage}/{entry.path}: described otherwise than {shard.files[0].path}, the same shard"


def check_totals(made: OfShards, shards: Sequence[ShardRef]) -> Iterator[str]:
    """That the totals of a stage that makes shards out of shards are those of its shards."""
    totals = made.totals
    held = (len(shards), *(sum(getattr(one.facts, name) for one in shards) for name in ("documents", "tokens")))
    documents = getattr(totals, STAGES[made.stage].nouns)
    if held != (totals.shards, documents, totals.tokens + getattr(totals, "padding", 0)):
        yield f"{made.stage}/manifest.json: its totals are not those of its shards"


def check_folder_indexes(
    made: OfShards,
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
