"""Files of tombstones, as `tokcore verify` checks them: each is as commits name it, and holds what it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tokcore.errors import TokError
from tokcore.shards.tombstone_files import HashFile, count, count_bytes, subtract
from tokcore_pipelines.build.read_log import Log
from tokcore_pipelines.history.tombstone_changes import list_named_files
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.local_copies import copy_if_remote
from tokcore_schemas.tombstones import TombstoneFile


class CheckedTombstones(NamedTuple):
    """What was found of them."""

    problems: tuple[str, ...]
    named: frozenset[str]  # paths
    size_bytes: int


NO_TOMBSTONES = CheckedTombstones((), frozenset(), 0)


def check_tombstones(log: Log) -> CheckedTombstones:
    """Check the files that a commit which can be read has, or that a part of one was read with."""
    named = list_named_files(log)
    if not named:
        return NO_TOMBSTONES
    sizes = {path: count_bytes(file.num) for path, file in named.items()}
    problems = (f"{path}: {problem}" for path, file in named.items() for problem in _check(log, file, named))
    return CheckedTombstones(tuple(problems), frozenset(named), sum(sizes.values()))


def _check(log: Log, file: TombstoneFile, named: Mapping[str, TombstoneFile]) -> Iterator[str]:
    held = [one for one in named.values() if one.sha256 in file.holds]
    paths = [one.path for one in (file, *held) if storage.is_file(urls.join(log.output, one.path))]
    if file.path not in paths:
        yield "missing: it says what was removed: put it back from a copy of the output"
        return
    with copy_if_remote(log.output, paths) as folder:
        try:
            with HashFile(f"{folder}/{file.path}", file.sha256) as opened:
                if problem := opened.check():
                    yield problem
                if opened.num != file.num:
                    yield f"holds {opened.num:,} tombstones, and {file.num:,} are named"
                for one in held:
                    if one.path in paths:
                        with HashFile(f"{folder}/{one.path}") as smaller:
                            if lacking := count(subtract(smaller.blocks(), opened.blocks())):
                                yield f"lacks {lacking:,} tombstones of {one.path}, which it says to hold"
        except TokError as error:
            yield str(error).replace(f"{folder}/{file.path}: ", "")
