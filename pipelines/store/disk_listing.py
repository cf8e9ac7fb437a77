"""What matches a pattern on a disk, and the symbolic links that it meets there.

A link is met if what it leads to could be taken: a file whose name matches, or a folder that may hold such files. A
link above the part where the pattern begins to choose was written by the user, and is not met.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tokcore_pipelines.store.pins import FileId, pin_local, stat

Matches = Callable[[str], object]  # path -> whether


class Link(NamedTuple):
    """A symbolic link that a pattern met."""

    target: str  # as the link says it
    kind: str  # of what it leads to: file, folder or missing


def describe_missing(link: Link) -> str:
    """What is wrong with a link that leads to nothing."""
    return f"a link to {link.target}, which is not there"


@dataclasses.dataclass(slots=True)
class Links:
    """What a listing does with links, and what it met."""

    follows: bool = False  # whether folders are looked into that links lead to
    met: dict[str, Link] = dataclasses.field(default_factory=dict)  # path -> the link


class _Folder(NamedTuple):
    path: str  # as matched
    real: str  # where it is; "" unless links are followed
    above: frozenset[str]  # the real paths of the folders above it, and its own


def list_disk(folder: str, matches: Matches, may_hold: Matches, links: Links) -> Iterator[FileId]:
    """The pins of the files below a folder that match, in no order. A link to a file is one, and pins what it leads to.

    may_hold: whether to look into a folder. A folder is not looked into below itself, so links may form loops.
    """
    real = os.path.realpath(folder) if links.follows else ""
    yield from _list_below(_Folder(folder, real, frozenset([real])), matches, may_hold, links)


def _list_below(folder: _Folder, matches: Matches, may_hold: Matches, links: Links) -> Iterator[FileId]:
    for entry in _scan(folder.path):
        path = entry.path
        real = os.path.join(folder.real, entry.name) if links.follows else ""  # noqa: PTH118 - there may be millions
        if entry.is_symlink():
            kind = _find_kind(entry)
            if not (kind != "folder" and matches(path)) and not (kind != "file" and may_hold(path)):
                continue
            links.met[path] = Link(os.readlink(path), kind)  # noqa: PTH115 - a str is what we have
            if kind == "file":
                yield stat(path)
            if kind != "folder" or not links.follows:
                continue
            real = os.path.realpath(path)
        elif not entry.is_dir(follow_symlinks=False):
            if matches(path) and (pin := _pin(entry)) is not None:
                yield pin
            continue
        elif not may_hold(path):
            continue
        if not links.follows:
            yield from _list_below(_Folder(path, "", folder.above), matches, may_hold, links)
        elif real not in folder.above:
            yield from _list_below(_Folder(path, real, folder.above | {real}), matches, may_hold, links)


def _scan(folder: str) -> Iterator[os.DirEntry[str]]:
    """What lies in a folder; nothing if there is none. The library's ls looks at each file three times."""
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        yield from entries


def _find_kind(entry: os.DirEntry[str]) -> str:
    try:
        return "file" if entry.is_file() else "folder" if entry.is_dir() else "missing"
    except OSError:  # a link that leads to itself, or through a folder that is closed to us
        return "missing"


def _pin(entry: os.DirEntry[str]) -> FileId | None:
    if not entry.is_file(follow_symlinks=False):
        return None
    try:
        return pin_local(entry.path, entry.stat(follow_symlinks=False))
    except FileNotFoundError:  # removed since its folder was read
        return None
