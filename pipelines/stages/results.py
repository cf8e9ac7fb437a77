"""What the workers of a stage recorded, as the driver reads it: Beam's outputs carry no results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from pipelines.store import urls
from pipelines.store.at_once import run_at_once
from pipelines.store.attempts import Attempts
from pipelines.work.count_item import make_item_key
from pipelines.work.language_totals import add_up_languages
from schemas.document import find_twins
from schemas.plan import Plan, WorkItem
from schemas.refs import ItemCounted, ItemEncoded, ItemScattered, LanguageCounts, PartGathered
from tokcore.errors import StageError

T = TypeVar("T")


def read_record(attempts: Attempts, key: str, cls: type[T]) -> T:
    """The record of a piece of work. Raises StageError if there is none, though the runner is done."""
    if (result := attempts.result(key, cls)) is None:
        raise StageError(
            f"stage {attempts.stage}: the runner finished without a result for {key}. Run the command again."
        )
    return result


def read_items(attempts: Attempts, plan: Plan, cls: type[T], make_key: Callable[[int], str] = make_item_key) -> list[T]:
    """The records of all work items, in plan order. Several are asked for at a time. make_key: of an item's number."""

    def read(item: WorkItem) -> T:
        return read_record(attempts, make_key(item.number), cls)

    return list(map(read, plan.items)) if urls.is_local(attempts.output) else run_at_once(read, plan.items)


def sum_up_languages(
    items: Iterable[ItemCounted | ItemEncoded | ItemScattered | PartGathered],
) -> dict[str, LanguageCounts]:
    """The totals of each language over all work items, in the order of names.

    Raises StageError for two languages whose names differ in case only.
    """
    totals = add_up_languages(item.languages for item in items)
    if (found := find_twins(totals)) is not None:
        raise StageError(
            f"languages {found[0]!r} and {found[1]!r} differ in case only, and languages name files, which many disks "
            f"would take for one. Spell them alike in the data, or set lang for each source."
        )
    return totals
