"""Fetching small objects before they are read, several at a time: a request spends most of its time waiting.

The files that were fetched last are kept, since encoding often reads what counting has just read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from tokcore_pipelines.store.parallel_requests import MOST
from tokcore_pipelines.store.pins import FetchedFile, FileId
from tokcore_pipelines.store.read_file import open_pinned
from tokcore_pipelines.store.urls import explain_unreadable, is_local, is_object_store, open_file_system
from tokcore_pipelines.store.whole_objects import read_version

SMALL_BYTES = 1 << 22  # of a file that is fetched whole
MOST_BYTES = 1 << 24  # of files that are fetched and not read yet; the last one may pass it
_KEPT_BYTES = 1 << 25  # of files that were fetched last


class KeptContents:
    """Contents of pinned files, up to most_bytes in all. The least recently used go first."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._contents: OrderedDict[FileId, bytes] = OrderedDict()
        self._num_bytes = 0
        self._lock = threading.Lock()

    def find(self, file: FileId) -> bytes | None:
        with self._lock:
            if (content := self._contents.get(file)) is not None:
                self._contents.move_to_end(file)
            return content

    def add(self, file: FileId, content: bytes) -> None:
        with self._lock:
            if file in self._contents:
                return
            self._contents[file] = content
            self._num_bytes += len(content)
            while self._num_bytes > self._most_bytes:
                _, oldest = self._contents.popitem(last=False)
                self._num_bytes -= len(oldest)

    def clear(self) -> None:
        with self._lock:
            self._contents.clear()
            self._num_bytes = 0


kept = KeptContents(_KEPT_BYTES)


def read_ahead(files: Iterable[FileId | None]) -> Iterator[FileId | None]:
    """The same files, in the same order. While one is read, the next small files of a store are fetched.

    open_pinned() opens a fetched file like any other, and raises the same errors. None stands for a range that reads no
    file.
    """
    coming = iter(files)
    ahead: deque[FileId | None] = deque()
    num_bytes = 0
    threads = ThreadPoolExecutor(MOST)  # which starts none before there is work
    try:
        while True:
            while len(ahead) < MOST and num_bytes < MOST_BYTES:
                try:
                    file = next(coming)
                except StopIteration:
                    break
                if file is not None and _is_small_object(file):
                    file = FetchedFile(*file)
                    file.content = threads.submit(_fetch, FileId(*file))
                    num_bytes += file.size_bytes
                ahead.append(file)
            if not ahead:
                return
            file = ahead.popleft()
            num_bytes -= file.size_bytes if isinstance(file, FetchedFile) else 0
            yield file
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def forget_fetched() -> None:
    """Give back the memory of the files that were kept."""
    kept.clear()


def _is_small_object(file: FileId) -> bool:
    return (
        0 < file.size_bytes <= SMALL_BYTES
        and not is_local(file.url)
        and is_object_store(open_file_system(file.url)[0])
        and not explain_unreadable(file.url)
    )


def _fetch(file: FileId) -> bytes:
    if (content := kept.find(file)) is not None:
        return content
    if (content := read_version(file)) is None:
        with open_pinned(file) as opened:
            content = opened.read()
    kept.add(file, content)
    return content
