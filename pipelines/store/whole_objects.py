"""A small object with one request: the answer that brings its bytes also says which version they are.

What differs between the libraries of the stores is here. The others, and whatever goes wrong, are left to ReadFile,
which asks for the version by a request of its own and knows the words for each error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fsspec.asyn import sync

from tokcore_pipelines.store.pins import FileId, find_version
from tokcore_pipelines.store.retries import retry
from tokcore_pipelines.store.urls import find_scheme, open_file_system


class _Answer(NamedTuple):
    content: bytes
    described: Mapping[str, Any]  # as find_version() reads it


def read_version(file: FileId) -> bytes | None:
    """All bytes of the pinned version; None if the store has another one, or does not say with the bytes which it is.

    Raises StageError if the store does not answer.
    """
    system, path = open_file_system(file.url)
    ask = ASK.get(find_scheme(file.url) or "")
    if ask is None:
        return None
    try:
        answer = retry("read", file.url, lambda: ask(system, path))
    except OSError:
        return None
    is_it = find_version(answer.described) == file.version and len(answer.content) == file.size_bytes
    return answer.content if is_it else None


def _ask_s3(system: Any, path: str) -> _Answer:
    bucket, key, version = system.split_path(path)
    chosen = {"VersionId": version} if version else {}

    async def ask() -> _Answer:
        told = await system._call_s3("get_object", Bucket=bucket, Key=key, **chosen)
        async with told["Body"] as body:
            return _Answer(await body.read(), told)

    answer: _Answer = sync(system.loop, ask)
    return answer


def _ask_gcs(system: Any, path: str) -> _Answer:
    headers, content = system.call("GET", system.url(path))
    return _Answer(content, {"generation": headers.get("X-Goog-Generation")})


ASK: Mapping[str, Callable[[Any, str], _Answer]] = {
    **dict.fromkeys(("s3", "s3a"), _ask_s3),
    **dict.fromkeys(("gs", "gcs"), _ask_gcs),
}
