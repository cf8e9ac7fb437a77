"""A file as it is now, pinned, so that a later look or read notices a change."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from concurrent.futures import Future
from stat import S_ISDIR, S_ISREG
from typing import Any, NamedTuple, cast

from tokcore.errors import StageError
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.retries import name_errors, retry
from tokcore_pipelines.store.urls import is_local, name_file, open_file_system


class Footprint(NamedTuple):
    """What a file takes, and when anything about it changed last."""

    size_bytes: int
    changed: float  # seconds since the epoch; now, if the store does not say
    version: str  # as FileId has it; on a disk it changes with anything about the file


class FileId(NamedTuple):
    """A file pinned at the moment it was listed.

    version: "etag:...", "generation:...", "mtime_ns:...", whatever the store offers to tell one content from another;
    "size-only" where it offers nothing.
    """

    url: str
    size_bytes: int
    version: str


class FetchedFile(FileId):
    """A pinned file that is fetched whole before it is read (read_ahead)."""

    content: Future[bytes]  # of the pinned version


def stat(url: str) -> FileId:
    """The pin of one file as it is now; raises StageError if there is none."""
    with name_errors("read", url):
        return _look(url)


def find_pin(url: str) -> FileId | None:
    """The pin of one file as it is now, None if there is none; raises StageError if the store does not answer."""
    with name_errors("read", url):
        try:
            return _look(url)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _look(url: str) -> FileId:
    system, path = open_file_system(url)
    if is_local(url):
        facts = retry("read", url, lambda: os.stat(path))  # noqa: PTH116 - a str is what we have
        # Opening a FIFO waits for a writer, perhaps for ever. What a folder is, opening it says.
        if not (S_ISREG(facts.st_mode) or S_ISDIR(facts.st_mode)):
            raise StageError(f"{redact(url)}: expected a file, found a FIFO, a socket or a device")
        return pin_local(path, facts)

    def info() -> dict[str, Any]:
        system.invalidate_cache()
        return cast(dict[str, Any], system.info(path))

    return pin_described(url, system, path, retry("read", url, info))


def pin_local(path: str, facts: os.stat_result) -> FileId:
    """The pin of a file of this machine, as the system described it."""
    return FileId(path, facts.st_size, f"mtime_ns:{facts.st_mtime_ns}")


def pin_described(url: str, system: Any, path: str, described: Mapping[str, Any]) -> FileId:
    """The pin of a file as a store described it. Raises StageError if it did not say how long it is."""
    if described["size"] is None:
        raise StageError(f"{redact(url)}: the server does not say how long it is. Copy it to a bucket")
    return FileId(name_file(system, url, path), int(described["size"]), find_version(described))


def find_version(info: Mapping[str, Any]) -> str:
    """What tells one content of an object from the next, in one spelling for all stores."""
    for key, name in (("generation", "generation"), ("ETag", "etag"), ("etag", "etag"), ("blob_id", "blob")):
        if info.get(key):
            return f"{name}:{str(info[key]).strip(chr(34))}"
    for key in ("LastModified", "last_modified", "Last-Modified", "mtime", "created"):
        if (time_of_change := info.get(key)) is not None:
            # A listing may give seconds where a look at one file gives a datetime.
            is_datetime = isinstance(time_of_change, datetime.datetime)
            return f"modified:{time_of_change.timestamp() if is_datetime else time_of_change}"
    return "size-only"
