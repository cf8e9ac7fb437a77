"""An expiry: a commit after which earlier commits cannot be read, and the removal of what only they name.

The files of the log stay, so the chain of commits can be checked from the build on. Of the build's own folder,
manifests and tokenizers stay, too: all parts follow from these.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from tokcore.errors import ConfigError
from tokcore_pipelines.build.commit import MANIFEST, find_manifests
from tokcore_pipelines.build.dataset_card import follow_commits
from tokcore_pipelines.build.read_log import Log, read_log
from tokcore_pipelines.history.make_commit import create_commit
from tokcore_pipelines.history.tombstone_changes import list_named_files
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.crashpoints import reach
from tokcore_pipelines.store.out_of_reach import describe_out_of_reach
from tokcore_pipelines.store.redaction import redact
from tokcore_schemas.commit_log import EXPIRE, OWN, PARTS, Commit, Reason, name_commit
from tokcore_schemas.stage_table import STAGES
from tokcore_schemas.tombstones import REMOVED


class Expired(NamedTuple):
    """What an expiry did."""

    commit: Commit | None  # None: no further commit was given up
    files: int  # that were removed, or would be
    size_bytes: int
    oldest: int  # commit that can be read now, or could be
    out_of_reach: str  # what the store may keep of the files, in words


def expire(
    output: str,
    keep: int | None = None,
    older_than_s: int | None = None,
    keep_commit: int | None = None,
    dry_run: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Expired:
    """Give up all commits but the newest ones, and remove what only they name.

    keep: how many states of the output stay, at least 1. older_than_s: give up those that a later one replaced at
    least this many seconds ago. keep_commit: the number of a commit that stays whatever the two say, with all later
    ones. Give one of the three, or several. dry_run: change nothing. say: takes a warning of what readers lose, before
    anything is changed.
    Raises ConfigError if there is no finished build, or no such commit that can be read.
    """
    if keep is not None and keep < 1:
        raise ConfigError(f"--keep {keep}: the newest commit always stays: at least 1")
    commit = None
    while True:
        log = read_log(output)
        oldest = _choose_oldest(log, keep, older_than_s, keep_commit)
        if oldest > log.oldest:
            say(_warn_of_readers(log, oldest))
        if dry_run:
            return _find_expiring(log, max(oldest, log.oldest))
        if oldest <= log.oldest:
            break
        commit = create_commit(log, Reason(EXPIRE), (), (), oldest=oldest)
        if commit is not None:
            reach("expire.committed")
            break
    follow_commits(log)  # before what the card of an earlier commit names is removed
    log = read_log(output)
    removed = _remove(log)
    return Expired(commit, len(removed), sum(removed.values()), log.oldest, describe_out_of_reach(output))


def _warn_of_readers(log: Log, oldest: int) -> str:
    """What readers lose if a commit becomes the oldest. Who they are is not known: readers leave no trace."""
    first, last = log.oldest, oldest - 1
    which, each = (f"commit {first}", "it") if first == last else (f"commits {first} to {last}", "one of them")
    return (
        f'warning: {which} cannot be read then. A run that reads {each}, as Loader(at=N, removed="mask") does, loses '
        f"its files and cannot go on. No output knows who reads it: make sure that there is no such run, or name the "
        f"commit that it reads (--keep-commit N)"
    )


def _find_expiring(log: Log, oldest: int) -> Expired:
    """What an expiry would do after which a commit is the oldest."""
    there = storage.list_footprints(log.output)
    if log.commits:
        log = dataclasses.replace(log, commits=(*log.commits[:-1], dataclasses.replace(log.commits[-1], oldest=oldest)))
    going = [*list_expired(log, there)]
    return Expired(
        None, len(going), sum(there[path].size_bytes for path in going), oldest, describe_out_of_reach(log.output)
    )


def _choose_oldest(log: Log, keep: int | None, older_than_s: int | None, keep_commit: int | None) -> int:
    """The number of the oldest commit that stays. An expiry is no state of its own: it holds what was before."""
    if keep_commit is not None:
        if not log.oldest <= keep_commit <= log.newest:
            raise ConfigError(
                f"--keep-commit {keep_commit}: {redact(log.output)} has the commits {log.oldest} to {log.newest} that "
                f"can be read. Name one of these"
            )
        if keep is None and older_than_s is None:
            return keep_commit
        return min(keep_commit, _choose_oldest(log, keep, older_than_s, None))
    states = [0, *(one.number for one in log.commits if one.why.command != EXPIRE)]
    if keep is not None:
        return states[-keep:][0]
    assert older_than_s is not None
    for state, following in itertools.pairwise(states):
        found = storage.read_footprint(urls.join(log.output, name_commit(following)))
        if found is None or time.time() - found.changed < older_than_s:
            return state
    return states[-1]


def _remove(log: Log) -> dict[str, int]:
    """Remove what no commit can be read for; path -> size in bytes. Manifests of a part go first.

    So a build that begins in the folder of a part never takes half of it for the whole.
    """
    output = log.output
    there = storage.list_footprints(output)
    going = sorted(list_expired(log, there))
    first = [path for path in going if path.endswith(f"/{MANIFEST}")]
    storage.remove_files(output, first)
    if first:
        reach("expire.removing")
    storage.remove_files(output, [path for path in going if path not in {*first}])
    for place in (PARTS, REMOVED, *STAGES):
        storage.remove_empty_folders(urls.join(output, place))
    return {path: there[path].size_bytes for path in going}


def list_expired(log: Log, there: Collection[str]) -> Iterator[str]:
    """Of the files below an output, those that only expired commits name: parts, and what the build's own folder has.

    Of files of tombstones also those that a later commit has dropped, unless a part was read with them. Nothing of a
    part that no commit has ever named, as that of an update that is at work.
    """
    reachable = {part.path for part in log.reachable()}
    gone = {part.path for number in range(log.oldest) for part in log.parts(number)} - reachable
    folders = tuple(f"{path}/" for path in gone if path != OWN)
    yield from (path for path in there if path.startswith(folders))
    if OWN in gone:
        # What other commits need is in none of the stages that expire.
        for stage, made in find_manifests(log.output, (one for one in STAGES.values() if one.expires)).items():
            yield from {f"{stage}/{file.path}" for file in made.list_files()} & {*there}
    if (known := log.list_tombstone_files().keys() & {*there}) and (unnamed := known - {*list_named_files(log)}):
        yield from sorted(unnamed)
