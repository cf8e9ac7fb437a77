"""Shards as one sequence: what is opened and what is refused; batches and digests of documents."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.token_batches import (
    EXAMPLE,
    FINGERPRINT,
    Document,
    add,
    batch_of,
    dealt,
    documents,
    rows_of,
    shard_bytes,
    write_arrow,
    write_megatron,
    write_shard,
)

import tokcore
from tokcore.errors import ChecksumError, FormatError, IdentityError, VersionError
from tokcore.files import ranged_files
from tokcore.files.canonical_json import write_canonical_json
from tokcore.formats.documents import SUFFIX as DOCUMENTS
from tokcore.formats.documents import get_documents_path
from tokcore.shards import opened_shards as shards_module
from tokcore.shards.format_table import SHARD_FORMATS, list_all_paths, list_paths
from tokcore.shards.opened_shards import ShardDocument, Shards, describe, open_shards
from tokcore.shards.token_batch import Rechunker, ShardContent, add_ids, compute_document_digests, join_batches

OTHER = "cd" * 32


def document(number: int) -> Document:
    return [number] * (number % 4), f"id-{number}", "en", "a.jsonl", number


TRAIN = [[document(0), document(1)], [], [document(2)], [document(3), document(4), document(5)]]
VALIDATION = [[document(6)]]


def write_build(
    output: Path, formats: tuple[str, ...] = ("arrow", "megatron"), lang: str = "", fingerprint: str = FINGERPRINT
) -> Path:
    """shards/ of a build as the encode stage leaves it, with the part of its manifest that readers look at."""
    entries = []
    for split, parts in (("train", TRAIN), ("validation", VALIDATION)):
        for number, rows in enumerate(parts):
            name = f"{split}-00003-{number:05d}"
            stem = lang + name
            for one in formats:
                paths = dict(zip(SHARD_FORMATS[one].suffixes, list_paths(SHARD_FORMATS[one], stem), strict=True))
                paths[DOCUMENTS] = get_documents_path(stem)
                for suffix, data in shard_bytes(one, [batch_of(rows)], fingerprint=fingerprint).items():
                    below = paths[suffix]
                    (output / "shards" / below).parent.mkdir(parents=True, exist_ok=True)
                    (output / "shards" / below).write_bytes(data)
            about = {
                "shard": name,
                "item": 0,
                "lang": lang.rstrip("/"),
                "split": split,
                "documents": len(rows),
                "tokens": sum(len(row[0]) for row in rows),
                "max_token_id": max((id for row in rows for id in row[0]), default=-1),
            }
            for path in list_all_paths(formats, stem):
                data = (output / "shards" / path).read_bytes()
                sha256 = hashlib.sha256(data).hexdigest()
                entries.append({"path": path, "size_bytes": len(data), "sha256": sha256, "about": about})
    manifest = {
        "stage": "shards",
        "format": "tokcore-manifest",
        "format_version": 1,
        "files": sorted(entries, key=lambda entry: str(entry["path"])),
        "totals": {"fingerprint": fingerprint, "shards": len(TRAIN) + len(VALIDATION)},
    }
    (output / "shards" / "manifest.json").write_bytes(write_canonical_json(manifest))
    return output


def change_manifest(output: Path, change) -> None:
    path = output / "shards" / "manifest.json"
    content = json.loads(path.read_bytes())
    change(content)
    path.write_bytes(write_canonical_json(content))


def ids_of(shards: Shards) -> list[str | None]:
    return [shards.document(i).id for i in range(len(shards))]


def tokens_of(shards: Shards) -> list[list[int]]:
    return [tokens.tolist() for tokens in shards]


@pytest.mark.parametrize("formats", [*((name,) for name in SHARD_FORMATS), ("arrow", "megatron"), tuple(SHARD_FORMATS)])
@pytest.mark.parametrize("with_manifest", [True, False])
def test_a_build_and_its_folders(tmp_path, formats, with_manifest):
    output = write_build(tmp_path / "out", formats)
    if not with_manifest:
        (output / "shards" / "manifest.json").unlink()
    places = [output / "shards", *(output / "shards" / name for name in formats), *([output] if with_manifest else [])]
    for place in places:
        for name, numbers in (("train", range(6)), ("validation", [6]), ("all", range(7))):
            shards = open_shards(place, name)
            assert ids_of(shards) == [f"id-{number}" for number in numbers]
            assert tokens_of(shards) == [document(number)[0] for number in numbers]
            assert shards.num_tokens == sum(number % 4 for number in numbers)
            assert shards.fingerprint == FINGERPRINT
            assert len(shards.paths) == {"train": 4, "validation": 1, "all": 5}[name]
    chosen = formats[0] if len(formats) == 1 else "megatron"
    assert all(f"/{chosen}/" in path for path in open_shards(output / "shards").paths)


def test_public_name_and_text_path(tmp_path):
    output = write_build(tmp_path / "out")
    assert tokens_of(tokcore.open_shards(str(output))) == [document(number)[0] for number in range(6)]


def test_a_folder_per_language(tmp_path):
    output = write_build(tmp_path / "out", lang="en/")
    for place in ("shards", "shards/megatron", "shards/megatron/en", "shards/arrow", "shards/arrow/en", "."):
        assert ids_of(open_shards(output / place)) == [f"id-{number}" for number in range(6)]


def test_indexing_is_that_of_a_sequence(tmp_path):
    shards = open_shards(write_build(tmp_path / "out"))
    assert len(shards) == 6
    assert shards[-1].tolist() == shards[5].tolist() == [5]
    assert shards[np.int64(3)].tolist() == [3, 3, 3]
    assert [tokens.tolist() for tokens in shards[1:4]] == [[1], [2, 2], [3, 3, 3]]
    assert [len(tokens) for tokens in shards[::-2]] == [1, 3, 1]
    assert [len(tokens) for tokens in reversed(shards)] == [1, 0, 3, 2, 1, 0]
    assert shards.document(-1) == ShardDocument("id-5", "en", "a.jsonl", 5)
    for index in (6, -7, 2**70):
        with pytest.raises(IndexError, match=r"of 6"):
            shards[index]
        with pytest.raises(IndexError):
            shards.document(index)
    with pytest.raises(TypeError):
        shards[0.5]  # type: ignore[call-overload]
    assert repr(shards) == "<Shards: 6 documents in 4 files>"


def test_arrays_are_views_and_read_only(tmp_path):
    write_build(tmp_path / "out")
    for name in ("megatron", "arrow"):
        shards = open_shards(tmp_path / "out" / "shards" / name)
        tokens = shards[3]
        assert tokens.dtype == np.int32
        assert not tokens.flags.owndata
        assert np.shares_memory(tokens, shards[3])
        with pytest.raises(ValueError, match="read-only"):
            tokens[0] = 1


def test_pickles_and_copies(tmp_path):
    shards = open_shards(write_build(tmp_path / "out"))
    shards[0]
    for again in (pickle.loads(pickle.dumps(shards)), copy.copy(shards), copy.deepcopy(shards)):
        assert tokens_of(again) == tokens_of(shards)
        assert again.fingerprint == shards.fingerprint
    assert len(pickle.dumps(shards)) < 2000


def test_pickles_into_another_process_and_folder(tmp_path, monkeypatch):
    write_build(tmp_path / "out")
    monkeypatch.chdir(tmp_path / "out" / "shards" / "megatron")
    shards = open_shards(".")
    assert ids_of(shards) == [f"id-{number}" for number in range(6)]
    (tmp_path / "pickled").write_bytes(pickle.dumps(shards))
    code = f"import pickle; print(len(pickle.load(open({str(tmp_path / 'pickled')!r}, 'rb'))[3]))"
    root = Path(tokcore.__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, cwd="/", env=environment)
    assert done.stdout == b"3\n", done.stderr


def test_threads_may_share_one_instance(tmp_path, monkeypatch):
    monkeypatch.setattr(shards_module, "MAX_OPEN", 2)
    rows = [([number] * (number % 7), str(number), "en", "s", number) for number in range(5000)]
    for part in range(5):
        write_arrow(tmp_path / f"{part}.arrow", rows[part * 1000 : part * 1000 + 1000])
    shards = open_shards(tmp_path)
    failed = threading.Event()

    def read(seed: int) -> None:
        for index in np.random.default_rng(seed).integers(0, 5000, 300).tolist():
            if shards[index].tolist() != rows[index][0] or shards.document(index).id != str(index):
                failed.set()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(8)))
    assert not failed.is_set()


@pytest.mark.parametrize("format", SHARD_FORMATS)
def test_lists_and_slices(tmp_path, format):
    shards = open_shards(write_build(tmp_path / "out", (format,)))
    every = tokens_of(shards)
    for index in ([5, 0, 3, 3, -1], (2,), np.array([4, 1]), range(1, 3), [], iter([np.int64(2)])):
        numbers = list(index)
        for found in (shards[numbers if hasattr(index, "__next__") else index], shards.copy(numbers)):
            assert [tokens.tolist() for tokens in found] == [every[number] for number in numbers]
    for part in (slice(1, 4), slice(None, None, -2), slice(-2, 99)):
        assert [tokens.tolist() for tokens in shards[part]] == every[part]
        assert [tokens.tolist() for tokens in shards.copy(part)] == every[part]


@pytest.mark.parametrize("format", SHARD_FORMATS)
def test_copies_are_writable(tmp_path, format):
    shards = open_shards(write_build(tmp_path / "out", (format,)))
    assert not shards[3].flags.writeable
    for own in (shards.copy(3), *shards.copy([3, 2]), *shards.copy(slice(2, 4))):
        assert own.flags.writeable
        assert own.flags.owndata
        assert own.dtype == np.int32
        own[:] = 77
    assert tokens_of(shards) == [document(number)[0] for number in range(6)]
    assert shards.copy(3, np.int64).dtype == shards.copy([3], np.int64)[0].dtype == np.int64


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        ([0, 6], IndexError, "document 6 of 6"),
        ([0, 1.0], TypeError, r"index 1 of the list is 1\.0: expected an integer"),
        ([True, False], TypeError, "index 0 of the list is True"),
        (np.array([True]), TypeError, "index 0 of the list is .*True"),
        ("3", TypeError, "index 0 of the list is '3'"),
        ([[0]], TypeError, r"index 0 of the list is \[0\]"),
        (None, TypeError, "NoneType"),
    ],
)
def test_what_is_no_index(tmp_path, index, error, message):
    shards = open_shards(write_build(tmp_path / "out"))
    with pytest.raises(error, match=message):
        shards[index]
    with pytest.raises(error, match=message):
        shards.copy(index)


@pytest.fixture
def bucket(tmp_path) -> Iterator[str]:
    """A URL whose files are those of tmp_path/out, once a build is there."""
    memory = fsspec.filesystem("memory")
    yield "memory://bucket"
    memory.rm("/bucket", recursive=True)


def upload(folder: Path, url: str) -> None:
    fsspec.filesystem("memory").put(f"{folder}/", url, recursive=True)


@pytest.mark.parametrize("formats", [*((name,) for name in SHARD_FORMATS), ("arrow", "megatron"), tuple(SHARD_FORMATS)])
def test_shards_at_a_url_are_those_of_the_folder(tmp_path, bucket, formats):
    upload(write_build(tmp_path / "out", formats), bucket)
    for split in ("train", "validation", "all"):
        local = open_shards(tmp_path / "out", split)
        assert_equal_shards(open_shards(bucket, split), local)
        assert_equal_shards(open_shards(bucket, split, tmp_path / split), local)
    for below in ("/shards", "/"):
        assert_equal_shards(open_shards(bucket + below, "all"), local)


def assert_equal_shards(shards: Shards, local: Shards) -> None:
    assert tokens_of(shards) == tokens_of(local)
    assert ids_of(shards) == ids_of(local)
    assert shards.num_tokens == local.num_tokens
    for ours, theirs in zip(shards.list_files(), local.list_files(), strict=True):
        ours, theirs = ours.open(), theirs.open()
        assert rows_of(ours.batches()) == rows_of(theirs.batches())
        assert ours.part(0, ours.num_tokens).tolist() == theirs.part(0, theirs.num_tokens).tolist()


def test_only_shards_that_are_asked_for_are_copied_and_only_once(tmp_path, bucket):
    upload(write_build(tmp_path / "out"), bucket)
    cache = tmp_path / "cache"
    shards = open_shards(bucket, cache=cache)

    def copies() -> list[str]:
        return sorted(path.name for path in cache.rglob("*") if path.is_file())

    assert copies() == ["manifest.json"]
    expected = shards[0].tolist()
    assert [name.split("_")[0] for name in copies() if "text" in name] == ["train-00003-00000"] * 2
    fsspec.filesystem("memory").rm(f"{bucket}/shards/megatron", recursive=True)
    again = pickle.loads(pickle.dumps(open_shards(bucket, cache=cache)))
    assert again[0].tolist() == expected
    with pytest.raises(FileNotFoundError):
        tokens_of(again)


@pytest.mark.parametrize("format", [name for name, one in SHARD_FORMATS.items() if not one.reads_ranges])
def test_what_is_copied_without_a_cache_has_no_name(tmp_path, bucket, format, monkeypatch):
    """A shard takes room on the disk only as long as it is open."""
    upload(write_build(tmp_path / "out", (format,)), bucket)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    shards = open_shards(bucket)
    assert shards[1].tolist() == document(1)[0]
    assert list((tmp_path / "scratch").iterdir()) == []
    assert shards.document(5).id == "id-5"


def test_a_format_that_is_read_by_ranges_comes_first_at_a_url(tmp_path, bucket):
    upload(write_build(tmp_path / "out", ("huggingface", "arrow")), bucket)
    assert [one.format for one in open_shards(bucket).list_files()] == ["arrow"] * 4
    assert [one.format for one in open_shards(tmp_path / "out").list_files()] == ["huggingface"] * 4


@pytest.mark.parametrize("name", ["../a.arrow", "/a.arrow", "a//b.arrow", "s3://a/b.arrow"])
def test_a_manifest_at_a_url_names_what_is_below_it(tmp_path, bucket, name):
    build = write_build(tmp_path / "out", ("arrow",))
    change_manifest(build, lambda content: content["files"][0].update(path=name))
    upload(build, bucket)
    with pytest.raises(FormatError, match="which is not below its folder"):
        open_shards(bucket)


def test_a_file_at_a_url_that_is_gone_or_short_is_named(tmp_path, bucket, monkeypatch):
    monkeypatch.setattr(ranged_files, "kept_blocks", ranged_files._Blocks())
    upload(write_build(tmp_path / "out", ("arrow",)), bucket)
    memory = fsspec.filesystem("memory")
    first, other, *_ = sorted(memory.glob("/bucket/shards/arrow/train-*"))
    memory.pipe(first, memory.cat(first)[:-1])
    memory.rm(other)
    shards = open_shards(bucket)
    with pytest.raises(ChecksumError, match=r"memory://bucket/shards/arrow/train-.*: ends at byte \d+, the manifest"):
        shards[0]
    with pytest.raises(FormatError, match=r"memory://bucket/shards/arrow/train-.*: cannot be read"):
        shards.list_files()[1].open()


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: bytes([data[0] ^ 1]) + data[1:]])
def test_a_changed_file_at_a_url_is_refused(tmp_path, bucket, damage):
    upload(write_build(tmp_path / "out", ("arrow",)), bucket)
    memory = fsspec.filesystem("memory")
    (path, *_) = sorted(memory.glob("/bucket/shards/arrow/train-*"))
    memory.pipe(path, damage(memory.cat(path)))
    with pytest.raises(ChecksumError, match=r"memory://bucket/shards/arrow/train-.*: sha256 is"):
        open_shards(bucket, cache=tmp_path / "cache")[0]
    assert not [file for file in (tmp_path / "cache").rglob("*") if file.name != "manifest.json" and file.is_file()]


def test_urls_without_shards(tmp_path):
    with pytest.raises(FormatError, match=r"memory://nothing: no output of a build"):
        open_shards("memory://nothing")
    with pytest.raises(FormatError, match=r"nowhere://bucket/out/log/1.json: cannot be read: Protocol"):
        open_shards("nowhere://bucket/out")
    build = write_build(tmp_path / "out")
    assert tokens_of(open_shards(f"file://{build}")) == tokens_of(open_shards(build))


def test_opening_local_shards_loads_no_file_systems(tmp_path):
    build = write_build(tmp_path / "out")
    code = f"import sys, tokcore; tokcore.open_shards('{build}')[0]; print('fsspec' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_few_files_are_open_at_a_time(tmp_path):
    for number in range(shards_module.MAX_OPEN + 20):
        write_megatron(tmp_path / f"{number:03d}", [document(number)])
    shards = open_shards(tmp_path)
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir())) if descriptors.exists() else 0
    assert [len(tokens) for tokens in shards] == [number % 4 for number in range(len(shards))]
    assert shards._opened.cache_info().currsize == shards_module.MAX_OPEN
    if descriptors.exists():
        assert len(list(descriptors.iterdir())) < before + 4 * shards_module.MAX_OPEN


def test_a_manifest_spares_opening_files(tmp_path, monkeypatch):
    output = write_build(tmp_path / "out")
    opened = []
    real = shards_module.OpenableShard.open
    monkeypatch.setattr(shards_module.OpenableShard, "open", lambda one: opened.append(one) or real(one))
    shards = open_shards(output)
    assert (len(shards), shards.num_tokens, shards.fingerprint) == (6, 7, FINGERPRINT)
    assert opened == []
    shards[2]
    assert len(opened) == 1


def test_readers_see_only_what_the_manifest_names(tmp_path):
    output = write_build(tmp_path / "out")
    write_megatron(output / "shards" / "megatron" / "train-00009-00000", [document(9)])
    write_arrow(output / "shards" / "arrow" / "train-00009-00000.arrow", [document(9)])
    write_arrow(output / "_attempts" / "shards-x" / "train-00009-00000.arrow", [document(9)])
    for place in (".", "shards", "shards/arrow", "shards/megatron"):
        assert len(open_shards(output / place)) == 6


def test_unfinished_builds_are_not_read(tmp_path):
    output = tmp_path / "out"
    write_arrow(output / "_attempts" / "shards-x" / "files" / "train-00000-00000.arrow", [document(0)])
    with pytest.raises(FormatError, match="build without shards"):
        open_shards(output)


def test_missing_places(tmp_path):
    with pytest.raises(FormatError, match="no such file or folder"):
        open_shards(tmp_path / "nothing")
    with pytest.raises(FormatError, match="no shards in it"):
        open_shards(tmp_path)
    with pytest.raises(ValueError, match="train, validation, all"):
        open_shards(tmp_path, split="test")
    output = write_build(tmp_path / "out")
    (output / "shards" / "arrow" / "sw").mkdir()
    with pytest.raises(FormatError, match="no shards in it"):
        open_shards(output / "shards" / "arrow" / "sw")


def test_a_manifest_without_shards_is_an_empty_sequence(tmp_path):
    output = write_build(tmp_path / "out")
    change_manifest(output, lambda manifest: manifest.update(files=[]))
    shards = open_shards(output)
    assert (len(shards), shards.num_tokens, list(shards), shards.fingerprint) == (0, 0, [], FINGERPRINT)


def test_other_manifests_are_passed_over(tmp_path):
    write_arrow(tmp_path / "web" / "x.arrow", EXAMPLE)
    (tmp_path / "web" / "manifest.json").write_text('{ "name": "a web application" }')
    (tmp_path / "manifest.json").write_text("[1, 2]")
    assert len(open_shards(tmp_path / "web")) == len(EXAMPLE)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda m: m.update(format_version=3), VersionError, "format_version 3, this release reads 1 and 2"),
        (lambda m: m.pop("files"), FormatError, "files is missing"),
        (lambda m: m.update(files=3), FormatError, "files: expected a list, found 3"),
        (lambda m: m.update(totals=[]), FormatError, "totals: expected an object"),
        (lambda m: m["totals"].update(fingerprint=None), FormatError, r"totals\.fingerprint: expected str, found None"),
        (lambda m: m["files"][0].update(path="../../etc/x.arrow"), FormatError, "not below its folder"),
        (lambda m: m["files"][0].update(path="/etc/x.arrow"), FormatError, "not below its folder"),
        (lambda m: m["files"][0].update(path="a\0.arrow"), FormatError, "not below its folder"),
        (lambda m: m["files"][0]["about"].update(documents=2**63), FormatError, "more than any disk holds"),
        (lambda m: m["files"][0].update(path=7), FormatError, r"files\[0\]\.path: expected str, found 7"),
        (lambda m: m["files"][0]["about"].update(documents=-1), FormatError, r"files\[0\]\.about: expected two counts"),
        (
            lambda m: m["files"][0]["about"].update(tokens="x"),
            FormatError,
            r"files\[0\]\.about\.tokens: expected int, found 'x'",
        ),
        (lambda m: m["files"][0].pop("about"), FormatError, r"files\[0\]\.about is missing"),
        (lambda m: m["files"][0]["about"].pop("lang"), FormatError, r"files\[0\]\.about\.lang is missing"),
    ],
)
def test_forged_manifests_are_refused(tmp_path, change, error, message):
    output = write_build(tmp_path / "out")
    change_manifest(output, change)
    with pytest.raises(error, match=message) as caught:
        open_shards(output)
    assert str(output / "shards" / "manifest.json") in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"stage": "shards"}', b"[" * 100_000])
def test_damaged_manifests_are_refused(tmp_path, data):
    output = write_build(tmp_path / "out")
    (output / "shards" / "manifest.json").write_bytes(data)
    with pytest.raises(FormatError, match=r"manifest\.json: not (a manifest|canonical JSON)"):
        open_shards(output / "shards" / "megatron")


def test_files_that_differ_from_the_manifest_are_refused_when_read(tmp_path):
    output = write_build(tmp_path / "out")
    for file in (output / "shards" / "megatron").glob("train-00003-00003*"):
        file.unlink()
    shards = open_shards(output)
    assert shards[0].tolist() == []
    with pytest.raises(FormatError, match=r"train-00003-00003_text_document\.idx: cannot be opened"):
        shards[3]
    write_megatron(output / "shards" / "megatron" / "train-00003-00003", [document(3)])
    with pytest.raises(FormatError, match="1 documents, expected 3"):
        open_shards(output)[3]


def test_shards_of_two_tokenizers_are_told_apart(tmp_path):
    write_arrow(tmp_path / "plain" / "a.arrow", EXAMPLE)
    write_arrow(tmp_path / "plain" / "b.arrow", EXAMPLE, fingerprint=OTHER)
    with pytest.raises(IdentityError, match=r"a\.arrow and .*b\.arrow were written with different tokenizers"):
        open_shards(tmp_path / "plain")
    output = write_build(tmp_path / "out")
    rows = TRAIN[3]
    write_megatron(output / "shards" / "megatron" / "train-00003-00003", rows, fingerprint=OTHER)
    shards = open_shards(output)
    assert shards[2].tolist() == [2, 2]
    with pytest.raises(IdentityError, match=f"written with tokenizer {OTHER}, the other shards with {FINGERPRINT}"):
        shards[3]


def test_formats_that_hold_different_shards_are_refused(tmp_path):
    write_arrow(tmp_path / "a.arrow", EXAMPLE)
    write_arrow(tmp_path / "b.arrow", EXAMPLE)
    write_megatron(tmp_path / "a", EXAMPLE)
    with pytest.raises(FormatError, match=r"1 megatron and 2 arrow shards, which are not the same"):
        open_shards(tmp_path)


def test_one_shard(tmp_path):
    """The path of any of its files opens it, with or without suffix; a single one is opened whatever its split."""
    unsigned = ("datatrove", "llmc", "nanogpt", "olmo")
    for name, one in SHARD_FORMATS.items():
        stem = tmp_path / name / "validation-x"
        main = write_shard(name, stem, EXAMPLE)
        for path in (stem, *(f"{stem}{suffix}" for suffix in one.suffixes)):
            shards = open_shards(path)
            assert tokens_of(shards) == [row[0] for row in EXAMPLE]
            assert [tuple(shards.document(i)) for i in range(4)] == [row[1:] for row in EXAMPLE]
            assert describe(path) == {
                "path": main,
                "format": name,
                "dtype": "uint32" if name in unsigned else "int32",
                "documents": 4,
                "tokens": 6,
                "tokenizer": FINGERPRINT,
            }
    write_arrow(tmp_path / "arrow" / "y.arrow", EXAMPLE)
    with pytest.raises(FormatError, match="a folder of 2 shards; name one of them"):
        describe(tmp_path / "arrow")


def test_a_file_that_is_no_shard_is_refused(tmp_path):
    write_megatron(tmp_path / "x", EXAMPLE)
    with pytest.raises(FormatError, match=r"x\.documents: not a file by which a shard goes: .*\.bin"):
        open_shards(tmp_path / "x.documents")


@given(documents, st.lists(st.integers(0, 20), max_size=5), st.integers(1, 9), st.integers(1, 5), st.integers(1, 30))
def test_rechunking_follows_the_documents_alone(rows, cuts, max_tokens, max_documents, max_chars):
    def cut(batches):
        rechunker = Rechunker(max_tokens, max_documents, max_chars)
        chunks = [rows_of([chunk]) for batch in batches for chunk in rechunker.add(batch)]
        return chunks + [rows_of([chunk]) for chunk in rechunker.rest()]

    expected: list[list[Document]] = []
    full = True
    for row in rows:
        if full:
            expected.append([])
        expected[-1].append(row)
        tokens = sum(len(row[0]) for row in expected[-1])
        chars = sum(len(row[1] or "") + len(row[2]) + len(row[3]) for row in expected[-1])
        full = tokens >= max_tokens or len(expected[-1]) >= max_documents or chars >= max_chars
    assert cut([batch_of(rows)]) == expected
    assert cut(dealt(batch_of(rows), cuts)) == expected


@given(documents, st.lists(st.integers(0, 20), max_size=5))
def test_content_ignores_batches(rows, cuts):
    one, many = ShardContent(), ShardContent()
    add(one, batch_of(rows))
    for batch in dealt(batch_of(rows), cuts):
        add(many, batch)
    assert one.hexdigest() == many.hexdigest()
    assert (one.num_documents, one.num_tokens, one.max_token_id) == (
        many.num_documents,
        many.num_tokens,
        many.max_token_id,
    )


@pytest.mark.parametrize(
    "row",
    [
        ([1, 2, 4], "one", "en", "a.jsonl", 0),
        ([1, 2], "one", "en", "a.jsonl", 0),
        ([1, 2, 3], None, "en", "a.jsonl", 0),
        ([1, 2, 3], "", "en", "a.jsonl", 0),
        ([1, 2, 3], "one", "em", "a.jsonl", 0),
        ([1, 2, 3], "one", "en", "b.jsonl", 0),
        ([1, 2, 3], "one", "en", "a.jsonl", 1),
    ],
)
def test_content_tells_apart(row):
    digests = set()
    for first in (EXAMPLE[0], row):
        content = ShardContent()
        add(content, batch_of([first, *EXAMPLE[1:]]))
        digests.add(content.hexdigest())
    moved = ShardContent()  # the same tokens, another bound between documents
    add(moved, batch_of([([1, 2], *EXAMPLE[0][1:]), ([3], *EXAMPLE[1][1:]), *EXAMPLE[2:]]))
    digests.add(moved.hexdigest())
    assert len(digests) == 3


@given(documents)
def test_document_digests_by_the_book(rows):
    batch = batch_of(rows)
    expected = [
        hashlib.sha256(
            b"tokcore-document-tokens-v1\0"
            + struct.pack("<I", len(lang.encode()))
            + lang.encode()
            + struct.pack(f"<{len(tokens)}i", *tokens)
        ).digest()
        for tokens, _, lang, _, _ in rows
    ]
    assert compute_document_digests(batch.langs, batch.tokens, batch.offsets) == expected
    moved = np.concatenate([[9], batch.tokens]).astype(np.int32)
    assert compute_document_digests(batch.langs, moved, batch.offsets + 1) == expected


some_ids = st.lists(st.integers(0, 9), max_size=3)


@given(documents, st.lists(st.integers(0, 20), max_size=5), some_ids, some_ids)
def test_batches_take_join_and_gain_ids(rows, cuts, prepend, append):
    batch = batch_of(rows)
    assert rows_of(dealt(batch, cuts)) == rows_of([join_batches(dealt(batch, cuts))]) == rows
    assert rows_of([batch.take(range(len(rows))[::-1])]) == rows[::-1]
    tokens, offsets = add_ids(batch.tokens, batch.offsets, prepend, append)
    expected = [([*prepend, *row[0], *append], *row[1:]) for row in rows]
    assert rows_of([batch._replace(tokens=tokens, offsets=offsets)]) == expected
    assert tokens.dtype == np.int32
    assert rows_of([batch.without_tokens()]) == [([], *row[1:]) for row in rows]
