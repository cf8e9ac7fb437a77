"""What a removal from an output with [dedup] takes beside the documents that are named: all that are equal to them.

Documents that were dropped as duplicates are in no shard, and may be named, too. So the inputs are read for the names,
and for the digests of such documents. Digests get tombstones of their own, which keep equal documents away even when
the one that was named is no longer among the inputs; a tombstone of the kind equal says that an id has such digests.
A document that is removed alone has none of these.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, TypeVar

from tokcore.errors import ConfigError
from tokcore_pipelines.build.file_rejections import with_rejections
from tokcore_pipelines.build.read_log import Log, locate_part
from tokcore_pipelines.history.input_files_held import HeldFile, HeldFiles
from tokcore_pipelines.history.make_commit import make_plan_again
from tokcore_pipelines.history.named_ids import MANY, IdFile, Ids
from tokcore_pipelines.local.pool import Workers
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.local.worker_modules import WORKER_MODULES
from tokcore_pipelines.store.opened_tombstones import OpenedTombstones
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.find_duplicates import find_equal, find_named
from tokcore_schemas.config import BuildConfig
from tokcore_schemas.plan import Assignment, Plan
from tokcore_schemas.stage_manifests import DedupConfig
from tokcore_schemas.tombstones import merge_tombstones

T = TypeVar("T")

# With fewer bytes, this process is done before workers have started.
WORTH_WORKERS = 16 << 20


class WithDuplicates(NamedTuple):
    """What a removal does beside adding the tombstones of its names."""

    found: frozenset[str] = frozenset()  # of these tombstones, those that documents of the inputs have
    added: frozenset[str] = frozenset()  # more tombstones
    restored: tuple[str, ...] = ()  # tombstones that it takes back, sorted
    equal: tuple[tuple[str, str], ...] = ()  # as of Commit
    reads_again: bool = False  # whether documents go, or come back, even if no shard holds what is named


def refuse_of_duplicates(log: Log, this_copy: bool, langs: Collection[str], sources: Collection[str]) -> None:
    """Raise ConfigError for a removal that an output cannot have, since it has [dedup], or has it not."""
    output, has_dedup = redact(log.output), log.build.config.dedup is not None
    if this_copy and not has_dedup:
        raise ConfigError(
            f"{output}: was built without [dedup], so each removal takes just what it names: leave --this-copy out"
        )
    if this_copy and langs:
        raise ConfigError("--this-copy is for documents that --ids names, or for files (--source): leave --lang out")
    if has_dedup and sources and not this_copy:
        raise ConfigError(
            f"{output}: was built with [dedup], so documents of other files may stand for those of a file. Remove "
            f"its documents by their ids, and all that are equal go, too; or add --this-copy, and they stay"
        )


def refuse_many(log: Log, ids: Ids) -> None:
    """Raise ConfigError for more ids than one removal from an output with [dedup] takes."""
    if isinstance(ids, IdFile) and log.build.config.dedup is not None:
        raise ConfigError(
            f"{redact(log.output)}: was built with [dedup], so a commit says for each id which documents are equal: at "
            f"most {MANY:,} ids at a time. Cut the file (`split -l {MANY}`), and remove one after the other"
        )


def find_with_duplicates(
    log: Log,
    held: HeldFiles,
    wanted: OpenedTombstones,
    names: tuple[Collection[str], Collection[str]],
    this_copy: bool,
    config: BuildConfig,
    options: RunOptions,
) -> WithDuplicates:
    """What a removal takes. wanted: tombstones of all names. names: ids, languages. config: of the output.

    Reads all inputs, if the output has [dedup] and documents or languages are named. Raises StageError for an input
    that is gone, or has changed.
    """
    dedup = log.build.config.dedup
    if dedup is None or not any(names):
        return WithDuplicates()
    removed = log.open_tombstones()

    def is_there(tombstone: str) -> bool:
        return removed is not None and tombstone in removed

    of_ids = frozenset(wanted.spell("equal", one) for one in names[0])
    found, equal = _read(dedup, _plan_inputs(log, held, config), wanted, config, options)
    if this_copy:
        # Of an id that was removed with all its duplicates, these come back.
        back = list_equal_of(log, of_ids)
        return WithDuplicates(found, restored=tuple(back), reads_again=bool(back))
    new = equal - {one for one in log.list_equal() if all(map(is_there, one))}
    added = of_ids | {digest for _, digest in new}
    is_more = any(not is_there(one) for one in (*found, *(digest for _, digest in new)))
    is_more |= bool(found) and not all(map(is_there, of_ids))
    return WithDuplicates(found, added, equal=tuple(sorted(new)), reads_again=is_more)


def find_standing(
    log: Log, held: HeldFiles, equal: Collection[tuple[str, str]], config: BuildConfig, options: RunOptions
) -> OpenedTombstones | None:
    """Tombstones of the ids of all documents that have these digests: of each, one is in the shards. None: of none.

    equal: as WithDuplicates has it. Reads all inputs.
    """
    digests = merge_tombstones(log.tombstone_key, (digest for _, digest in equal))
    dedup = log.build.config.dedup
    if dedup is None or digests is None:
        return None
    plan = _plan_inputs(log, held, config)
    of_items = _read_items(find_equal, plan, (dedup, config.base), OpenedTombstones(digests, log.output), options)
    standing = merge_tombstones(log.tombstone_key, frozenset[str]().union(*of_items))
    return None if standing is None else OpenedTombstones(standing, log.output)


def list_equal_of(log: Log, equal: Collection[str]) -> list[str]:
    """Those of these tombstones of the kind equal that are there, and those of digests that only they keep; sorted."""
    if (removed := log.open_tombstones()) is None:
        return []
    pairs = log.list_equal()
    others = {digest for name, digest in pairs if name not in equal and name in removed}
    back = {*equal, *(digest for name, digest in pairs if name in equal and digest not in others)}
    return sorted(one for one in back if one in removed)


def take_back(held: HeldFile, restored: Collection[str]) -> HeldFile:
    """A file that is to be read without these of the tombstones that it was read with."""
    if not restored or (own := held.settings.removed) is None:
        return held
    left = merge_tombstones(own.key, {*own.hashes} - {*restored})  # those in files are in files of the output now
    return held._replace(settings=dataclasses.replace(held.settings, removed=left))


def _plan_inputs(log: Log, held: HeldFiles, config: BuildConfig) -> Plan:
    """All inputs, of which the parts say which are rejected though they are cut."""
    plan = make_plan_again(held.values(), None, config.plan.range_bytes)
    for part in log.parts():
        plan = with_rejections(plan, locate_part(log.output, part))
    return plan


def _read(
    dedup: DedupConfig, plan: Plan, wanted: OpenedTombstones, config: BuildConfig, options: RunOptions
) -> tuple[frozenset[str], frozenset[tuple[str, str]]]:
    """(tombstones that documents have, tombstones of ids with those of digests)."""
    found: set[str] = set()
    equal: set[tuple[str, str]] = set()
    for named in _read_items(find_named, plan, (dedup, config.base), wanted, options):
        found |= named.found
        equal |= named.equal
    return frozenset(found), frozenset(equal)


def _read_items(
    read: Callable[[DedupConfig, str, Assignment, OpenedTombstones], T],
    plan: Plan,
    how: tuple[DedupConfig, str],
    wanted: OpenedTombstones,
    options: RunOptions,
) -> Iterator[T]:
    """What a function gives of each work item, in any order."""
    calls = ((read, (*how, one, wanted)) for one in map(plan.assignment, plan.list_largest_first()))
    with contextlib.closing(Workers(options, WORKER_MODULES)) as workers:
        pool = workers.start() if plan.size_bytes >= WORTH_WORKERS else None
        yield from (of for _, of in pool.run_all(calls)) if pool is not None else (one(*with_) for one, with_ in calls)
