"""Files of a store whose names sort after a given one: a listing that begins there, and costs only what comes then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tokcore_pipelines.store.patterns import Pattern, compile_glob, find_fixed_folder
from tokcore_pipelines.store.pins import FileId, pin_described
from tokcore_pipelines.store.retries import name_errors, retry
from tokcore_pipelines.store.urls import find_path, find_scheme, open_file_system

_CAN = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}  # scheme -> whose requests


def can_list_after(pattern: Pattern) -> bool:
    """Whether list_files_after knows how to ask the store."""
    return find_scheme(pattern.url) in _CAN


def list_files_after(pattern: Pattern, after: str) -> list[FileId]:
    """As list_files gives for a glob, those alone whose URLs sort after another URL of that store; "" is before all.

    Raises StageError if the store does not answer.
    """
    url = pattern.url
    system, _ = open_file_system(url)
    glob = find_path(system, pattern.glob)
    matches = compile_glob(glob).match
    folder = find_fixed_folder(glob)
    bucket, _, prefix = f"{folder.rstrip('/')}/".partition("/")
    start = open_file_system(after)[1].partition("/")[2] if after else ""
    pages = {"s3": _list_s3, "gcs": _list_gcs}[_CAN[find_scheme(url) or ""]]

    def listing() -> list[FileId]:
        found = pages(system, bucket, prefix, start)
        files = ((f"{bucket}/{key}", about) for key, about in found if key > start and not key.endswith("/"))
        return sorted(pin_described(url, system, name, about) for name, about in files if matches(name))

    with name_errors("list", url):
        return retry("list", url, listing)


def _list_s3(system: Any, bucket: str, prefix: str, start: str) -> Iterator[tuple[str, dict[str, Any]]]:
    place = {"Bucket": bucket, "Prefix": prefix, **({"StartAfter": start} if start else {}), **system.req_kw}
    more: dict[str, str] = {}
    while True:
        page = system.call_s3("list_objects_v2", **place, **more)
        for one in page.get("Contents", []):
            yield one["Key"], {**one, "size": one["Size"]}
        if not page.get("IsTruncated"):
            return
        more = {"ContinuationToken": page["NextContinuationToken"]}


def _list_gcs(system: Any, bucket: str, prefix: str, start: str) -> Iterator[tuple[str, dict[str, Any]]]:
    place = {"prefix": prefix, "maxResults": 1000, **({"startOffset": start} if start else {})}
    more: dict[str, str] = {}
    while True:
        page = system.call("GET", "b/{}/o", bucket, json_out=True, **place, **more)
        for one in page.get("items", []):
            yield one["name"], one
        if not page.get("nextPageToken"):
            return
        more = {"pageToken": page["nextPageToken"]}
