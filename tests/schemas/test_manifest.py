"""Manifests: one byte form, identity against content, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest

from schemas.manifest import FileEntry, Input, Manifest, identity_of, parse_manifest
from tokcore.errors import ChecksumError, FormatError, VersionError

MANIFEST = Manifest(
    stage="shards",
    identity="1" * 64,
    config={"target_tokens": 5},
    inputs={"plan": Input("2" * 64, "3" * 64)},
    files=(FileEntry("arrow/a.arrow", 10, "4" * 64, "5" * 64, {"documents": 2}),),
    totals={"tokens": 7},
    languages={"en": {"documents": 2}},
)


def test_bytes_and_back():
    assert parse_manifest(MANIFEST.to_bytes(), "m") == MANIFEST


@pytest.mark.parametrize(
    "change",
    [
        {"identity": "9" * 64},
        {"inputs": {"plan": Input("9" * 64, "3" * 64)}},
        {"files": (FileEntry("arrow/a.arrow", 99, "9" * 64, "5" * 64, {"documents": 2}),)},
    ],
)
def test_codec_and_key_are_not_content(change):
    assert dataclasses.replace(MANIFEST, **change).content_id() == MANIFEST.content_id()


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"target_tokens": 6}},
        {"totals": {"tokens": 8}},
        {"languages": {}},
        {"inputs": {"plan": Input("2" * 64, "9" * 64)}},
        {"files": (FileEntry("arrow/a.arrow", 10, "4" * 64, "9" * 64, {"documents": 2}),)},
        {"files": (FileEntry("arrow/b.arrow", 10, "4" * 64, "5" * 64, {"documents": 2}),)},
        {"files": ()},
    ],
)
def test_everything_else_is_content(change):
    assert dataclasses.replace(MANIFEST, **change).content_id() != MANIFEST.content_id()


def test_identity_follows_inputs_and_configuration():
    one = identity_of("s", {"a": 1}, {"plan": Input("x", "y")}, {})
    assert one == identity_of("s", {"a": 1}, {"plan": Input("x", "other content id")}, {})
    assert one != identity_of("s", {"a": 2}, {"plan": Input("x", "y")}, {})
    assert one != identity_of("s", {"a": 1}, {"plan": Input("z", "y")}, {})
    assert one != identity_of("s", {"a": 1}, {"plan": Input("x", "y")}, {"kernel": 2})


def test_what_is_not_canonical_is_refused():
    with pytest.raises(FormatError, match="canonical"):
        parse_manifest(MANIFEST.to_bytes().replace(b'"tokens":7', b'"tokens": 7'), "m")
    with pytest.raises(FormatError, match="unknown field"):
        parse_manifest(MANIFEST.to_bytes().replace(b'"totals"', b'"totalz"'), "m")


def test_a_field_left_out_is_refused():
    data = MANIFEST.to_bytes()
    shorter = data.replace(b'"languages":{"en":{"documents":2}},', b"")
    assert shorter != data
    with pytest.raises(FormatError, match="a field is missing"):
        parse_manifest(shorter, "m")


def test_a_newer_format_names_the_mend():
    with pytest.raises(VersionError, match="upgrade tokcore"):
        parse_manifest(MANIFEST.to_bytes().replace(b'"format_version":1', b'"format_version":2'), "m")


def test_a_false_root_is_found():
    rooted = dataclasses.replace(MANIFEST, root=MANIFEST.content_id())
    assert parse_manifest(rooted.to_bytes(), "m") == rooted
    with pytest.raises(ChecksumError, match="root"):
        parse_manifest(rooted.to_bytes().replace(b'"tokens":7', b'"tokens":8'), "m")
