"""What the workers of a stage recorded, as the driver reads it: Beam's outputs carry no results.

On a disk each piece of work has a file. In a store the driver reads the objects in which workers collected many.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

from tokcore.errors import StageError
from tokcore.files.jsonable import from_jsonable, to_jsonable
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.parallel_requests import run_at_once
from tokcore_pipelines.work.collected_results import list_groups, read_collected
from tokcore_pipelines.work.count_item import make_item_key
from tokcore_schemas.document import find_twins
from tokcore_schemas.packed_rows import PackedRows
from tokcore_schemas.plan import Plan
from tokcore_schemas.spooled_blocks import SpooledBlocks

T = TypeVar("T")

_GROUPS_AT_ONCE = 4  # of records that are in one object


def read_record(attempts: Attempts, key: str, cls: type[T]) -> T:
    """The record of a piece of work. Raises StageError if there is none, though the runner is done."""
    if (result := attempts.result(key, cls)) is None:
        raise StageError(
            f"stage {attempts.stage}: the runner finished without a result for {key}. Run the command again."
        )
    return result


def read_records(attempts: Attempts, keys: Iterable[str], cls: type[T]) -> list[T]:
    """The records of pieces of work, in their order. Several are asked for at a time."""
    return run_at_once(lambda key: read_record(attempts, key, cls), keys)


def read_items(attempts: Attempts, plan: Plan, cls: type[T], make_key: Callable[[int], str] = make_item_key) -> list[T]:
    """The results of all work items, in plan order. make_key: of an item's number."""
    return read_numbered(attempts, len(plan.items), cls, make_key)


def iterate_alone(attempts: Attempts, num: int, cls: type[T], make_key: Callable[[int], str]) -> Iterator[T]:
    """As iterate_numbered, of records that nothing has collected."""
    for group in list_groups(num):
        yield from read_records(attempts, map(make_key, group), cls)


def read_packed(attempts: Attempts, num: int, cls: type[T], make_key: Callable[[int], str]) -> PackedRows[T]:
    """As iterate_alone, all of them, packed: large ones, that are looked at a few times."""
    records = iterate_alone(attempts, num, cls, make_key)
    build = functools.partial(from_jsonable, cls, place="")
    return PackedRows(lambda one: [to_jsonable(one)], build, records, block_rows=1, blocks=SpooledBlocks())


def read_numbered(attempts: Attempts, num: int, cls: type[T], make_key: Callable[[int], str]) -> list[T]:
    """The results of num pieces of work, in the order of their numbers, from 0. make_key: of a number."""
    return [*iterate_numbered(attempts, num, cls, make_key)]


def iterate_numbered(attempts: Attempts, num: int, cls: type[T], make_key: Callable[[int], str]) -> Iterator[T]:
    """The same, of which only a few thousand are held at a time."""
    groups = list_groups(num)
    if urls.is_local(attempts.output):
        yield from iterate_alone(attempts, num, cls, make_key)
        return
    for start in range(0, len(groups), _GROUPS_AT_ONCE):
        some = groups[start : start + _GROUPS_AT_ONCE]
        found = run_at_once(lambda group: read_collected(attempts, make_key, group, cls), some)
        for group, results in zip(some, found, strict=True):
            yield from read_records(attempts, map(make_key, group), cls) if results is None else results


def refuse_twins(languages: Collection[str]) -> None:
    """Raise StageError for two languages whose names differ in case only."""
    if (found := find_twins(languages)) is not None:
        raise StageError(
            f"languages {found[0]!r} and {found[1]!r} differ in case only, and languages name files, which many disks "
            f"would take for one. Spell them alike in the data, set lang for each source, or build a new output with "
            f'build.lang_normalize = "bcp47".'
        )
