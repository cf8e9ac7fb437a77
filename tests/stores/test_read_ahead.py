"""Small objects are fetched some at a time, before they are read: same requests, same errors, less waiting."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest
from stores.files import put
from stores.proxy import Faults
from stores.servers import Store

from tokcore.errors import StageError
from tokcore_pipelines.store import read_ahead, storage, whole_objects
from tokcore_pipelines.store.parallel_requests import MOST

NUM_FILES = 3 * MOST
AT_ONCE = 8  # at least; libraries have limits of their own


@pytest.fixture
def files(s3_here: Store) -> list[storage.FileId]:
    folder = s3_here.fresh()
    for number in range(NUM_FILES):
        put(s3_here, f"{folder}/{number:03d}", make_content(number))
    found = storage.list_files(f"{folder}/*")
    s3_here.proxy.reset()
    return list(found)


def make_content(number: int) -> bytes:
    return b"%d\n" % number * (number + 1)


def read_all(files: Iterator[storage.FileId | None]) -> list[bytes]:
    contents = []
    for file in files:
        assert file is not None
        with storage.open_pinned(file) as opened:
            contents.append(opened.read())
    return contents


def test_each_is_asked_for_once_and_some_at_a_time(s3_here: Store, files: list[storage.FileId]) -> None:
    together, asked = threading.Barrier(AT_ONCE), itertools.count()

    def wait(operation: str, key: str) -> bool:
        if operation == "GetObject" and next(asked) < AT_ONCE:
            together.wait(30)  # raises unless as many ask at the same time
        return False

    s3_here.proxy.faults = Faults({}, concerns=wait)
    reading = storage.read_ahead(files)
    assert read_all(reading) == [make_content(number) for number in range(NUM_FILES)]
    assert not together.broken
    assert s3_here.proxy.count() == {"GetObject": NUM_FILES}


def test_no_more_is_fetched_than_fits(
    s3_here: Store, files: list[storage.FileId], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "MOST_BYTES", 1)  # so that one waits
    monkeypatch.setattr(read_ahead, "SMALL_BYTES", len(make_content(9)))  # what is larger is read as it comes
    reading = storage.read_ahead([*files[:12], None])
    for number in range(12):
        assert next(reading) == files[number]
        assert {one.key[-3:] for one in s3_here.proxy.requests} <= {f"{one:03d}" for one in range(min(number + 1, 10))}
    assert next(reading) is None
    assert list(reading) == []


def test_files_that_are_read_again_are_not_asked_for(
    s3_here: Store, files: list[storage.FileId], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = read_ahead.KeptContents(sum(file.size_bytes for file in files))
    monkeypatch.setattr(read_ahead, "kept", kept)
    read_all(storage.read_ahead(files))
    put(s3_here, files[7].url, make_content(0))  # what is pinned is the version before
    s3_here.proxy.reset()
    assert read_all(storage.read_ahead(files)) == [make_content(number) for number in range(NUM_FILES)]
    assert s3_here.proxy.count() == {}


def test_what_is_forgotten_is_asked_for_again(s3_here: Store, files: list[storage.FileId]) -> None:
    for number in range(1, 3):
        read_all(storage.read_ahead(files))
        storage.forget_fetched()
        assert s3_here.proxy.count() == {"GetObject": number * NUM_FILES}


def test_the_least_recently_used_make_room() -> None:
    kept = read_ahead.KeptContents(10)
    first, second, third = (storage.FileId(f"s3://bucket/{number}", 4, "etag:1") for number in range(3))
    for file in (first, second):
        kept.add(file, b"four")
        kept.add(file, b"four")  # by two threads
    assert kept.find(first) == b"four"
    kept.add(third, b"4444")
    assert [kept.find(file) for file in (first, second, third)] == [b"four", None, b"4444"]
    kept.add(second, b"more than ten")
    assert [kept.find(file) for file in (first, second, third)] == [None, None, None]


@pytest.mark.parametrize("kind", ["s3", "gcs"])
def test_a_version_that_comes_with_the_bytes_is_compared(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Store = request.getfixturevalue(f"{kind}_here")
    url = f"{store.fresh()}/file"
    put(store, url, b"one")
    pinned = storage.stat(url)
    store.proxy.reset()
    assert whole_objects.read_version(pinned) == b"one"
    assert store.proxy.count()["GetObject"] == 1  # gcsfs may leave a request of stat() under way
    assert whole_objects.read_version(pinned._replace(size_bytes=2)) is None
    put(store, url, b"two")
    assert whole_objects.read_version(pinned) is None
    storage.remove_file(url)
    assert whole_objects.read_version(pinned) is None


def test_a_store_that_does_not_say_a_version_with_the_bytes_is_asked(
    s3_here: Store, files: list[storage.FileId], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_objects, "ASK", {})
    assert read_all(storage.read_ahead(files)) == [make_content(number) for number in range(NUM_FILES)]
    assert s3_here.proxy.count() == {"GetObject": NUM_FILES, "HeadObject": NUM_FILES}


@pytest.mark.parametrize("now", [6, "same size"])
def test_a_changed_file_is_named_where_it_is_read(s3_here: Store, files: list[storage.FileId], now: int | str) -> None:
    put(s3_here, files[5].url, make_content(now) if isinstance(now, int) else make_content(5).upper()[::-1])
    reading = storage.read_ahead(files)
    assert read_all(next(reading) for _ in range(5)) == [make_content(number) for number in range(5)]
    file = next(reading)
    assert file == files[5]
    with pytest.raises(StageError, match=r"005: input changed since it was planned \(.*\)\. Restore it"):
        storage.open_pinned(file)
    assert read_all(reading) == [make_content(number) for number in range(6, NUM_FILES)], "the others are not touched"


def test_what_a_store_refuses_once_is_asked_for_again(s3_here: Store, files: list[storage.FileId]) -> None:
    s3_here.proxy.faults = Faults({"slow_down": 0.2, "cut_body": 0.2})
    assert read_all(storage.read_ahead(files)) == [make_content(number) for number in range(NUM_FILES)]
    assert s3_here.proxy.faults.fired.keys() == {"slow_down", "cut_body"}


def test_local_files_are_read_as_they_come(tmp_path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (file,) = storage.read_ahead([storage.stat(str(tmp_path / "a"))])
    assert type(file) is storage.FileId
