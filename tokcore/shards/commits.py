"""The parts of an output at a commit. Leaves to others: checking the log (tokcore verify), and making commits."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tokcore.errors import ConfigError, FormatError
from tokcore.files.canonical_json import COMMIT_FORMAT, COMMIT_VERSIONS, parse_canonical
from tokcore.files.jsonable import from_jsonable, require_version
from tokcore.files.url_files import read_first

_BUILD = "build"  # the stage of an output's manifest
_PARTS = "parts"  # the folder of parts that later commits added
_OWN = "."  # the part that is the output's own folder
_DERIVED = ("mixed", "packed")  # stages of an output that are opened by their folders, at any commit


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    path: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Build:
    """What is needed of the manifest of a build."""

    stage: str = ""
    root: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class BuriedFile:
    """A file of tombstones (tokcore.shards.tombstone_files)."""

    path: str  # below the output
    sha256: str
    num: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Commit:
    """What is needed of a commit, which schemas describe in full."""

    number: int
    parts: tuple[_Part, ...]
    oldest: int = 0  # that can be read
    removed: tuple[str, ...] = ()  # tombstones that it adds
    restored: tuple[str, ...] = ()  # and takes back
    added_files: tuple[BuriedFile, ...] = ()
    dropped_files: tuple[str, ...] = ()  # paths
    format_version: int = 0


class Buried(NamedTuple):
    """What was removed from an output, as of its newest commit."""

    place: str  # of the output
    root: str  # that the key of tombstones follows from
    tombstones: frozenset[str]  # that commits hold
    files: tuple[BuriedFile, ...]  # that hold the others


def list_parts(place: str, at: int | None = None) -> list[str]:
    """The folders or URLs of the parts of an output at a commit, itself alone if it was never updated.

    place: a local path or a URL. at: the number of a commit; 0 is the build, None the newest. Of OUTPUT/mixed and
    OUTPUT/packed, these folders of the parts. Raises ConfigError if there is no such commit, or it is expired;
    FormatError for one that cannot be read.
    """
    place = place.rstrip("/") or place
    if (output := _find_output(place, "log/1.json")) is not None:
        return [f"{part}/{place.rpartition('/')[2]}" for part in list_parts(output, at)]
    files = [*_read_all(place)]
    if at is not None and not 0 <= at <= len(files):
        raise ConfigError(f"at = {at}: {place} has the commits 0 to {len(files)}")
    number = len(files) if at is None else at
    if files and number < (oldest := _parse(files[-1], place, len(files)).oldest):
        raise ConfigError(f"at = {at}: {place}: that commit is expired; the oldest is {oldest}")
    return _list(place, number, files[number - 1]) if number else [place]


def list_parts_of(place: str, number: int) -> list[str] | None:
    """As list_parts, of one commit, expired or not; None if there is none of that number."""
    if number == 0:
        return [place]
    data = _read(f"{place}/log/{number}.json")
    return _list(place, number, data) if data is not None else None


def read_buried(place: str) -> Buried:
    """The tombstones of an output. place: as for list_parts. Raises ConfigError if no output of a build is there."""
    place = place.rstrip("/") or place
    place = _find_output(place, "manifest.json") or place
    data = _read(name := f"{place}/manifest.json")
    build = from_jsonable(_Build, parse_canonical(data, name), name, partial=True) if data is not None else _Build()
    if data is None or build.stage != _BUILD or place.split("/")[-2:-1] == [_PARTS]:
        raise ConfigError(f"{place}: is not the folder of an output, which has the log of what was removed")
    tombstones: set[str] = set()
    files: dict[str, BuriedFile] = {}
    root = ""
    for number, one in enumerate(_read_all(place), 1):
        commit = _parse(one, place, number)
        if (commit.removed or commit.added_files) and not root:  # until version 2, the key followed from the manifest
            root = hashlib.sha256(data).hexdigest() if commit.format_version == 1 else build.root
        tombstones |= {*commit.removed}
        tombstones -= {*commit.restored}
        files = {path: file for path, file in files.items() if path not in commit.dropped_files}
        files |= {file.path: file for file in commit.added_files}
    return Buried(place, root, frozenset(tombstones), tuple(files.values()))


def read_planned(part: str) -> list[tuple[str, str]] | None:
    """(uri, version) of the input files of a part; None if its plan is gone. part: as list_parts gives it."""
    data = _read(name := f"{part}/plan/files.jsonl")
    if data is None:
        return None
    lines = [parse_canonical(line, name) for line in data.splitlines(keepends=True)]
    return [(line["uri"], line["version"]) for line in lines]


def _find_output(place: str, has: str) -> str | None:
    """OUTPUT, if a place is OUTPUT/mixed or OUTPUT/packed and this file is in OUTPUT; else None."""
    whole = place if "://" in place else str(Path(place).absolute())
    output, _, name = whole.rpartition("/")
    return output if name in _DERIVED and _read(f"{output}/{has}") is not None else None


def _list(place: str, number: int, data: bytes) -> list[str]:
    """The parts of a commit that is in these bytes."""
    name = f"{place}/log/{number}.json"
    commit = _parse(data, place, number)
    for part in commit.parts:
        if part.path != _OWN and (part.path.startswith("/") or not {*part.path.split("/")}.isdisjoint({"", ".", ".."})):
            raise FormatError(f"{name}: names {part.path!r}, which is not below its output")
    return [place if part.path == _OWN else f"{place}/{part.path}" for part in commit.parts]


def _read_all(place: str) -> Iterator[bytes]:
    """The files of the commits after the build, up to the first that is missing."""
    number = 1
    while (data := _read(f"{place}/log/{number}.json")) is not None:
        yield data
        number += 1


def _parse(data: bytes, place: str, number: int) -> _Commit:
    name = f"{place}/log/{number}.json"
    content = parse_canonical(data, name)
    require_version(content, name, COMMIT_FORMAT, *COMMIT_VERSIONS)
    commit = from_jsonable(_Commit, content, name, partial=True)
    if commit.number != number:
        raise FormatError(f"{name}: says that it is commit {commit.number}")
    return commit


def _read(name: str) -> bytes | None:
    if "://" in name:
        found = read_first([name])
        return found[1] if found is not None else None
    return Path(name).read_bytes() if Path(name).is_file() else None
