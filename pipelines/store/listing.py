"""The files that a URL or a glob names, asked of the store each time; local and remote alike.

The library's own glob, find, isfile, isdir and exists take a failure for an empty folder, or for no. Here it raises.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pipelines.store.listed_pages import iterate_below, iterate_folder
from pipelines.store.patterns import Pattern, compile_glob, find_fixed_folder, is_glob, unquote
from pipelines.store.pins import FileId, find_version, pin_described, pin_local, stat
from pipelines.store.redaction import redact
from pipelines.store.refusals import NO_BUCKET
from pipelines.store.retries import name_errors, retry
from pipelines.store.urls import find_path, find_scheme, is_local, is_object_store, name_file, open_file_system
from schemas.packed_rows import SortedRows
from tokcore.errors import ConfigError

_WITH_BUCKETS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})


def list_files(pattern: Pattern | str) -> Sequence[FileId]:
    """The files that a URL names, pinned and sorted by URL: one file, or those a glob (* ** ? [...]) matches.

    pattern: as resolve_pattern gives it; a str, where no place is before it. Always asks the store. A file whose name
    happens to be the pattern itself is that file. Empty if nothing matches; folders never match. Raises ConfigError for
    a folder (say which files: `folder/**`) and StageError if the store does not answer.
    """
    url, glob = (pattern, pattern) if isinstance(pattern, str) else pattern
    system, path = open_file_system(url)
    spelled = find_path(system, glob)

    def find_named() -> tuple[str | None, FileId | None]:
        """What lies under the name itself, and its pin if that is a file."""
        if is_local(url):
            kind = find_kind(system, path)
            return kind, stat(url) if kind == "file" else None
        if (described := _describe(system, path)) is None:
            return None, None
        kind = described["type"]
        return kind, pin_described(url, system, path, described) if kind == "file" else None

    def listing() -> SortedRows[FileId]:
        system.invalidate_cache()
        found: SortedRows[FileId] = SortedRows(tuple, FileId, key=tuple)
        kind, named = find_named()
        if named is not None:
            found.add(named)
        elif is_glob(spelled) or unquote(spelled) != path:
            if find_scheme(url) in ("http", "https"):
                raise ConfigError(f"{redact(url)}: a web server lists no files: name each one")
            for info in _list_matching(system, spelled):
                if (file := _pin_listed(url, system, info)) is not None:
                    found.add(file)
        elif kind == "directory":
            folder = redact(url).rstrip("/")
            raise ConfigError(f"{folder} is a folder: name the files in it, for example {folder}/**")
        return found

    with name_errors("list", url):
        found = retry("list", url, listing).pack()
    if not found:
        require_bucket(url)
    return found


def require_bucket(url: str) -> None:
    """Raise ConfigError if a file is missing because its bucket is."""
    if find_scheme(url) not in _WITH_BUCKETS:
        return
    system, path = open_file_system(url)
    bucket = path.lstrip("/").split("/")[0]
    try:
        system.info(bucket)
    except FileNotFoundError as error:
        raise ConfigError(f"{redact(url)}: {NO_BUCKET}: {bucket}") from error
    except Exception:
        return  # who may read the objects of a bucket may not be allowed to ask for the bucket


def find_kind(system: Any, path: str) -> str | None:
    """What a path is, None if there is nothing. The library's own isfile, isdir and exists take any failure for no."""
    if "file" in system.protocol and Path(path).is_symlink():
        return "directory" if Path(path).is_dir() else "file" if Path(path).is_file() else None
    described = _describe(system, path)
    return None if described is None else str(described["type"])


def _describe(system: Any, path: str) -> dict[str, Any] | None:
    """What a file system says of a path, None if there is nothing."""
    try:
        return dict(system.info(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _list_matching(system: Any, pattern: str) -> Iterator[dict[str, Any]]:
    """What the store says of everything that matches a glob; only folders that can hold a match are looked into."""
    parts = pattern.split("/")
    matches = [compile_glob("/".join(parts[: i + 1])).match for i in range(len(parts))]
    any_depth = next((i for i, part in enumerate(parts) if "**" in part), len(parts))

    if any_depth < len(parts) and is_object_store(system):
        found = list_everything_below(system, find_fixed_folder(pattern))
        return (info for info in found if matches[-1](info["name"]))

    def may_hold(folder: str) -> bool:
        depth = folder.count("/")
        return depth >= any_depth or (depth < len(parts) - 1 and matches[depth](folder) is not None)

    return (
        info
        for info in list_everything_below(system, find_fixed_folder(pattern), may_hold)
        if matches[-1](info["name"])
    )


def list_everything_below(
    system: Any, folder: str, may_hold: Callable[[str], bool] | None = None
) -> Iterator[dict[str, Any]]:
    """What the store says of everything below a folder; may_hold: whether to look into a folder there, None for all.

    Of a folder that cannot be listed the library's own glob and find say nothing, as if it were empty; here it raises.
    A symbolic link is never followed. Where all is wanted, object stores are asked for it with one listing.
    """
    if may_hold is None and is_object_store(system):
        for info in iterate_below(system, folder):
            name = info["name"]
            if name.startswith(f"{folder.rstrip('/')}/") and not name.endswith("/"):  # else a mark of an empty folder
                yield info
        return
    for info in _iterate_level(system, folder):
        info = {**info, "name": info["name"].rstrip("/")}
        if info["name"] == folder.rstrip("/"):
            continue
        yield info
        if info["type"] == "directory" and (may_hold is None or may_hold(info["name"])):
            yield from list_everything_below(system, info["name"], may_hold)


def _iterate_level(system: Any, folder: str) -> Iterator[dict[str, Any]]:
    """What lies in a folder itself; nothing if there is none."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if is_object_store(system):
            yield from iterate_folder(system, folder)
        elif "file" in system.protocol:
            yield from _iterate_disk(folder)
        else:
            yield from system.ls(folder, detail=True)


def _iterate_disk(folder: str) -> Iterator[dict[str, Any]]:
    """What lies in a folder on a disk. The library's ls looks at each file three times, and keeps all it sees."""
    with os.scandir(folder) as entries:
        for entry in entries:
            kind = "directory" if entry.is_dir(follow_symlinks=False) else "file"
            yield {"name": entry.path, "type": kind, "entry": entry}


def _pin_listed(pattern: str, system: Any, info: dict[str, Any]) -> FileId | None:
    """The pin of one listed name, None for what is no file."""
    if is_local(pattern):
        return _pin_entry(info["entry"])
    if info["type"] != "file":
        return None
    name = info["name"]
    return FileId(name_file(system, pattern, name), int(info["size"]), find_version(info))


def _pin_entry(entry: os.DirEntry[str]) -> FileId | None:
    if entry.is_symlink():
        return stat(entry.path) if Path(entry.path).is_file() else None
    if not entry.is_file(follow_symlinks=False):
        return None
    try:
        return pin_local(entry.path, entry.stat(follow_symlinks=False))
    except FileNotFoundError:  # removed since its folder was read
        return None
