"""Manifests: one byte form, identity against content, each stage's own fields, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from support.manifests import MANIFESTS

from tokcore.errors import ChecksumError, FormatError, VersionError
from tokcore.files.canonical_json import write_canonical_json
from tokcore_schemas.manifest import Input, compute_identity
from tokcore_schemas.stage_manifests import CountedLanguage, CountsConfig, ImportedConfig, StageConfigs
from tokcore_schemas.stage_table import SHARDS, STAGES, WHOLE, get_stage, parse_manifest

OF_SHARDS = MANIFESTS["shards"]
NAME = "OUT/shards/manifest.json"


@pytest.mark.parametrize("made", MANIFESTS.values(), ids=MANIFESTS)
def test_bytes_and_back(made):
    again = parse_manifest(made.to_bytes(), "m", get_stage(made.stage))
    assert again == made
    assert type(again.config) is type(made.config)
    assert [type(entry.about) for entry in again.files] == [type(entry.about) for entry in made.files]
    assert parse_manifest(made.to_bytes(), "m") == made


def test_every_stage_has_an_example():
    assert {made.stage for made in MANIFESTS.values()} == {*STAGES, "build"}


def test_what_a_build_does_not_use_is_left_out():
    """The JSON form of manifests may not change: a field that was added later is left out where it is not used."""
    plain = CountsConfig(1024, "1", (), {"name": "cl100k"})
    language = CountedLanguage(4, 700, 4, 700, 60, 30)
    made = dataclasses.replace(MANIFESTS["counts"], config=plain, languages={"en": language})
    value = json.loads(made.to_bytes())
    assert sorted(value["config"]) == ["max_pretoken_bytes", "normalize", "pretokenize", "sample"]
    assert not {"masked", "masked_bytes"} & set(value["languages"]["en"])
    assert parse_manifest(made.to_bytes(), "m") == made
    build = dataclasses.replace(
        MANIFESTS["build"],
        config=StageConfigs(ImportedConfig(), OF_SHARDS.config),
        languages={},
        totals=OF_SHARDS.totals,
    )
    assert json.loads(build.to_bytes())["config"] == {
        "tokenizer": {"tokenizer": "imported"},
        "shards": json.loads(OF_SHARDS.to_bytes())["config"],
    }


# ------------------------------------------------------------------------------------------------- identity and content


def first_file(**changes: Any) -> dict[str, Any]:
    """The files of OF_SHARDS, the first of them changed."""
    return {"files": (dataclasses.replace(OF_SHARDS.files[0], **changes), *OF_SHARDS.files[1:])}


@pytest.mark.parametrize(
    "change",
    [
        {"identity": "9" * 64},
        {"inputs": {"plan": Input("9" * 64, "3" * 64)}},
        first_file(size_bytes=99, sha256="9" * 64),
    ],
)
def test_codec_and_key_are_not_content(change):
    assert dataclasses.replace(OF_SHARDS, **change).content_id() == OF_SHARDS.content_id()


@pytest.mark.parametrize(
    "change",
    [
        {"config": dataclasses.replace(OF_SHARDS.config, target_tokens=6)},
        {"totals": dataclasses.replace(OF_SHARDS.totals, tokens=8)},
        {"languages": {}},
        {"inputs": {"plan": Input("2" * 64, "9" * 64)}},
        first_file(content_sha256="9" * 64),
        first_file(path="arrow/b.arrow"),
        first_file(about=dataclasses.replace(OF_SHARDS.files[0].about, documents=5)),
        {"files": ()},
    ],
)
def test_everything_else_is_content(change):
    assert dataclasses.replace(OF_SHARDS, **change).content_id() != OF_SHARDS.content_id()


def test_identity_follows_inputs_and_configuration():
    config = OF_SHARDS.config
    one = compute_identity("s", config, {"plan": Input("x", "y")}, {})
    assert one == compute_identity("s", config, {"plan": Input("x", "other content id")}, {})
    assert one != compute_identity("s", dataclasses.replace(config, by="plan"), {"plan": Input("x", "y")}, {})
    assert one != compute_identity("s", config, {"plan": Input("z", "y")}, {})
    assert one != compute_identity("s", config, {"plan": Input("x", "y")}, {"kernel": 2})


# ------------------------------------------------------------------------------------------------------ what is refused


def changed(path: tuple[str | int, ...], value: Any) -> bytes:
    """The bytes of OF_SHARDS with another value at a path; ... removes what is there."""
    content = json.loads(OF_SHARDS.to_bytes())
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return write_canonical_json(content)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("files", 0, "about", "tokens"), "x", "files[0].about.tokens: expected int, found 'x'"),
        (("files", 0, "about", "tokens"), ..., "files[0].about.tokens is missing"),
        (("files", 0, "about", "rows"), 3, "files[0].about: unknown field 'rows'"),
        (("files", 1, "about", "documents"), None, "files[1].about.documents: expected int, found None"),
        (("files", 1, "about"), [], "files[1].about: expected"),
        (("files", 0, "sha256"), 7, "files[0].sha256: expected str, found 7"),
        (("files",), {}, "files: expected a list, found {}"),
        (("totals", "records", "rejected", "bad_json"), True, "totals.records.rejected.bad_json: expected int"),
        (("totals", "tokenz"), 1, "totals: unknown field 'tokenz'"),
        (("totals",), ..., "totals is missing"),
        (("config", "by"), "week", "config.by: expected 'plan' or 'lang', found 'week'"),
        (("config", "append"), [1], "config.append[0]: expected str, found 1"),
        (("languages", "en", "bytes_per_token"), 7, "languages.en.bytes_per_token: expected str, found 7"),
        (("inputs", "plan"), "2" * 64, "inputs.plan: expected an object"),
        (("more",), 1, "unknown field 'more'"),
        (("stage",), "other", "stage: expected"),
        (("stage",), ["shards"], "stage: expected"),
        (("stage",), "counts", "stage: expected 'shards', found 'counts'"),
        (("format",), "zip", "format: expected 'tokcore-manifest', found 'zip'"),
        (("languages",), ..., "a field is missing"),
    ],
)
def test_damage_is_named_by_field(path, value, message):
    with pytest.raises(FormatError) as raised:
        parse_manifest(changed(path, value), NAME, SHARDS)
    assert str(raised.value).startswith(f"{NAME}: ")
    assert message in str(raised.value)


@pytest.mark.parametrize("made", MANIFESTS.values(), ids=MANIFESTS)
def test_a_field_too_many_is_refused_wherever_it_is(made):
    objects = [made.to_bytes().index(b"{")]
    while (at := made.to_bytes().find(b"{", objects[-1] + 1)) >= 0:
        objects.append(at)
    assert len(objects) > 3
    for at in objects:
        data = bytearray(made.to_bytes())
        rest = b"" if data[at + 1 : at + 2] == b"}" else b","
        data[at + 1 : at + 1] = b'"!":[]' + rest  # sorts before every name
        with pytest.raises(FormatError, match=r"^m: .*(unknown field '!'|!: expected)"):
            parse_manifest(bytes(data), "m", get_stage(made.stage))


def test_a_field_that_says_nothing_is_refused():
    data = write_canonical_json({**json.loads(MANIFESTS["counts"].to_bytes()), "root": ""})
    assert parse_manifest(data, "m") == MANIFESTS["counts"]
    value = json.loads(data)
    value["config"]["mask"] = []
    with pytest.raises(FormatError, match="says nothing"):
        parse_manifest(write_canonical_json(value), "m")


def test_what_is_not_canonical_is_refused():
    with pytest.raises(FormatError, match="canonical"):
        parse_manifest(OF_SHARDS.to_bytes().replace(b'"tokens":100', b'"tokens": 100'), "m")


def test_a_newer_format_names_the_mend():
    with pytest.raises(VersionError, match="upgrade tokcore"):
        parse_manifest(OF_SHARDS.to_bytes().replace(b'"format_version":2', b'"format_version":3'), "m")


def test_a_false_root_is_found():
    build = MANIFESTS["build"]
    rooted = dataclasses.replace(build, root=build.content_id())
    assert parse_manifest(rooted.to_bytes(), "m", WHOLE) == rooted
    with pytest.raises(ChecksumError, match="root"):
        parse_manifest(rooted.to_bytes().replace(b'"tokens":100', b'"tokens":101'), "m")


def test_a_file_that_must_be_there():
    assert OF_SHARDS.file("token_counts.parquet") == OF_SHARDS.files[1]
    with pytest.raises(FormatError, match=r"shards/manifest.json: names no tokens.parquet"):
        OF_SHARDS.file("tokens.parquet")
