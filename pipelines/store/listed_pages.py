"""What an object store says of a folder, a page at a time.

The libraries' own find and ls keep what the store says of every object until the last one is there: gigabytes for a
million objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fsspec.asyn import sync

PAGE = 1000  # objects that a store names at a time: the most of S3
_GCS_FIELDS = "items(name,size,generation,updated),prefixes,nextPageToken"


def iterate_below(system: Any, folder: str) -> Iterator[dict[str, Any]]:
    """Each object below a folder, as the library describes it: name, type, size, and what tells its version.

    system: of an object store. Raises what the library raises.
    """
    store = _name_library(system)
    if store == "s3fs":
        return _iterate_s3(system, folder, "")
    if store == "gcsfs":
        return _iterate_gcs(system, folder, "")
    if store == "adlfs":
        return _iterate_azure(system, folder)
    return ({**info, "name": name} for name, info in system.find(folder, detail=True).items())


def iterate_folder(system: Any, folder: str) -> Iterator[dict[str, Any]]:
    """What lies in a folder, the folders in it included. Raises what the library raises."""
    if folder.strip("/"):
        store = _name_library(system)
        if store == "s3fs":
            return _iterate_s3(system, folder, "/")
        if store == "gcsfs":
            return _iterate_gcs(system, folder, "/")
    return iter(system.ls(folder, detail=True))


def _name_library(system: Any) -> str:
    library = type(system).__module__.partition(".")[0]
    return "" if library == "s3fs" and system.version_aware else library


def _iterate_s3(system: Any, folder: str, delimiter: str) -> Iterator[dict[str, Any]]:
    bucket, prefix, _ = system.split_path(folder)
    wanted = {"Bucket": bucket, "Prefix": _end(prefix), "Delimiter": delimiter, "MaxKeys": PAGE}
    while True:
        said = system.call_s3("list_objects_v2", **wanted, **system.req_kw)
        for one in said.get("CommonPrefixes", ()):
            yield _describe_folder(bucket, one["Prefix"])
        for one in said.get("Contents", ()):
            yield {**one, "name": f"{bucket}/{one['Key']}", "type": "file", "size": one["Size"]}
        if not said.get("IsTruncated"):
            return
        wanted["ContinuationToken"] = said["NextContinuationToken"]


def _iterate_gcs(system: Any, folder: str, delimiter: str) -> Iterator[dict[str, Any]]:
    bucket, prefix, _ = system.split_path(folder)
    wanted = {"prefix": _end(prefix), "delimiter": delimiter, "fields": _GCS_FIELDS, "maxResults": PAGE}
    while True:
        said = system.call("GET", "b/{}/o", bucket, json_out=True, **{key: one for key, one in wanted.items() if one})
        for name in said.get("prefixes", ()):
            yield _describe_folder(bucket, name)
        for one in said.get("items", ()):
            yield {**one, "name": f"{bucket}/{one['name']}", "type": "file", "size": int(one["size"])}
        if not said.get("nextPageToken"):
            return
        wanted["pageToken"] = said["nextPageToken"]


def _iterate_azure(system: Any, folder: str) -> Iterator[dict[str, Any]]:
    container, prefix, _ = system.split_path(folder)
    place: str | None = None

    async def ask() -> tuple[list[dict[str, Any]], str | None]:
        async with system.service_client.get_container_client(container=container) as client:
            blobs = client.list_blobs(include=["metadata"], name_starts_with=_end(prefix), results_per_page=PAGE)
            pages = blobs.by_page(place)
            async for page in pages:
                return await system._details([blob async for blob in page]), pages.continuation_token
        return [], None

    while True:
        found, place = sync(system.loop, ask)
        yield from (info for info in found if info["type"] == "file")
        if not place:
            return


def _describe_folder(bucket: str, prefix: str) -> dict[str, Any]:
    return {"name": f"{bucket}/{prefix.rstrip('/')}", "type": "directory", "size": 0}


def _end(prefix: str) -> str:
    return f"{prefix.rstrip('/')}/" if prefix else ""
