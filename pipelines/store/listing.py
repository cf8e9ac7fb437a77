"""The files that a URL or a glob names, asked of the store each time; local and remote alike.

The library's own glob, find, isfile, isdir and exists take a failure for an empty folder, or for no. Here it raises.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tokcore.errors import ConfigError
from tokcore_pipelines.store.disk_listing import Links, list_disk
from tokcore_pipelines.store.listed_pages import iterate_below, iterate_folder
from tokcore_pipelines.store.patterns import Pattern, compile_glob, compile_holders, find_fixed_folder, is_glob, unquote
from tokcore_pipelines.store.pins import FileId, find_version, pin_described, stat
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.store.refusals import NO_BUCKET
from tokcore_pipelines.store.retries import name_errors, retry
from tokcore_pipelines.store.urls import (
    check_url,
    find_path,
    find_scheme,
    is_local,
    is_object_store,
    name_file,
    open_file_system,
)
from tokcore_schemas.packed_rows import SortedRows

_WITH_BUCKETS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})


def list_files(pattern: Pattern | str, links: Links | None = None) -> Sequence[FileId]:
    """The files that a URL names, pinned and sorted by URL: one file, or those a glob (* ** ? [...]) matches.

    pattern: as resolve_pattern gives it; a str as a user writes it, with no place before it. Always asks the store. A
    file whose name happens to be the pattern itself is that file. Empty if nothing matches; folders never match. links:
    is told of the symbolic links that a glob meets on a disk; None: links to files are files, and no link to a folder
    is followed.

    Raises ConfigError for a folder (say which files: `folder/**`) and StageError if the store does not answer.
    """
    url, glob = (check_url(pattern), pattern) if isinstance(pattern, str) else pattern
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
            for file in _list_matching(url, system, spelled, links or Links()):
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


def _list_matching(url: str, system: Any, glob: str, links: Links) -> Iterator[FileId]:
    """The pins of all files that match a glob; only folders that can hold one are looked into. url: of the store."""
    matches, may_hold, start = compile_glob(glob).match, compile_holders(glob), find_fixed_folder(glob)
    if is_local(url):
        yield from list_disk(start, matches, may_hold, links)
        return
    is_whole = "**" in glob and is_object_store(system)
    for info in list_everything_below(system, start, None if is_whole else may_hold):
        name = info["name"]
        if info["type"] == "file" and matches(name):
            yield FileId(name_file(system, url, name), int(info["size"]), find_version(info))


def list_everything_below(
    system: Any, folder: str, may_hold: Callable[[str], bool] | None = None
) -> Iterator[dict[str, Any]]:
    """What the store says of everything below a folder; may_hold: whether to look into a folder there, None for all.

    Of a folder that cannot be listed the library's own glob and find say nothing, as if it were empty; here it raises.
    Where all is wanted, object stores are asked for it with one listing.
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
        yield from iterate_folder(system, folder) if is_object_store(system) else system.ls(folder, detail=True)
