"""Result keys: other work, another name; equal work on another machine, another name and the same content."""

from __future__ import annotations

import dataclasses

import pytest
from support.manifests import MANIFESTS, SHARDS_CONFIG

from tokcore.formats.shard_facts import ShardFacts
from tokcore.formats.shard_format import ShardSettings
from tokcore.shards.format_table import SHARD_FORMATS, list_paths
from tokcore_pipelines.build.recount_shards import HeldShards, name_planned
from tokcore_pipelines.build.stored import Stored
from tokcore_pipelines.work.result_keys import hash_shards_settings, make_shards_key
from tokcore_pipelines.work.semantics import SEMANTICS
from tokcore_schemas.manifest import FileEntry, Manifest
from tokcore_schemas.plan import AssignedRange, Assignment, InputFile, InputRange, Plan, ReadSettings, WorkItem
from tokcore_schemas.refs import HashedDocuments, ShardRef, StoredFile
from tokcore_schemas.shard_entries import write_folder_indexes

READ = ReadSettings("jsonl", "none", "text", "", "en", "", "reject", 1000, "", "")
RANGE = AssignedRange(0, "en.jsonl", 90, "etag:1", 0, 90, READ)
SETTINGS = hash_shards_settings(SHARDS_CONFIG, "f" * 64)


def make_key(settings_sha256: str = SETTINGS, **changes: object) -> str:
    return make_shards_key(settings_sha256, Assignment(0, (dataclasses.replace(RANGE, **changes),)))


@pytest.mark.parametrize(
    "changes",
    [
        {"uri": "de.jsonl"},
        {"version": "etag:2"},
        {"size_bytes": 91},
        {"start": 1},
        {"end": 89},
        {"settings": dataclasses.replace(READ, text="body")},
    ],
)
def test_a_key_follows_from_what_is_read(changes):
    assert len(make_key()) == 12
    assert make_key(**changes) != make_key()
    assert make_shards_key(SETTINGS, Assignment(0, (RANGE, RANGE))) != make_key()


def test_a_key_follows_from_settings_tokenizer_and_release():
    others = (
        hash_shards_settings(dataclasses.replace(SHARDS_CONFIG, target_tokens=1), "f" * 64),
        hash_shards_settings(dataclasses.replace(SHARDS_CONFIG, append=()), "f" * 64),
        hash_shards_settings(SHARDS_CONFIG, "e" * 64),
        hash_shards_settings(SHARDS_CONFIG, "f" * 64, {**SEMANTICS, "kernel": 0}),
    )
    assert len({make_key(), *(make_key(one) for one in others)}) == 5


def test_a_key_does_not_follow_from_the_other_files_of_a_plan():
    assert make_shards_key(SETTINGS, Assignment(7, (dataclasses.replace(RANGE, file=3),))) == make_key()


def shard(key: str, number: int = 0) -> ShardRef:
    facts = ShardFacts(f"train-{number:05d}-00000", number, "en", "train", 4, 100, 399, key)
    files = [path for one in SHARD_FORMATS.values() for path in list_paths(one, facts.stem)]
    return ShardRef(facts, "c" * 64, tuple(StoredFile(path, "", 400, "a" * 64, "c" * 64) for path in files))


def with_keys(*keys: str) -> Manifest:
    """A manifest of shards, one for each key, with the indexes that name them."""
    shards = [shard(key, number) for number, key in enumerate(keys)]
    settings = ShardSettings("f" * 64, 500, "zstd", "uint16")
    indexes = write_folder_indexes(list(SHARD_FORMATS), shards, settings)
    about = MANIFESTS["shards"].files[1].about
    entries = [FileEntry.of(file, one.facts) for one in shards for file in one.files]
    entries += [
        FileEntry(path, len(index.data), "b" * 64, index.content_sha256, about) for path, index in indexes.items()
    ]
    return dataclasses.replace(MANIFESTS["shards"], files=tuple(entries))


def test_content_ids_leave_keys_out():
    one, other = with_keys("0" * 12, "1" * 12), with_keys("f" * 12, "a1b2c3d4e5f6")
    assert {entry.path for entry in one.files} != {entry.path for entry in other.files}
    assert one.content_id() == other.content_id()
    assert one.content_id() != with_keys("0" * 12).content_id()
    fewer = dataclasses.replace(one, files=one.files[1:])
    assert fewer.content_id() != one.content_id()


def test_indexes_name_the_files_that_are_there():
    settings = ShardSettings("f" * 64, 500, "zstd", "uint16")
    for name in SHARD_FORMATS:
        for index in write_folder_indexes([name], [shard("a1b2c3d4e5f6")], settings).values():
            assert (b"a1b2c3d4e5f6" in index.data) == (b"train-00000" in index.data)


def test_verification_asks_for_the_key_of_the_work_item():
    plan = Plan((InputFile("en.jsonl", 90, "etag:1", 0),), (READ,), (WorkItem(0, (InputRange(0, 0, 90),), 90),), ())
    made = MANIFESTS["shards"]
    key = make_shards_key(hash_shards_settings(made.config, made.totals.fingerprint), plan.assignment(plan.items[0]))

    def name(one: ShardRef) -> ShardRef:
        stored = Stored("/nowhere", {"shards": made})
        stored.plan = plan
        held = HeldShards([one], {}, HashedDocuments(4, ""), "")
        return next(name_planned(stored, held))

    assert name(shard(key)).facts == shard(key).facts
    other = name(shard("0" * 12))
    assert other.facts.result_key == key
    assert {file.path for file in other.files} == {file.path for file in name(shard(key)).files}
