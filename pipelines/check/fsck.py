"""tokcore fsck: whether shards keep the rules of their formats, and indexes made again where the data allow it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from tokcore.errors import ConfigError, FormatError, TokError
from tokcore.shards.format_table import SHARD_FORMATS
from tokcore.shards.opened_shards import MANIFEST
from tokcore.shards.shard_checks import (
    CheckedShard,
    Rules,
    check_folder,
    check_shard,
    find_all_shards,
    write_bounds,
    write_index,
)
from tokcore_pipelines.build.read_log import is_updated, read_log
from tokcore_pipelines.store import local_files, urls
from tokcore_pipelines.store.crashpoints import reach
from tokcore_schemas.commit_log import OWN, PARTS


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What is wrong, and what was made again."""

    shards: int
    documents: int
    tokens: int
    formats: tuple[str, ...]
    problems: tuple[str, ...]
    repaired: tuple[str, ...]  # paths


def check_shards(url: str, rules: Rules, repair: bool) -> Report:
    """Read every shard at a local path, in every format. Raises ConfigError if there is none."""
    if not urls.is_local(url):
        raise ConfigError(f"{url}: fsck reads local files: copy them here, or run `tokcore verify` on an output")
    place = urls.get_local_path(url).resolve()
    if not place.exists():
        raise ConfigError(f"{url}: there is no such file or folder")
    if not (place.is_file() or place.is_dir()):
        raise ConfigError(f"{url}: expected a file or a folder, found a FIFO, a socket or a device")
    if repair and _has_manifest(place):
        raise ConfigError(
            f"{url}: belongs to an output, whose manifest has its hashes: `tokcore repair OUTPUT` repairs it"
        )
    files, problems = find_all_shards(place)
    if (output := _find_expired(place)) is not None:
        files = [one for one in files if Path(one.path).is_relative_to(output / PARTS)]
    if not (files or problems):
        raise ConfigError(f"{url}: no shards in it")
    repaired: list[str] = []
    checked = []
    for file in files:
        if repair:
            _settle(file.list_files()[1:])
        shard = check_shard(file, rules)
        if shard.problems and repair:
            shard = _repair_bounds(shard, rules, repaired, problems)
        checked.append(shard)
    found = {} if problems else check_folder(place, checked)  # indexes name files that were not opened, too
    for name in found if repair else ():
        repaired += _repair_index(name, place, checked, problems)
    if repaired:
        found = check_folder(place, checked)
    problems += [*(one for shard in checked for one in shard.problems), *(one for own in found.values() for one in own)]
    formats = tuple(dict.fromkeys(file.format for file in files))
    documents, tokens = sum(shard.documents for shard in checked), sum(shard.tokens for shard in checked)
    return Report(len(files), documents, tokens, formats, tuple(dict.fromkeys(problems)), tuple(repaired))


def _find_expired(place: Path) -> Path | None:
    """The output that holds a place, or is it, if the shards of its first build are expired: their manifest is not."""
    output = next((folder for folder in (place, *place.parents) if is_updated(str(folder))), None)
    if output is None or OWN in {part.path for part in read_log(str(output)).reachable()}:
        return None
    return output


def _has_manifest(place: Path) -> bool:
    folders = (place / "shards", place, *place.parents[:4])
    return any(os.path.lexists(folder / MANIFEST) for folder in folders)


def _repair_bounds(shard: CheckedShard, rules: Rules, repaired: list[str], problems: list[str]) -> CheckedShard:
    """The shard after its file of bounds was made again; as it was if that is not what is wrong."""
    paths = shard.file.list_files()
    if len(paths) != 2 or SHARD_FORMATS[shard.file.format].open_plain is None:
        return shard
    try:
        with _replace(Path(paths[1]), lambda: check_shard(shard.file, rules)) as new:
            write_bounds(shard.file, rules, new)
    except (TokError, _StillWrongError) as error:
        problems.append(f"{paths[1]}: not made again: {error}")
        return shard
    repaired.append(paths[1])
    return check_shard(shard.file, rules)


def _repair_index(name: str, place: Path, checked: list[CheckedShard], problems: list[str]) -> Iterator[str]:
    one = SHARD_FORMATS[name]
    own = [shard for shard in checked if shard.file.format == name]
    if any(shard.problems for shard in own):
        problems.append(f"{place}: the index of {name} is not made again while a shard is damaged")
        return
    try:
        files = write_index(one, place, own)
    except FormatError as error:
        problems.append(str(error))
        return
    for path, data in files.items():
        with _replace(path, None) as new:
            new.write(data)
        yield str(path)


class _StillWrongError(Exception):
    """What was made again is not what was wrong."""


@contextlib.contextmanager
def _replace(path: Path, check: Callable[[], CheckedShard] | None) -> Iterator[BinaryIO]:
    """A new file that takes a place, durably, when the block ends, unless check still finds something wrong.

    Then the old file is there as before.
    """
    made, kept = path.with_name(f".{path.name}.new"), _get_kept(path)
    try:
        with made.open("wb") as new:
            yield new
            new.flush()
            os.fsync(new.fileno())
        made.chmod(0o644)
        reach("fsck.written")
        if check is not None and path.exists():
            path.rename(kept)
            reach("fsck.moved")
        made.rename(path)
        reach("fsck.placed")
        if check is not None and (still := check().problems):
            path.unlink()
            if kept.exists():
                kept.rename(path)
            raise _StillWrongError(still[0])
        kept.unlink(missing_ok=True)
        local_files.sync_folder(path.parent)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def _get_kept(path: Path) -> Path:
    """Where the old file is until the new one is known to be right."""
    return path.with_name(f".{path.name}.damaged")


def _settle(paths: Iterable[str]) -> None:
    """Put files back that a killed run had moved out of the way, before it knew that the new ones are right."""
    for path in map(Path, paths):
        if (kept := _get_kept(path)).exists():
            kept.replace(path)
