"""A manifest whose files are packed is the one that is read whole, and what is none is told in the same words."""

from __future__ import annotations

import dataclasses
import pickle
import random
from typing import get_args

import pytest
from support.manifests import MANIFESTS

from tokcore.errors import FormatError
from tokcore_schemas import spooled_blocks
from tokcore_schemas.packed_entries import PackedEntries, collect_entries
from tokcore_schemas.stage_table import SHARDS, get_stage, parse_manifest

OF_SHARDS = MANIFESTS["shards"]


def make(num: int):
    """The example with as many files, each with a path of its own."""
    one = OF_SHARDS.files[0]
    named = (dataclasses.replace(one, path=f"arrow/{number}", size_bytes=number) for number in range(num))
    return dataclasses.replace(OF_SHARDS, files=(*named, *OF_SHARDS.files))


@pytest.mark.parametrize("held_bytes", [1 << 24, 1], ids=["in memory", "in a file"])
@pytest.mark.parametrize("made", [*MANIFESTS.values(), make(10_500)], ids=[*MANIFESTS, "many"])
def test_packed_or_not_it_is_the_same(monkeypatch, made, held_bytes):
    monkeypatch.setattr(spooled_blocks, "HELD_BYTES", held_bytes)
    data = made.to_bytes()
    packed = parse_manifest(data, "m", get_stage(made.stage), 0)
    assert isinstance(packed.files, PackedEntries)
    assert packed == made == packed == pickle.loads(pickle.dumps(packed)) == parse_again(data, made)
    assert b"".join(packed.write()) == b"".join(made.write()) == packed.to_bytes() == data
    assert packed.as_input() == made.as_input()
    assert packed.content_id() == made.content_id()
    chance = random.Random(0)
    for number in chance.sample(range(len(made.files)), min(2, len(made.files))):
        assert packed.files[number] == made.files[number]
        assert packed.files[number - 2 : number + 3] == made.files[number - 2 : number + 3]
        assert packed.prove_entry(made.files[number].path) == made.prove_entry(made.files[number].path)
        assert packed.file(made.files[number].path) == made.files[number]
    with pytest.raises(FormatError, match="names no none"):
        packed.file("none")


def parse_again(data, made):
    return parse_manifest(data, "m", get_stage(made.stage), 0)


@pytest.mark.parametrize("held_bytes", [1 << 24, 1], ids=["in memory", "in a file"])
@pytest.mark.parametrize("num", [0, 1, 511, 512, 513, 1536, 10_001])
def test_entries_that_are_packed_as_they_come_are_those_of_a_whole_manifest(monkeypatch, num, held_bytes):
    """At every border: of what is packed together, and of what has a tree of its own."""
    monkeypatch.setattr(spooled_blocks, "HELD_BYTES", held_bytes)
    made = make(num)
    collected = collect_entries(iter(made.files), get_args(SHARDS.manifest)[3], most=0)
    assert isinstance(collected, PackedEntries)
    packed = dataclasses.replace(made, files=collected)
    assert packed == made
    assert packed.to_bytes() == b"".join(packed.write()) == made.to_bytes()
    assert packed.as_input() == made.as_input() == packed.as_input()
    assert packed.list_parts() == made.list_parts()
    assert len(collected) == len(made.files)


def test_few_entries_stay_as_they_are():
    files = make(8).files
    about = get_args(SHARDS.manifest)[3]
    assert collect_entries(iter(files), about, most=len(files)) == files
    assert type(collect_entries(iter(files), about, most=len(files))) is tuple
    assert isinstance(collect_entries(iter(files), about, most=len(files) - 1), PackedEntries)


def test_one_that_differs_is_not_equal():
    made = make(3)
    packed = parse_manifest(made.to_bytes(), "m", SHARDS, 0)
    for files in (made.files[1:], made.files[::-1], (*made.files[:-1], made.files[0])):
        other = dataclasses.replace(made, files=files)
        assert packed != other
        assert packed != parse_manifest(other.to_bytes(), "m", SHARDS, 0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"size_bytes":1}', b'"size_bytes":"1"}'),
        (b'"size_bytes":1}', b'"size_bytes":1.0}'),
        (b'"size_bytes":1}', b'"size_bytes": 1}'),
        (b'"path":"arrow/1",', b""),
        (b'},{"about":', b'},,{"about":'),
        (b'"files":[', b'"files":[],"files":['),
        (b'"files":[', b'"files":[ '),
        (b'"files":[{"about":', b'"files":[{"!":[],"about":'),
        (b'],"format":', b',],"format":'),
        (b'"format_version":', b'"format_version":9'),
        (b'"config":{', b'"config":{"files":['),
    ],
)
def test_damage_is_told_as_of_one_that_is_read_whole(old, new):
    data = make(3).to_bytes()
    assert old in data
    data = data.replace(old, new, 1)
    with pytest.raises(FormatError) as whole:
        parse_manifest(data, "m", SHARDS, 1 << 60)
    with pytest.raises(FormatError) as packed:
        parse_manifest(data, "m", SHARDS, 0)
    assert (type(packed.value), str(packed.value)) == (type(whole.value), str(whole.value))
