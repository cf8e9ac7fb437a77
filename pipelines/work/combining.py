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
from tokcore_pipelines.work.merge_tree import choose_max_runs
from tokcore_pipelines.work.runs import merge_runs, write_count_table
from tokcore_pipelines.work.token_count_runs import count_groups, find_group_key, merge_id_runs
from tokcore_schemas.refs import ItemCounted, ItemEncoded, PartGathered, RunRef

KeyedRuns = Iterator[tuple[tuple[str, int], RunRef]]


@dataclasses.dataclass(frozen=True, slots=True)
class Adding:
    """How sorted runs that tasks leave are added up. Runs of one name, of all its partitions, make one result."""

    list_runs: Callable[[Any], Iterable[tuple[tuple[str, int], RunRef]]]  # of a task: ((name, partition), run)
    merge: Callable[[Attempts, tuple[RunRef, ...]], RunRef]  # several runs to one with the same sum
    max_runs: int  # that are left of each name and partition
    finish: Callable[[Attempts, str, tuple[RunRef, ...]], Any]  # records the result of a name, of what is left of it


@dataclasses.dataclass(frozen=True, slots=True)
class Combining:
    """What follows a step."""

    make_key: Callable[[int], str] | None = None  # record key of a number: many records go into one object of a store
    adding: Adding | None = None


def add_up_counts(num_partitions: int, result_key: str = "") -> Adding:
    """How counts of pre-tokens become a table for each key. result_key: in their names, unless empty."""
    finish = functools.partial(write_count_table, result_key=result_key)
    # The table is a merge in any case: what it can take in, over all partitions, is not merged before.
    return Adding(_list_count_runs, merge_runs, choose_max_runs(num_partitions), finish)


def add_up_token_counts(num: int) -> Adding:
    """How counts of token ids become a file for each group. num: work items or parts that leave some."""
    return Adding(functools.partial(_list_id_runs, count_groups(num)), merge_id_runs, 1, _record_one)


def _list_count_runs(counted: tuple[ItemCounted, bool]) -> KeyedRuns:
    return (((run.key, run.partition), run) for run in counted[0].runs)


def _list_id_runs(num_groups: int, written: tuple[ItemEncoded, bool] | PartGathered) -> KeyedRuns:
    if isinstance(written, PartGathered):
        yield (find_group_key(written.number, num_groups), 0), written.token_counts
    else:
        yield (find_group_key(written[0].item, num_groups), 0), written[0].token_counts


def _record_one(attempts: Attempts, key: str, runs: tuple[RunRef, ...]) -> RunRef:
    (run,) = runs
    return attempts.record(key, run)
