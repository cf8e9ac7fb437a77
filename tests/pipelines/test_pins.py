"""A file that changes after it was listed is an error that names it; old and new content are never mixed."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fakes.sitecustomize import FakeS3
from support.builds import SETTINGS, SOURCES, build_file, jsonl, small_corpus, write
from test_read import reading

from tokcore.errors import StageError
from tokcore_pipelines.build.build import Build
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.reading import limits
from tokcore_pipelines.reading.input_range import read_documents
from tokcore_pipelines.store import storage
from tokcore_schemas.config import load_config

LISTED = 1_700_000_000_000_000_000  # long ago, so that whatever is written now has another time


def documents(letter: str) -> list[dict[str, str]]:
    return [{"text": letter * 100_000 + str(i)} for i in range(200)]


def content(kind: str, letter: str) -> bytes:
    """Twenty megabytes of text, several batches; of equal size for every letter."""
    if kind == "parquet":
        sink = io.BytesIO()
        table = pa.table({"text": [document["text"] for document in documents(letter)]})
        pq.write_table(table, sink, row_group_size=20, use_dictionary=False, compression="none")
        return sink.getvalue()
    return gzip.compress(jsonl(documents(letter)), 0, mtime=0) if kind == "gz" else jsonl(documents(letter))


def overwritten(path: Path, other: bytes) -> None:
    path.write_bytes(other)


def replaced(path: Path, other: bytes) -> None:
    """Replace a file by one of the same size and time, as rsync or cp -p may do."""
    path.with_suffix(".new").write_bytes(other)
    os.utime(path.with_suffix(".new"), ns=(LISTED, LISTED))
    path.with_suffix(".new").rename(path)


def cut(path: Path, _: bytes) -> None:
    os.truncate(path, path.stat().st_size // 2)


def grown(path: Path, _: bytes) -> None:
    with path.open("ab") as file:
        file.write(b'{"text": "more"}\n')


def deleted(path: Path, _: bytes) -> None:
    path.unlink()


CHANGES = [overwritten, replaced, cut, grown, deleted]
KINDS = {"jsonl": reading(), "gz": reading(compression="gz"), "parquet": reading(format="parquet", unit="")}


def listed(path: Path, data: bytes) -> storage.FileId:
    path.write_bytes(data)
    os.utime(path, ns=(LISTED, LISTED))
    (pin,) = storage.list_files(str(path))
    return pin


@pytest.fixture(autouse=True)
def _nothing_is_kept(monkeypatch):
    """Keep nothing in memory: all is read from the file, and compressed files are read twice, as large ones are."""
    monkeypatch.setattr(limits, "KEPT_BYTES", 0)
    monkeypatch.setattr(limits, "IN_MEMORY_BYTES", 0)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_changes_while_it_is_read(tmp_path, kind, change):
    pin = listed(tmp_path / "corpus.file", content(kind, "a"))
    batches = read_documents(pin, 0, pin.size_bytes, KINDS[kind])
    next(batches)
    change(tmp_path / "corpus.file", content(kind, "b"))
    with pytest.raises(StageError, match=r"corpus\.file: input changed since it was planned"):
        list(batches)


@pytest.mark.parametrize("change", [c for c in CHANGES if c is not replaced])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_changed_since_it_was_listed(tmp_path, kind, change):
    pin = listed(tmp_path / "corpus.file", content(kind, "a"))
    change(tmp_path / "corpus.file", content(kind, "b"))
    with pytest.raises(StageError, match=r"corpus\.file: input changed since it was planned"):
        list(read_documents(pin, 0, pin.size_bytes, KINDS[kind]))


@pytest.mark.parametrize("change", CHANGES)
def test_a_range_of_a_file_that_changes(tmp_path, change):
    pin = listed(tmp_path / "corpus.file", content("jsonl", "a"))
    batches = read_documents(pin, pin.size_bytes // 3, 2 * pin.size_bytes // 3, reading())
    next(batches)
    change(tmp_path / "corpus.file", content("jsonl", "b"))
    with pytest.raises(StageError, match=r"corpus\.file: input changed since it was planned"):
        list(batches)


@pytest.mark.parametrize("store", ["etag", "memory"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_object_of_a_store_that_changes(tmp_path, kind, store, monkeypatch):
    url = "memory://bucket/corpus.file"
    if store == "etag":
        url = "s3://bucket/corpus.file"
        monkeypatch.setenv("FAKE_S3", str(tmp_path))
        monkeypatch.setattr(fsspec, "filesystem", lambda *_, **__: FakeS3())

    def put(letter: str) -> None:
        """As many bytes, in a new file: the fake store takes its inode as the etag."""
        if store == "etag":
            (tmp_path / "bucket").mkdir(exist_ok=True)
            (tmp_path / "new").write_bytes(content(kind, letter))
            (tmp_path / "new").rename(tmp_path / "bucket" / "corpus.file")
        else:
            with storage.write_attempt(url) as file:
                file.write(content(kind, letter))

    put("a")
    (pin,) = storage.list_files(url)
    assert pin.version.startswith("etag:" if store == "etag" else "modified:")
    batches = read_documents(pin, 0, pin.size_bytes, KINDS[kind])
    next(batches)
    put("b")
    with pytest.raises(StageError, match=r"corpus\.file: input changed since it was planned"):
        list(batches)
    with pytest.raises(StageError, match=r"corpus\.file: input changed since it was planned"):
        list(read_documents(pin, 0, pin.size_bytes, KINDS[kind]))


@pytest.mark.parametrize("change", [overwritten, cut, grown, deleted])
def test_a_build_whose_input_changes_after_its_plan(tmp_path, change):
    small_corpus(tmp_path)
    build = Build(load_config(str(build_file(tmp_path, SOURCES, SETTINGS))), RunOptions(1), str(tmp_path / "out"))
    os.utime(tmp_path / "ru.jsonl", ns=(LISTED, LISTED))
    build.plan()
    data = (tmp_path / "ru.jsonl").read_bytes()
    change(tmp_path / "ru.jsonl", data)
    with pytest.raises(StageError, match=r"ru\.jsonl: input changed since it was planned"):
        build.count()
    assert not (tmp_path / "out" / "counts").exists()
    assert not (tmp_path / "out" / "rejected").exists()
    write(tmp_path / "ru.jsonl", data)
    os.utime(tmp_path / "ru.jsonl", ns=(LISTED, LISTED))
    build.count()  # once the file is restored, the build goes on
