"""How an engine goes on by itself with what the tasks of a step leave, in the same job. No Beam.

Elsewhere the driver reads the records, and makes steps of their own of it (tokcore_pipelines.build.item_steps). On an
engine each would be one more job, which takes seconds, or minutes where hosts have to start; and its workers can merge
what is on one machine before they shuffle.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.key_ranges import HashedKeys, require_ranges
from tokcore_pipelines.work.merge_tree import FAN_IN
from tokcore_pipelines.work.range_tables import (
    RangeToTables,
    TableOfParts,
    join_table,
    merge_hashed,
    write_hashed_table,
    write_range,
)
from tokcore_pipelines.work.runs import merge_runs
from tokcore_pipelines.work.token_count_runs import count_groups, find_group_key, merge_id_runs
from tokcore_schemas.refs import ItemCounted, ItemEncoded, PartGathered, RunRef, TablePart, TableRef

KeyedRuns = Iterator[tuple[tuple[str, int], RunRef]]


@dataclasses.dataclass(frozen=True, slots=True)
class Adding:
    """How sorted runs that tasks leave are added up, first those of a key, then all that is left of a name."""

    list_runs: Callable[[Any], Iterable[tuple[tuple[str, int], RunRef]]]  # of a task: ((name, partition), run)
    merge: Callable[[Attempts, tuple[RunRef, ...]], RunRef]  # several runs to one with the same sum
    max_runs: int  # that are left of each name and partition
    # What is left of a name and partition -> (name of a result, run or what else it takes) for each that goes on.
    regroup: Callable[[Attempts, tuple[str, int], tuple[RunRef, ...]], Iterable[tuple[str, Any]]]
    finish: Callable[[Attempts, str, tuple[Any, ...]], Any]  # records the result of a name, of its runs in any order
    regrouped: type[Any] = RunRef


@dataclasses.dataclass(frozen=True, slots=True)
class Combining:
    """What follows a step."""

    make_key: Callable[[int], str] | None = None  # record key of a number: many records go into one object of a store
    adding: Adding | None = None


def add_up_counts(ranges: HashedKeys | int, result_key: str = "") -> Adding:
    """How counts of pre-tokens become a table for each key. result_key: in their names, unless empty.

    ranges: into which keys are dealt; a number: those that workers have recorded, as many as the plan says.
    """
    # The last merge of a range takes in what one merge can.
    if not isinstance(ranges, int):
        finish = functools.partial(write_hashed_table, result_key=result_key)
        return Adding(_list_count_runs, merge_runs, FAN_IN, _merge_hashed, finish)
    regroup = functools.partial(_write_range, num=ranges, result_key=result_key)
    join = functools.partial(_join_table, result_key=result_key)
    return Adding(_list_count_runs, merge_runs, FAN_IN, regroup, join, TablePart)


def add_up_token_counts(num: int) -> Adding:
    """How counts of token ids become a file for each group. num: work items or parts that leave some."""
    return Adding(functools.partial(_list_id_runs, count_groups(num)), merge_id_runs, 1, _keep_name, _record_one)


def _list_count_runs(counted: tuple[ItemCounted, bool]) -> KeyedRuns:
    return ((("", run.partition), run) for file in counted[0].runs for run in file.list_runs())


def _merge_hashed(attempts: Attempts, key: tuple[str, int], runs: tuple[RunRef, ...]) -> Iterable[tuple[str, RunRef]]:
    return [(run.key, run) for run in merge_hashed(attempts, key[1], runs)]


def _write_range(
    attempts: Attempts, key: tuple[str, int], runs: tuple[RunRef, ...], num: int, result_key: str
) -> Iterable[tuple[str, TablePart]]:
    left = write_range(attempts, require_ranges(attempts, num), result_key, RangeToTables(key[1], runs))
    return [(part.key, part) for part in left.parts]


def _join_table(attempts: Attempts, name: str, parts: tuple[TablePart, ...], result_key: str) -> TableRef:
    return join_table(attempts, result_key, TableOfParts(name, parts))


def _keep_name(_attempts: Attempts, key: tuple[str, int], runs: tuple[RunRef, ...]) -> Iterable[tuple[str, RunRef]]:
    return [(key[0], run) for run in runs]


def _list_id_runs(num_groups: int, written: tuple[ItemEncoded, bool] | PartGathered) -> KeyedRuns:
    if isinstance(written, PartGathered):
        yield (find_group_key(written.number, num_groups), 0), written.token_counts
    else:
        yield (find_group_key(written[0].item, num_groups), 0), written[0].token_counts


def _record_one(attempts: Attempts, key: str, runs: tuple[RunRef, ...]) -> RunRef:
    (run,) = runs
    return attempts.record(key, run)
