"""A commit creates one manifest, after its files are durable and were read back, whatever a store answers."""

from __future__ import annotations

import dataclasses
import errno
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support.builds import ROOT, SETTINGS, build_file, run, small_corpus, tree
from support.graphs import MIXED_AND_PACKED
from support.manifests import MANIFESTS

from tokcore.errors import ConfigError, StageError
from tokcore_pipelines.build import stage
from tokcore_pipelines.build.commit import commit, find_manifest
from tokcore_pipelines.build.stage import _settle_objects, write_file
from tokcore_pipelines.check.gc import gc
from tokcore_pipelines.check.verify import verify
from tokcore_pipelines.store import retries, storage
from tokcore_pipelines.store.attempts import Attempts, publish
from tokcore_pipelines.store.crashpoints import watch
from tokcore_schemas import packed_entries
from tokcore_schemas.manifest import FileEntry
from tokcore_schemas.packed_entries import collect_entries
from tokcore_schemas.refs import StoredFile
from tokcore_schemas.run_json import RunFacts
from tokcore_schemas.stage_manifests import CountsManifest, TableAbout
from tokcore_schemas.stage_table import COUNTS, STAGES

OUTPUT = "memory://commit"
ATTEMPTS = Attempts(OUTPUT, "counts", "0" * 64)


@pytest.fixture(autouse=True)
def store(monkeypatch):
    """An empty store in memory, and no waiting between attempts."""
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0)
    MemoryFileSystem.store.clear()
    yield
    MemoryFileSystem.store.clear()


def write_one(name: str = "en.parquet") -> StoredFile:
    with ATTEMPTS.new_final(name) as new:
        new.file.write(b"rows" * 1000)
    return new.stored(name)


def manifest(identity: str = "0" * 64, files: tuple[StoredFile, ...] = ()) -> CountsManifest:
    entries = tuple(FileEntry.of(file, TableAbout("en", 1, 1, 4)) for file in files)
    return dataclasses.replace(MANIFESTS["counts"], identity=identity, files=entries)


def commit_all(made: CountsManifest, files: tuple[StoredFile, ...] = ()) -> CountsManifest:
    publish(ATTEMPTS, f"{OUTPUT}/counts", files)
    return commit(OUTPUT, made, RunFacts(), ATTEMPTS.scratch)


def faulty(monkeypatch, **methods):
    """Replace methods of the store; each replacement gets the real method as its first argument."""
    for name, method in methods.items():
        real = getattr(MemoryFileSystem, name)

        def replaced(self, *arguments, real=real, method=method, **options):
            return method(lambda *a, **o: real(self, *a, **o), *arguments, **options)

        monkeypatch.setattr(MemoryFileSystem, name, replaced)


# ----------------------------------------------------------------------------------------------- what a store may do


@pytest.mark.parametrize("raised", [TimeoutError("no answer"), OSError(errno.EIO, "no answer"), ConnectionResetError()])
def test_an_answer_that_is_lost_is_read_back_and_nothing_removed(monkeypatch, raised):
    """The store created the manifest, and the client saw an error: it is ours, it stays, and run.json follows."""
    removed = []

    def create(real, path, value, mode="overwrite", **options):
        real(path, value, mode=mode, **options)
        if path.endswith("manifest.json"):
            raise raised

    faulty(monkeypatch, pipe_file=create, rm_file=lambda real, path: (removed.append(path), real(path)))
    stored = write_one()
    made = manifest(files=(stored,))
    assert commit_all(made, (stored,)) == made
    assert find_manifest(OUTPUT, COUNTS) == made
    assert storage.exists(f"{OUTPUT}/counts/run.json")
    assert not [path for path in removed if "/counts/" in path and "_attempts" not in path]


def test_an_answer_that_is_lost_while_another_build_was_first(monkeypatch):
    theirs = manifest("1" * 64)

    def create(real, path, value, mode="overwrite", **options):
        if path.endswith("manifest.json") and not storage.exists(f"memory://{path.lstrip('/')}"):
            real(path, theirs.to_bytes())
            raise TimeoutError("no answer")
        real(path, value, mode=mode, **options)

    faulty(monkeypatch, pipe_file=create)
    with pytest.raises(ConfigError, match=r"another build has committed here in the meantime. Choose another"):
        commit_all(manifest())
    assert find_manifest(OUTPUT, COUNTS) == theirs


def test_a_store_that_never_creates_leaves_no_manifest(monkeypatch):
    def create(real, path, value, mode="overwrite", **options):
        raise TimeoutError("no answer")

    faulty(monkeypatch, pipe_file=create)
    with pytest.raises(StageError, match=r"cannot create, tried 8 times: no answer"):
        commit_all(manifest())
    monkeypatch.undo()
    assert find_manifest(OUTPUT, COUNTS) is None


def test_an_object_of_other_bytes_is_no_file_of_the_build(monkeypatch):
    """The store flips bits while it keeps an object: it is named, and removed, so that the next run can write it."""
    faulty(monkeypatch, pipe_file=lambda real, path, value, **options: real(path, value.upper(), **options))
    with pytest.raises(StageError, match=r"counts/en.parquet: written with sha256 .* read back with"):
        write_one()
    assert not storage.exists(f"{OUTPUT}/counts/en.parquet")
    monkeypatch.undo()
    assert write_one().size_bytes == 4000


def test_what_others_left_among_the_objects_goes_and_what_is_lost_is_named():
    stored = [write_one(name) for name in ("ar.parquet", "en.parquet", "fr.parquet")]
    for name in ("a", "em.parquet", "manifest.json", "run.json", "z/z"):
        with storage.write_attempt(f"{OUTPUT}/counts/{name}") as file:
            file.write(b"theirs")
    _settle_objects(ATTEMPTS, stored)
    kept = ["ar.parquet", "en.parquet", "fr.parquet", "manifest.json", "run.json"]
    assert storage.list_tree(f"{OUTPUT}/counts") == kept
    shorter = dataclasses.replace(stored[1], size_bytes=1)
    gone = [dataclasses.replace(stored[0], path=f"{name}.parquet") for name in ("gone", "too")]
    for lost, said in ((shorter, "en.parquet is gone, which this build wrote. R"), (gone[0], "gone.parquet is gone")):
        with pytest.raises(StageError, match=said):
            _settle_objects(ATTEMPTS, [stored[0], lost, stored[2]])
    with pytest.raises(StageError, match=r"en.parquet is gone, which this build wrote, and 2 more. Run"):
        _settle_objects(ATTEMPTS, [stored[0], shorter, *gone])
    assert storage.list_tree(f"{OUTPUT}/counts") == kept


def test_an_equal_object_that_is_there_counts_as_done_and_another_is_named():
    assert write_one() == write_one()
    storage.remove_file(f"{OUTPUT}/counts/en.parquet")
    with storage.write_attempt(f"{OUTPUT}/counts/en.parquet") as file:
        file.write(b"theirs")
    with pytest.raises(StageError, match=r"counts/en.parquet: is there with sha256 .*, and this build made .* gc"):
        write_one()
    assert storage.read_bytes(f"{OUTPUT}/counts/en.parquet") == b"theirs"


def test_a_lost_answer_to_the_creation_of_a_file(monkeypatch):
    """The object is there, and the client saw an error and then that the name is taken: it is ours."""

    def create(real, path, value, mode="overwrite", **options):
        real(path, value, mode=mode, **options)
        raise TimeoutError("no answer")

    faulty(monkeypatch, pipe_file=create)
    assert write_one().size_bytes == 4000


def test_objects_are_neither_copied_nor_moved(monkeypatch):
    def never(real, *arguments, **options):
        raise AssertionError("a copy")

    faulty(monkeypatch, cp_file=never)
    stored = write_one()
    made = manifest(files=(stored,))
    assert commit_all(made, (stored,)) == made
    assert storage.list_tree(f"{OUTPUT}/counts") == ["en.parquet", "manifest.json", "run.json"]


def test_a_small_file_that_a_killed_build_left_gives_way_to_the_one_with_the_claim():
    for data in (b"theirs", b"ours", b"ours"):
        stored = write_file(Attempts(OUTPUT, "plan", "0" * 64), "files.jsonl", data)
        assert storage.compute_sha256(f"{OUTPUT}/plan/files.jsonl") == stored.sha256
    with pytest.raises(ConfigError, match="another build is committing its plan"):
        write_file(Attempts(OUTPUT, "plan", "1" * 64), "files.jsonl", b"of another build")
    assert storage.read_bytes(f"{OUTPUT}/plan/files.jsonl") == b"ours"


def test_a_store_that_ignores_the_condition_is_refused(monkeypatch):
    storage.require_exclusive_creation(f"{OUTPUT}/probe")
    assert storage.list_tree(OUTPUT) == []
    faulty(monkeypatch, pipe_file=lambda real, path, value, mode="", **options: real(path, value, **options))
    with pytest.raises(ConfigError, match=r"memory://commit/probe: the store creates an object although its name is"):
        storage.require_exclusive_creation(f"{OUTPUT}/probe")
    assert storage.list_tree(OUTPUT) == []


def test_a_store_that_keeps_other_bytes(monkeypatch, tmp_path):
    """A bit flips between writing and reading back: the file is not recorded, so no manifest can name it."""
    attempts = Attempts(str(tmp_path), "counts", "0" * 64)
    with attempts.new_file("en.parquet") as new:
        new.file.write(b"rows")
    path = Path(attempts.url(new.attempt))
    path.write_bytes(b"rowt")
    with pytest.raises(StageError, match=r"read back with .*: the store does not keep what it is given"):
        new.stored("en.parquet")


def test_fsync_that_fails(monkeypatch, tmp_path):
    """Pages that the disk did not take are lost: the file is given up, and no manifest is created."""

    def failing(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    attempts = Attempts(str(tmp_path), "counts", "0" * 64)
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(StageError, match=r"cannot write: Input/output error"), attempts.new_file("en.parquet") as new:
        new.file.write(b"rows")
    with pytest.raises(StageError, match=r"cannot create: Input/output error"):
        commit(str(tmp_path), manifest(), RunFacts(), attempts.scratch)
    monkeypatch.undo()
    assert find_manifest(str(tmp_path), COUNTS) is None
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_no_manifest_is_there_before_its_files(tmp_path):
    """Whenever a build is stopped, every file that a manifest names exists and is as the manifest describes it."""
    small_corpus(tmp_path)
    out = tmp_path / "out"
    seen: set[str] = set()

    def look(_: str) -> None:
        for path in set(out.glob("*/manifest.json")) - {out / name for name in seen}:
            made = find_manifest(str(out), STAGES[path.parent.name])
            assert made is not None
            for entry in made.files:
                assert storage.compute_sha256(str(path.parent / entry.path)) == entry.sha256, f"{path}: {entry.path}"
            seen.add(path.relative_to(out).as_posix())

    watch(look)
    try:
        run(build_file(tmp_path), out)
    finally:
        watch(None)
    assert len(seen) == 5


# ------------------------------------------------------------------------------------------------------- two builds


def test_a_store_that_cannot_create_once_holds_no_output(tmp_path):
    """HfFileSystem checks whether a file exists and then overwrites it. It is refused without being imported."""
    small_corpus(tmp_path)
    with pytest.raises(
        ConfigError, match=r"build.output = hf://datasets/a/b: hf:// is for inputs only: .* s3, gs or az"
    ):
        run(build_file(tmp_path), "hf://datasets/a/b")


def test_a_build_of_very_many_files_is_the_same_build(tmp_path, monkeypatch):
    """Shuffled, mixed and packed: manifests that are written in pieces have the bytes of whole ones."""
    small_corpus(tmp_path)
    path = build_file(tmp_path, settings=f"{SETTINGS}{MIXED_AND_PACKED}")
    whole = run(path, tmp_path / "whole")
    monkeypatch.setattr(stage, "collect_entries", functools.partial(collect_entries, most=0))
    monkeypatch.setattr(packed_entries, "_BLOCK_ENTRIES", 2)
    assert run(path, tmp_path / "packed") == whole
    assert manifests(tmp_path / "packed") == manifests(tmp_path / "whole")
    assert verify(str(tmp_path / "packed")).problems == ()


def manifests(output: Path) -> dict[str, bytes]:
    return {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("manifest.json")}


@pytest.mark.parametrize("same", [True, False])
def test_two_builds_into_one_output(tmp_path, same):
    """Processes that start together, as two operators' would: one commits; if the builds are equal, both end well."""
    small_corpus(tmp_path)
    files = [build_file(tmp_path), build_file(tmp_path)]
    if not same:
        settings = "[plan]\nrange_bytes = 4000\n[learn]\nvocab_size = 390\n"
        files[1] = build_file(tmp_path, settings=settings, name="2.toml")
    out = str(tmp_path / "out")
    command = [sys.executable, "-m", "tokcore_pipelines.cli", "build", "--workers", "1", "--output", out]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([*command, str(file)], cwd=ROOT, **pipes) for file in files]
    ended = [(*process.communicate(), process.returncode) for process in processes]
    codes = [code for *_, code in ended]
    assert sorted(codes) == ([0, 0] if same else [0, 2]), "\n".join(errors for _, errors, _ in ended)
    if not same:
        assert "Choose another build.output" in ended[codes.index(2)][1]
    winner = files[codes.index(0)]
    assert verify(out).problems == ()
    run(winner, tmp_path / "alone")
    gc(out, "0")  # what the refused build left
    assert tree(tmp_path / "out") == tree(tmp_path / "alone")
