"""Marker files: a file is taken only once its marker lies beside it."""

from __future__ import annotations

from collections.abc import Iterable

from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_schemas.config import BuildConfig


def find_marked(config: BuildConfig, uris: Iterable[str]) -> set[str]:
    """Those files whose marker is there; all, if none is needed."""
    if (marker := config.watch.marker) is None:
        return {*uris}
    wanted: dict[str, list[str]] = {}
    for uri in uris:
        wanted.setdefault(name_marker(urls.resolve_name(config.base, uri), marker), []).append(uri)
    present = run_at_once(storage.exists, [*wanted])
    return {uri for uris, there in zip(wanted.values(), present, strict=True) if there for uri in uris}


def name_marker(url: str, marker: str) -> str:
    """The URL of a file's marker. marker: its name in the file's folder, where * stands for the file's name.

    >>> name_marker("s3://b/day/a.jsonl", "*.done"), name_marker("s3://b/day/a.jsonl", "_SUCCESS")
    ('s3://b/day/a.jsonl.done', 's3://b/day/_SUCCESS')
    """
    folder, slash, name = url.rpartition("/")
    return f"{folder}{slash}{marker.replace('*', name)}"
