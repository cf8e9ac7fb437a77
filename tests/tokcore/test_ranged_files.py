"""Files at URLs, read by ranges: the right bytes, few requests, bounded memory."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import fsspec
import numpy as np
import pytest

from tokcore.errors import ChecksumError, FormatError
from tokcore.files import ranged_files, url_files
from tokcore.files.ranged_files import BLOCK_BYTES, MOST_AHEAD_BYTES, MOST_KEPT_BYTES, RangedFile, RangedIds

SIZE = 40 * BLOCK_BYTES + 1234
URL = "memory://ranged/file"


@pytest.fixture
def data() -> Iterator[bytes]:
    memory = fsspec.filesystem("memory")
    made = random.Random(0).randbytes(SIZE)
    memory.pipe("/ranged/file", made)
    yield made
    memory.rm("/ranged", recursive=True)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The ranges that are asked for, from now on."""
    ranges: list[tuple[int, int]] = []

    def read_range(url: str, start: int, end: int) -> bytes:
        ranges.append((start, end))
        return url_files.read_range(url, start, end)

    monkeypatch.setattr(ranged_files, "read_range", read_range)
    monkeypatch.setattr(ranged_files, "kept_blocks", ranged_files._Blocks())
    return ranges


def test_any_range_is_the_files(data: bytes, asked: list[tuple[int, int]]) -> None:
    file, chance = RangedFile(URL, SIZE, "a"), random.Random(1)
    for _ in range(300):
        start = chance.randrange(SIZE + 10)
        end = start + chance.choice([0, 1, 100, BLOCK_BYTES, 5 * BLOCK_BYTES])
        assert file.read_range(start, end) == data[start:end]
    assert sum(end - start for start, end in asked) <= SIZE, "nothing twice, while there is room for all"


def test_it_is_a_file(data: bytes) -> None:
    file = RangedFile(URL, SIZE, "a")
    assert file.seek(-10, os.SEEK_END) == SIZE - 10
    assert file.read(100) == data[-10:]
    assert file.read(1) == b""
    assert file.seek(5) == file.tell() == 5
    assert file.read() == data[5:]


def test_one_block_for_a_few_bytes_and_one_request_for_neighbours(data: bytes, asked: list[tuple[int, int]]) -> None:
    file = RangedFile(URL, SIZE, "a")
    file.read_range(10 * BLOCK_BYTES + 5, 10 * BLOCK_BYTES + 9)
    file.read_range(8 * BLOCK_BYTES, 13 * BLOCK_BYTES)
    assert asked[:2] == [(10 * BLOCK_BYTES, 11 * BLOCK_BYTES), (8 * BLOCK_BYTES, 10 * BLOCK_BYTES)]
    assert asked[2:] == [(11 * BLOCK_BYTES, 13 * BLOCK_BYTES)]


def test_who_reads_on_gets_more_at_a_time(data: bytes, asked: list[tuple[int, int]]) -> None:
    file = RangedFile(URL, SIZE, "a")
    assert b"".join(iter(lambda: file.read(10_000), b"")) == data
    assert len(asked) <= 8
    assert max(end - start for start, end in asked) <= MOST_AHEAD_BYTES + BLOCK_BYTES


def test_what_a_process_keeps_is_bounded(asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged_files, "read_range", lambda url, start, end: bytes(end - start))
    size = 3 * MOST_KEPT_BYTES
    for name in ("a", "b"):
        file = RangedFile(name, size, name)
        for start in range(0, size, 1 << 22):
            file.read_range(start, start + (1 << 22))
        assert ranged_files.kept_blocks.size_bytes <= MOST_KEPT_BYTES
        assert sum(map(len, ranged_files.kept_blocks._kept.values())) == ranged_files.kept_blocks.size_bytes


def test_blocks_of_another_content_are_not_taken(data: bytes) -> None:
    assert RangedFile(URL, SIZE, "a").read_range(0, 100) == data[:100]
    fsspec.filesystem("memory").pipe("/ranged/file", data[::-1])
    assert RangedFile(URL, SIZE, "b").read_range(0, 100) == data[::-1][:100]


def test_a_file_that_is_too_short_is_refused(data: bytes) -> None:
    with pytest.raises(ChecksumError, match=f"ends at byte {SIZE}, the manifest says {SIZE + 1}"):
        RangedFile(URL, SIZE + 1, "longer").read_range(SIZE - 5, SIZE + 1)


def test_threads_share_a_file(data: bytes) -> None:
    file = RangedFile(URL, SIZE, "threads")
    starts = [random.Random(i).randrange(SIZE) for i in range(200)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda start: file.read_range(start, start + 300_000), starts))
    assert found == [data[start : start + 300_000] for start in starts]


def test_ids_of_a_slice(data: bytes) -> None:
    ids = RangedIds(RangedFile(URL, SIZE, "ids"), "<u2", 10, 1000)
    expected = np.frombuffer(data, "<u2", 1000, 10)
    assert len(ids) == 1000
    for part in (slice(0, 5), slice(None), slice(990, 2000), slice(7, 3)):
        assert ids[part].tolist() == expected[part].tolist()
        assert not ids[part].flags.writeable


def test_a_missing_library_and_a_store_that_refuses_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def need_library(url: str) -> object:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", need_library)
    with pytest.raises(FormatError, match=r"s3://b/x: cannot be read: .* pip install 'tokcore\[s3\]'"):
        url_files.read_first(["s3://b/x"])

    class Refusing:
        def cat_file(self, path: str) -> bytes:
            raise PermissionError("Forbidden")

    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda url: (Refusing(), "b/x"))
    with pytest.raises(FormatError, match=r"s3://b/x: cannot be read: .*Forbidden"):
        url_files.read_first(["s3://b/x"])
