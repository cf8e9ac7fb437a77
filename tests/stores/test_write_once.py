"""Objects are written once, under their final names, and the store compares what it got."""

from __future__ import annotations

import contextlib
import hashlib

import pytest
from stores.servers import Store

from tokcore.errors import StageError
from tokcore_pipelines.store import objects, storage
from tokcore_pipelines.store.attempts import Attempts

_SIZES = [0, 100, objects.BLOCK_BYTES + 1]  # an empty object, one of one request, one of several


@pytest.fixture
def folder(store: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    return store.fresh()


def _write(folder: str, data: bytes) -> str:
    attempts = Attempts(folder, "shards", "0" * 64)
    with attempts.new_final("a/b.bin") as new:
        for start in range(0, len(data), 1 << 20):
            new.file.write(data[start : start + (1 << 20)])
    stored = new.stored("a/b.bin")
    assert (stored.attempt, stored.size_bytes, stored.sha256) == ("", len(data), hashlib.sha256(data).hexdigest())
    return attempts.find(stored)


@pytest.mark.parametrize("size", _SIZES)
def test_a_file_is_written_once(folder: str, size: int) -> None:
    """It has its name and nothing else is there; equal bytes count as done, others are refused and stay away."""
    data = bytes(range(250)) * (size // 250 + 1)
    data = data[:size]
    url = _write(folder, data)
    assert {path: its.size_bytes for path, its in storage.list_footprints(folder).items()} == {"shards/a/b.bin": size}
    assert storage.read_bytes(url) == data
    assert _write(folder, data) == url
    with pytest.raises(StageError, match=r"b\.bin: is there with sha256 .*, and this build made"):
        _write(folder, data[::-1] + b"!")
    assert storage.read_bytes(url) == data


@pytest.mark.parametrize("size", [100, objects.BLOCK_BYTES + 1])
def test_a_writer_that_fails_leaves_no_object(folder: str, size: int) -> None:
    with contextlib.suppress(ZeroDivisionError), storage.write_once(f"{folder}/a") as new:
        new.write(bytes(size))
        raise ZeroDivisionError
    assert storage.list_tree(folder) == []


def test_creation_is_probed(folder: str) -> None:
    storage.require_exclusive_creation(f"{folder}/probe")
    assert storage.list_tree(folder) == []


@pytest.mark.usefixtures("s3_here")
def test_s3_confirms_without_being_read(s3: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sha256 that S3 keeps is asked for: neither one request nor several are read back."""

    def never(url: str) -> str:
        raise AssertionError(f"{url} is read back")

    monkeypatch.setattr(objects, "compute_sha256", never)
    for size in (100, objects.BLOCK_BYTES + 1):
        _write(s3.fresh(), bytes(size))
