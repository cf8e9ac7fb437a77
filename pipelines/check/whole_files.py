"""Is it whole? Whether files of an output are, byte by byte, those that manifests name: what all of this room asks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from tokcore.errors import TokError
from tokcore_pipelines.build.commit import get_folder, get_path_below, name_once
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_schemas.manifest import FileEntry
from tokcore_schemas.refs import StoredFile
from tokcore_schemas.verified import FileToHash

_BLOCK_BYTES = 1 << 20
AnyFile = FileEntry[Any] | StoredFile | FileToHash


def check_files(
    output: str, files: Sequence[tuple[str, FileEntry[Any]]], num_threads: int
) -> Iterator[tuple[str, FileEntry[Any], list[str]]]:
    """(stage, file, what is wrong with it) of each file, in their order. files: with the stages that name them."""
    found = run_at_once(lambda one: check_file(output, *one), files, num_threads)
    return ((stage, file, wrong) for (stage, file), wrong in zip(files, found, strict=True))


def check_file(output: str, stage: str, entry: AnyFile) -> list[str]:
    """What is wrong with a file that a stage's manifest names; empty if its bytes are those that were committed."""
    path = get_path_below(stage, entry.path)
    try:
        hasher = hashlib.sha256()
        url = urls.join(get_folder(output, stage), entry.path)  # refuses a path that is not a plain one
        storage.require_inside(output, path)
        with storage.open_read(url) as file:
            if file.size() != entry.size_bytes:  # before it is read: it may be a sparse file of any size
                return [f"{path}: {file.size()} bytes, committed with {entry.size_bytes}"]
            while block := file.read(_BLOCK_BYTES):
                hasher.update(block)
    except TokError as error:
        return [name_once(path, error)]
    if hasher.hexdigest() != entry.sha256:
        return [f"{path}: its bytes are not the ones that were committed"]
    return []
