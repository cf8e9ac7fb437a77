"""Manifests on disk: a long one is read in parts, and is the one that is read whole."""

from __future__ import annotations

import hashlib

import pytest
from support.manifests import MANIFESTS

from tokcore.errors import FormatError, StageError
from tokcore_pipelines.build.commit import find_manifest
from tokcore_pipelines.store import manifests
from tokcore_pipelines.store.manifests import find_manifest_file, read_manifest
from tokcore_schemas.packed_entries import PackedEntries
from tokcore_schemas.stage_table import SHARDS

MADE = MANIFESTS["shards"]


@pytest.fixture(params=["file", "memory"])
def url(request, tmp_path):
    folder = f"{tmp_path}/out" if request.param == "file" else f"memory://{tmp_path.name}"
    return f"{folder}/shards/manifest.json"


def write(url, data):
    with manifests.storage.write_attempt(url) as file:
        file.write(data)


@pytest.mark.parametrize("block_bytes", [1, 100, 1 << 20])
def test_it_is_the_one_that_is_read_whole(url, monkeypatch, block_bytes):
    assert find_manifest_file(url) is find_manifest_file(url, is_long=True) is None
    data = MADE.to_bytes()
    write(url, data)
    short = find_manifest_file(url)
    assert (short.sha256, short.data, short.parse(SHARDS)) == (hashlib.sha256(data).hexdigest(), data, MADE)
    manifests._parse.cache_clear()
    monkeypatch.setattr(manifests, "PACKED_BYTES", 1)
    monkeypatch.setattr(manifests, "_BLOCK_BYTES", block_bytes)
    long = find_manifest_file(url, is_long=True)
    assert (long, long.data) == (short, None)
    assert isinstance(long.parse(SHARDS).files, PackedEntries)
    assert long.parse(SHARDS) == MADE
    output = url.removesuffix("/shards/manifest.json")
    assert find_manifest(output, SHARDS) == read_manifest(output, SHARDS, short.sha256, "it was read") == MADE


def test_one_that_is_replaced_meanwhile_is_not_taken(url, monkeypatch):
    monkeypatch.setattr(manifests, "PACKED_BYTES", 1)
    write(url, MADE.to_bytes())
    found = find_manifest_file(url, is_long=True)
    write(url, MADE.to_bytes().replace(b'"size_bytes":10', b'"size_bytes":11'))
    with pytest.raises(StageError, match="was replaced while it was read"):
        found.parse(SHARDS)
    write(url, b"[]")
    with pytest.raises(StageError, match="was replaced while it was read"):
        found.parse(SHARDS)


def test_what_is_wrong_with_a_long_one_is_told(url, monkeypatch):
    monkeypatch.setattr(manifests, "PACKED_BYTES", 1)
    write(url, MADE.to_bytes().replace(b'"size_bytes":10', b'"size_bytes":"1"'))
    with pytest.raises(FormatError, match=r"files\[0\].size_bytes"):
        find_manifest_file(url, is_long=True).parse(SHARDS)
    output = url.removesuffix("/shards/manifest.json")
    with pytest.raises(StageError, match="was replaced while shards were made"):
        read_manifest(output, SHARDS, "0" * 64, "shards were made")
    manifests.storage.remove_file(url)
    with pytest.raises(StageError, match="missing; it was removed meanwhile"):
        read_manifest(output, SHARDS)
