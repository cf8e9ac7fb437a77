"""Objects of a store: an answer may be lost, a copy may be wrong, and a listing may come from a cache.

The door is pipelines.store.storage, which names the URL in what is raised here.
"""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Iterator
from typing import BinaryIO, cast

from pipelines.store import objects
from pipelines.store.crashpoints import reach
from pipelines.store.listing import find_kind, list_everything_below
from pipelines.store.pins import Footprint, stat
from pipelines.store.read_file import BLOCK_BYTES, read_bytes
from pipelines.store.redaction import redact
from pipelines.store.retries import retry
from pipelines.store.urls import open_file_system
from tokcore.errors import StageError


def read_footprint(url: str) -> Footprint:
    """Size and last change of an object as the store says; now, if it does not say when."""
    system, path = open_file_system(url)
    system.invalidate_cache()
    info = retry("read", url, lambda: system.info(path))
    for key in ("LastModified", "last_modified", "mtime", "updated", "created"):
        changed = info.get(key)
        if isinstance(changed, str):
            with contextlib.suppress(ValueError):
                changed = datetime.datetime.fromisoformat(changed)
        if isinstance(changed, datetime.datetime):
            return Footprint(int(info["size"]), changed.timestamp())
        if isinstance(changed, int | float):
            return Footprint(int(info["size"]), float(changed))
    return Footprint(int(info["size"]), time.time())


def exists(url: str) -> bool:
    """Whether there is an object, or a folder of some."""
    system, path = open_file_system(url)

    def ask() -> bool:
        system.invalidate_cache()
        return find_kind(system, path) is not None

    return retry("read", url, ask)


@contextlib.contextmanager
def write_attempt(url: str) -> Iterator[BinaryIO]:
    """A new object to write; there when the block ends, given up if it fails."""
    system, path = open_file_system(url)
    remote = retry("write", url, lambda: system.open(path, "wb", block_size=BLOCK_BYTES))
    try:
        yield cast(BinaryIO, remote)
    except BaseException:
        # Closing would complete the upload of a part of the file; even the collector would close it.
        with contextlib.suppress(Exception):
            remote.discard()
            remote.closed = True
        with contextlib.suppress(Exception):
            system.rm_file(path)
        raise
    reach("write.before_sync")
    size_bytes = remote.tell()
    retry("write", url, remote.close, attempts=1)  # a second one would not send what the first one did
    if (stored := stat(url).size_bytes) != size_bytes:
        raise StageError(f"{redact(url)}: the store kept {stored} of {size_bytes} bytes. Run the command again")
    reach("write.after_sync")


def create_exclusive(url: str, data: bytes) -> bool:
    """Creates an object with these bytes unless the name is taken; whether it did.

    If an answer got lost on the way, the object is read: bytes equal to these are taken for ours.
    """
    unsure = False

    def create() -> bool:
        nonlocal unsure
        try:
            reach("create.before_link")
            objects.create(url, data)
            reach("create.after_link")
            return True
        except FileExistsError:
            return unsure and read_bytes(url) == data
        except Exception:
            unsure = True
            raise

    return retry("create", url, create)


def remove_folder(url: str) -> None:
    """Removes all objects below a name, if there are any."""
    if exists(url):
        system, path = open_file_system(url)
        retry("remove", url, lambda: system.rm(path, recursive=True))


def list_tree(url: str) -> list[str]:
    """Relative names of all objects below a folder."""
    return list(list_sizes(url))


def list_sizes(url: str) -> dict[str, int]:
    """Relative name -> size in bytes of all objects below a folder."""
    system, path = open_file_system(url)
    folder = path.rstrip("/")

    def listing() -> dict[str, int]:
        system.invalidate_cache()
        found = list_everything_below(system, folder)
        return {str(one["name"])[len(folder) + 1 :]: int(one["size"]) for one in found if one["type"] != "directory"}

    return retry("list", url, listing)
