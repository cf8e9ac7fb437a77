"""The one door to files: list, pin, read, write and publish them, locally or in an object store.

No other folder of pipelines opens, lists or renames files that a build file or a command line names.
tokcore_pipelines.store.urls says what a URL may be.

Three promises that callers lean on:
  - a listing is never answered from a cache, and what it lists is pinned (`FileId`): a later read notices a change;
  - a read either returns the file's bytes, all of them, or raises StageError naming the URL: transient errors are
    retried from where they happened, and an early end of file counts as one;
  - what is published is complete and durable, and nothing published is ever overwritten with other bytes.

Leaves to others: what the bytes mean, and which names are chosen. Listing and reading are alike on disks and in stores
(listing, read_file); for the rest see local_files and remote_files.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from tokcore.errors import ConfigError, StageError
from tokcore_pipelines.store import local_files, objects, remote_files
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.listing import find_kind, list_files, require_bucket
from tokcore_pipelines.store.packed_listing import PackedListing
from tokcore_pipelines.store.pins import FileId, Footprint, find_pin, stat
from tokcore_pipelines.store.read_ahead import forget_fetched, read_ahead
from tokcore_pipelines.store.read_file import (
    ReadFile,
    compute_sha256,
    open_if_there,
    open_pinned,
    open_range,
    open_read,
    read_bytes,
    read_if_there,
    read_part,
    require_sha256,
)
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.remote_files import Upload
from tokcore_pipelines.store.retries import name_errors, retry
from tokcore_pipelines.store.urls import check_relative, get_local_path, is_local, join, open_file_system

__all__ = [
    "FileId",
    "Footprint",
    "ReadFile",
    "Upload",
    "abort_uploads",
    "compute_sha256",
    "create_exclusive",
    "exists",
    "find_pin",
    "forget_fetched",
    "is_file",
    "list_files",
    "list_footprints",
    "list_tree",
    "list_uploads",
    "open_if_there",
    "open_pinned",
    "open_range",
    "open_read",
    "publish",
    "read_ahead",
    "read_bytes",
    "read_footprint",
    "read_if_there",
    "read_part",
    "remove_empty_folders",
    "remove_file",
    "remove_files",
    "remove_tree",
    "replace_file",
    "require_bucket",
    "require_exclusive_creation",
    "require_inside",
    "require_sha256",
    "stat",
    "write_attempt",
    "write_once",
]


def exists(url: str) -> bool:
    """Whether there is a file or folder; raises StageError if the store does not answer."""
    _, path = open_file_system(url)
    with name_errors("read", url):
        return retry("read", url, Path(path).exists) if is_local(url) else remote_files.exists(url)


def is_file(url: str) -> bool:
    """Whether there is a file, which a folder is not; raises StageError if the store does not answer."""
    system, path = open_file_system(url)
    with name_errors("read", url):
        return retry("read", url, lambda: find_kind(system, path)) == "file"


def read_footprint(url: str) -> Footprint | None:
    """Size and last change of a file as it is listed, None if there is none; of a symbolic link, the link's own."""
    _, path = open_file_system(url)
    with name_errors("read", url):
        try:
            return local_files.read_footprint(Path(path)) if is_local(url) else remote_files.read_footprint(url)
        except FileNotFoundError:
            return None


@contextlib.contextmanager
def write_attempt(url: str, skip_empty: bool = False) -> Iterator[BinaryIO]:
    """A new file to write, under a name of its own; durable when the block ends, removed if it fails.

    skip_empty: on a disk, leave nothing there if nothing was written.
    """
    _, path = open_file_system(url)
    with name_errors("write", url):
        writing = (
            local_files.write_attempt(Path(path), skip_empty) if is_local(url) else remote_files.write_attempt(url)
        )
        with writing as file:
            yield file


@contextlib.contextmanager
def write_once(url: str, skip_empty: bool = False) -> Iterator[objects.NewObject]:
    """A new object to write under its final name, with all its bytes at once when the block ends, if the name is free.

    Its require_content() says whether it is there. skip_empty: create nothing if nothing was written.
    """
    with name_errors("write", url), objects.write_once(url, skip_empty) as new:
        yield new


def require_exclusive_creation(url: str) -> None:
    """Raise ConfigError if a store creates an object although its name is taken. url: of one that is not there.

    Two builds could both create a manifest there. Leaves nothing behind.
    """
    if is_local(url):
        return
    try:
        if create_exclusive(url, b"first", "") and create_exclusive(url, b"second", ""):
            raise ConfigError(
                f"{redact(url)}: the store creates an object although its name is taken, so two builds could overwrite "
                f"each other. It must support conditional writes (If-None-Match); choose another build.output."
            )
    finally:
        remove_file(url)


def publish(source: str, target: str, durable: bool = True) -> None:
    """Gives a finished file its final name, on local disks. A reader that sees the name sees the whole file.

    If the target is there already with the same bytes (another attempt was first), the source is just removed; with
    other bytes, StageError. In object stores files get their final names at once: write_once. durable: else the name
    survives a power cut only after sync_folders.
    """
    reach("publish.before_link")
    with name_errors("publish", target):
        local_files.publish(get_local_path(source), get_local_path(target), durable)


def make_scratch_folder(prefix: str) -> contextlib.AbstractContextManager[str]:
    """The path of a new folder of this machine, removed when the block ends. What is in it may be lost in a power cut.

    prefix: of its name.
    """
    return local_files.make_scratch_folder(prefix)


def leave_unsynced(folder: str) -> None:
    """Sync nothing in a folder of this machine that another process made by make_scratch_folder."""
    local_files.leave_unsynced(folder)


def sync_folders(folders: Iterable[str]) -> None:
    """Makes names in folders of local disks, new ones and removed ones, survive a power cut."""
    for folder in folders:
        with name_errors("write", folder):
            local_files.sync_folder(get_local_path(folder))


def link(source: str, target: str) -> None:
    """Gives a file of a local disk another name, which is free, and survives a power cut after sync_folders.

    Where a disk has no such links, a copy gets it.
    """
    with name_errors("link", target):
        local_files.link(get_local_path(source), get_local_path(target))


def move_folder(source: str, target: str) -> None:
    """Gives a folder of a local disk another name, with all that is in it. What had that name is removed."""
    with name_errors("move", target):
        local_files.move_folder(get_local_path(source), get_local_path(target))


def require_inside(folder: str, path: str) -> None:
    """Raises StageError if a path in a local folder is a link, or lies below one, that leads out of the folder."""
    if not is_local(folder):
        return
    place = open_file_system(folder)[1]
    parts = path.split("/")
    below = itertools.accumulate(parts, "{}/{}".format, initial=place)
    if not {"", ".."} & {*parts} and not any(map(os.path.islink, itertools.islice(below, 1, None))):
        return  # as nearly always; to resolve both paths takes five times as long
    root = Path(place).resolve()
    try:
        found = (root / path).resolve()
    except (RuntimeError, OSError) as error:  # which of the two differs between releases of Python
        raise StageError("a link that leads back to itself, or cannot be followed") from error
    if not found.is_relative_to(root):
        raise StageError("a link to a place outside of the output")


def create_exclusive(url: str, data: bytes | Callable[[], Iterable[bytes]], scratch: str) -> bool:
    """Creates a file with these bytes unless the name is taken; whether it did. Of several racers exactly one did.

    data: a function gives them in pieces, all of them each time it is called, and no more than a few are held.
    scratch: a folder of the same store; a process that is killed half-way leaves what it wrote there, not beside the
    file. Durable on return. If an answer got lost on the way, the file is read: bytes equal to these are taken for
    ours. A library that asks again by itself hides that it did: then only the bytes can tell whose the file is.
    """
    _, path = open_file_system(url)
    write = data if callable(data) else lambda: [data]
    with name_errors("create", url):
        if is_local(url):
            return local_files.create_exclusive(Path(path), write(), get_local_path(scratch))
        return remote_files.create_exclusive(url, write)


def replace_file(url: str, data: bytes, scratch: str) -> None:
    """A small file with these bytes, in the place of one that may be there: readers see the one or the other, whole.

    Only for files that follow from others, and are not what a manifest says. scratch: as for create_exclusive.
    """
    if not is_local(url):
        with write_attempt(url) as file:
            file.write(data)
        return
    new = join(scratch, uuid.uuid4().hex)
    with write_attempt(new) as file:
        file.write(data)
    with name_errors("write", url):
        local_files.replace(get_local_path(new), get_local_path(url))


def remove_file(url: str, durable: bool = False) -> None:
    """Removes a file; fine if there is none. durable: a power cut after the call does not bring it back."""
    system, path = open_file_system(url)
    with name_errors("remove", url), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        retry("remove", url, lambda: system.rm_file(path))
        if durable and is_local(url):
            local_files.sync_folder(Path(path).parent)


def remove_tree(url: str) -> None:
    """Removes a folder and all in it; fine if there is none."""
    _, path = open_file_system(url)
    with name_errors("remove", url), contextlib.suppress(FileNotFoundError):
        if is_local(url):
            retry("remove", url, lambda: local_files.remove_folder(Path(path)))
        else:
            remote_files.remove_folder(url)


def remove_empty_folders(url: str) -> None:
    """Removes the folder and those below it that hold no file; object stores have no such thing."""
    if is_local(url):
        local_files.remove_empty_folders(get_local_path(url))


def list_footprints(url: str) -> PackedListing:
    """Footprint of every file below a folder, by its path below it, as one listing says. See list_tree."""
    with name_errors("list", url):
        if not is_local(url):
            return remote_files.list_footprints(url)
        return PackedListing(local_files.list_footprints(get_local_path(url)))


def find_sizes(url: str, paths: Iterable[str]) -> dict[str, int]:
    """Sizes in bytes of those of some files below a folder that are there; of a symbolic link, the link's own."""
    if not is_local(url):
        found = {path: read_footprint(join(url, path)) for path in paths}
        return {path: footprint.size_bytes for path, footprint in found.items() if footprint is not None}
    _, root = open_file_system(url)
    sizes = {}
    with name_errors("read", url):  # around the loop, and lstat instead of Path: there may be very many files
        for path in paths:
            try:
                sizes[path] = os.lstat(f"{root}/{path}").st_size
            except (FileNotFoundError, NotADirectoryError):
                continue
    return sizes


def remove_files(url: str, paths: Iterable[str]) -> None:
    """Removes files below a folder, by their paths below it; fine for one that is not there."""
    paths = [check_relative(path) for path in paths]
    if not is_local(url):
        with name_errors("remove", url):
            remote_files.remove_objects(url, paths)
        return
    for path in paths:
        remove_file(join(url, path))


def list_uploads(url: str) -> list[Upload]:
    """The uploads in parts below a folder of S3 that were begun and not finished; none of other stores and disks."""
    with name_errors("list", url):
        return [] if is_local(url) else remote_files.list_uploads(url)


def abort_uploads(url: str, uploads: Iterable[Upload]) -> None:
    """Drop unfinished uploads below a folder. One that is gone already is no error."""
    with name_errors("remove", url):
        remote_files.abort_uploads(url, uploads)


def list_tree(url: str) -> list[str]:
    """Paths of all files below a folder, relative to it, sorted; empty if there is no such folder.

    Locally everything that is no folder is listed, and a symbolic link is never followed: nothing hides in a tree.
    """
    _, path = open_file_system(url)
    with name_errors("list", url):
        return [*(local_files.list_tree(Path(path)) if is_local(url) else remote_files.list_footprints(url))]
