"""Objects of a store: an answer may be lost, a copy may be wrong, and a listing may come from a cache.

The door is tokcore_pipelines.store.storage, which names the URL in what is raised here.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from tokcore.errors import StageError
from tokcore.files.canonical_json import hash_pieces
from tokcore_pipelines.store import objects
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.listing import find_kind, list_everything_below
from tokcore_pipelines.store.packed_listing import PackedListing
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_pipelines.store.pins import Footprint, find_version, stat
from tokcore_pipelines.store.read_file import compute_sha256
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.retries import retry
from tokcore_pipelines.store.urls import find_scheme, is_object_store, open_file_system

_MOST_AT_ONCE = 1000  # objects that S3 removes with one request


def read_footprint(url: str) -> Footprint:
    """Size and last change of an object as the store says; now, if it does not say when."""
    system, path = open_file_system(url)
    system.invalidate_cache()
    return _get_footprint(retry("read", url, lambda: system.info(path)))


def _get_footprint(info: Mapping[str, Any]) -> Footprint:
    for key in ("LastModified", "last_modified", "mtime", "updated", "created"):
        changed = info.get(key)
        if isinstance(changed, str):
            with contextlib.suppress(ValueError):
                changed = datetime.datetime.fromisoformat(changed)
        if isinstance(changed, datetime.datetime):
            return Footprint(int(info["size"]), changed.timestamp(), find_version(info))
        if isinstance(changed, int | float):
            return Footprint(int(info["size"]), float(changed), find_version(info))
    return Footprint(int(info["size"]), time.time(), find_version(info))


def exists(url: str) -> bool:
    """Whether there is an object, or a folder of some."""
    system, path = open_file_system(url)

    def ask() -> bool:
        system.invalidate_cache()
        return find_kind(system, path) is not None

    return retry("read", url, ask)


@contextlib.contextmanager
def write_attempt(url: str) -> Iterator[BinaryIO]:
    """A new object to write, small; there with one request when the block ends, never if it fails."""
    held = io.BytesIO()
    yield held
    data = held.getvalue()
    reach("write.before_sync")
    if not objects.put(url, data) and (stored := stat(url).size_bytes) != len(data):
        raise StageError(f"{redact(url)}: the store kept {stored} of {len(data)} bytes. Run the command again")
    reach("write.after_sync")


def create_exclusive(url: str, write: Callable[[], Iterable[bytes]]) -> bool:
    """Creates an object with these bytes unless the name is taken; whether it did. write: gives all of them each time.

    If an answer got lost on the way, the object is read: bytes equal to these are taken for ours.
    """
    unsure = False

    def create() -> bool:
        nonlocal unsure
        try:
            reach("create.before_link")
            objects.create(url, write())
            reach("create.after_link")
            return True
        except FileExistsError:
            return unsure and compute_sha256(url) == hash_pieces(write())
        except Exception:
            unsure = True
            raise

    return retry("create", url, create)


def remove_folder(url: str) -> None:
    """Removes all objects below a name, if there are any."""
    remove_objects(url, list_footprints(url))


def remove_objects(folder: str, names: Iterable[str]) -> None:
    """Removes objects below a folder, by their names below it; fine for one that is not there.

    S3 removes a thousand with one request; of the others some requests are under way at a time.
    """
    system, path = open_file_system(folder)
    paths = [f"{path.rstrip('/')}/{name}" for name in names]
    many = is_object_store(system) and find_scheme(folder) in ("s3", "s3a")
    size = _MOST_AT_ONCE if many else 1
    parts = [paths[start : start + size] for start in range(0, len(paths), size)]
    remove = _remove_from_s3 if many else _remove_one
    run_at_once(lambda part: retry("remove", folder, lambda: remove(system, part)), parts)


def _remove_one(system: Any, paths: Sequence[str]) -> None:
    with contextlib.suppress(FileNotFoundError):
        system.rm_file(paths[0])


def _remove_from_s3(system: Any, paths: Sequence[str]) -> None:
    bucket = system.split_path(paths[0])[0]
    wanted = {"Objects": [{"Key": system.split_path(path)[1]} for path in paths], "Quiet": True}
    said = system.call_s3("delete_objects", Bucket=bucket, Delete=wanted)
    if errors := [one for one in said.get("Errors", ()) if one.get("Code") != "NoSuchKey"]:
        raise OSError(f"{errors[0].get('Key')}: {errors[0].get('Code')}: {errors[0].get('Message')}")


def list_footprints(url: str) -> PackedListing:
    """Relative name -> size and last change of all objects below a folder, as one listing says."""
    system, path = open_file_system(url)
    folder = path.rstrip("/")

    def listing() -> PackedListing:
        system.invalidate_cache()
        files = (one for one in list_everything_below(system, folder) if one["type"] != "directory")
        return PackedListing((str(one["name"])[len(folder) + 1 :], _get_footprint(one)) for one in files)

    return retry("list", url, listing)


# --------------------------------------------------------------------------------------------------- unfinished uploads


class Upload(NamedTuple):
    """An upload in parts that was begun and not finished. Its parts are paid for; no listing of objects names it."""

    name: str  # of the object that it would have made, below the folder that was asked about
    id: str
    begun: float  # seconds since the epoch


def list_uploads(url: str) -> list[Upload]:
    """The unfinished uploads below a folder, on S3; other stores drop them by themselves."""
    system, path = open_file_system(url)
    if not (is_object_store(system) and find_scheme(url) in ("s3", "s3a")):
        return []
    bucket, prefix, _ = system.split_path(f"{path.rstrip('/')}/")
    prefix = f"{prefix.rstrip('/')}/" if prefix else ""
    found: list[Upload] = []
    place: dict[str, str] = {}
    while True:
        said = retry(
            "list",
            url,
            lambda: system.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=prefix, **place),  # noqa: B023
        )
        for one in said.get("Uploads", ()):
            if one["Key"].startswith(prefix):
                found.append(Upload(one["Key"][len(prefix) :], one["UploadId"], one["Initiated"].timestamp()))
        if not said.get("IsTruncated"):
            return found
        place = {"KeyMarker": said["NextKeyMarker"], "UploadIdMarker": said["NextUploadIdMarker"]}


def abort_uploads(url: str, uploads: Iterable[Upload]) -> None:
    """Drop unfinished uploads below a folder. One that is gone already is no error."""
    system, path = open_file_system(url)

    def abort(one: Upload) -> None:
        bucket, key, _ = system.split_path(f"{path.rstrip('/')}/{one.name}")
        with contextlib.suppress(FileNotFoundError):
            system.call_s3("abort_multipart_upload", Bucket=bucket, Key=key, UploadId=one.id)

    run_at_once(lambda one: retry("remove", url, lambda: abort(one)), list(uploads))
