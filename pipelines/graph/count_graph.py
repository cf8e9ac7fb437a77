"""The count stage: input ranges to one sorted table of pre-token counts per language.

    assignments -> CountItem -> ((lang, partition), run) -> MergeToFew -> (lang, runs) -> WriteTable -> table

The work itself is in pipelines.work.count_item, which worker processes import without Beam.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
from apache_beam import coders

from pipelines.graph.across import run_in_worker
from pipelines.graph.coders import JsonCoder, import_in_workers
from pipelines.graph.collect_graph import CollectResults
from pipelines.graph.local_pool import SharedPool
from pipelines.graph.measure import measure_item
from pipelines.store.attempts import Attempts
from pipelines.work.count_item import CountJob, find_or_count_item, make_item_key
from pipelines.work.merge_tree import FAN_IN, bound_runs, choose_max_runs, order_runs, reduce_runs
from pipelines.work.result_keys import make_table_key
from pipelines.work.runs import merge_runs, write_count_table
from pipelines.work.worker_notes import note_item
from schemas.plan import Assignment
from schemas.refs import ItemCounted, RunRef, TableRef

# Key: (language, partition). Named so that Beam finds our coders; it falls back to pickle where it cannot tell.
KeyedRun = tuple[tuple[str, int], RunRef]
KeyedRuns = tuple[tuple[str, int], Iterable[RunRef]]


@dataclasses.dataclass
class CountItems(beam.PTransform):
    """PCollection[Assignment] -> PCollection[TableRef], one table per language; order unspecified.

    A repeated assignment repeats the same rows; an interrupted one leaves nothing that anyone names.
    """

    job: CountJob
    pool: SharedPool | None = None

    def expand(self, assignments: beam.PCollection[Assignment]) -> beam.PCollection[TableRef]:
        import_in_workers(assignments.pipeline)
        counted = assignments | "CountItem" >> beam.ParDo(_CountItem(self.job, self.pool)).with_output_types(
            ItemCounted
        )
        _ = counted | "CollectResults" >> CollectResults(self.job.attempts, make_item_key, self.pool)
        return (
            counted
            | "ItsRuns" >> beam.FlatMap(_list_runs).with_output_types(KeyedRun)
            | "MergeIntoTables"
            >> MergeIntoTables(
                self.job.attempts, self.job.num_partitions, self.pool, make_table_key(self.job.attempts.identity)
            )
        )


@dataclasses.dataclass
class MergeIntoTables(beam.PTransform):
    """PCollection[tuple[(lang, partition), RunRef]] -> PCollection[TableRef], one table per language."""

    attempts: Attempts
    num_partitions: int
    pool: SharedPool | None = None
    result_key: str = ""  # in the names of the tables, unless empty

    def expand(self, runs: beam.PCollection[KeyedRun]) -> beam.PCollection[TableRef]:
        # The table is a merge in any case: what it can take in, over all partitions, is not merged before.
        combine = MergeToFew(self.attempts, choose_max_runs(self.num_partitions), self.pool)
        return (
            runs
            | "MergeToFew" >> beam.CombinePerKey(combine).with_output_types(KeyedRuns)
            | "DropPartition" >> beam.FlatMapTuple(_drop_partition).with_output_types(tuple[str, RunRef])
            | "GroupByLanguage" >> beam.GroupByKey()
            | "WriteTable"
            >> beam.ParDo(_WriteTable(self.attempts, self.pool, self.result_key)).with_output_types(TableRef)
        )


class _CountItem(beam.DoFn):
    def __init__(self, job: CountJob, pool: SharedPool | None) -> None:
        self._job = job
        self._pool = pool

    def process(self, assignment: Assignment) -> Iterator[ItemCounted]:
        item, was_done = run_in_worker(self._pool, find_or_count_item, self._job, assignment)
        measure_item("count", item, was_done)
        if self._pool is None and not was_done:
            note_item(self._job.attempts, item.item)
        yield item


def _list_runs(item: ItemCounted) -> Iterator[tuple[tuple[str, int], RunRef]]:
    for run in item.runs:
        yield (run.key, run.partition), run


class Merging:
    """Adds up sorted runs, for a CombineFn; an accumulator is a bounded list of references to files, never a table.

    pipelines.work.merge_tree says which are merged.
    """

    def __init__(self, attempts: Attempts, pool: SharedPool | None = None, fan_in: int = FAN_IN) -> None:
        if fan_in < 2:
            raise ValueError(f"fan_in = {fan_in}: a merge needs at least 2 runs")
        self._attempts = attempts
        self._pool = pool
        self._fan_in = fan_in

    def create_accumulator(self) -> list[RunRef]:
        return []

    def add_input(self, accumulator: list[RunRef], run: RunRef) -> list[RunRef]:
        return self._bounded([*accumulator, run])

    def merge_accumulators(self, accumulators: Iterable[list[RunRef]]) -> list[RunRef]:
        return self._bounded([run for accumulator in accumulators for run in accumulator])

    def compact(self, accumulator: list[RunRef]) -> list[RunRef]:
        return accumulator

    def get_accumulator_coder(self) -> coders.Coder:
        return coders.IterableCoder(JsonCoder(RunRef))

    def _bounded(self, runs: Sequence[RunRef]) -> list[RunRef]:
        """The runs, with fewer than fan_in of each tier."""
        return bound_runs(runs, self._merge, self._fan_in)

    def _reduce(self, runs: Sequence[RunRef], num: int) -> list[RunRef]:
        """At most num runs with the same sum."""
        return reduce_runs(runs, num, self._merge, self._fan_in)

    def _merge(self, runs: list[RunRef]) -> RunRef:
        return run_in_worker(self._pool, merge_runs, self._attempts, tuple(sorted(runs, key=order_runs)))


@beam.typehints.with_input_types(RunRef)
@beam.typehints.with_output_types(Iterable[RunRef])
class MergeToFew(Merging, beam.CombineFn):
    """At most max_runs runs with the same sum."""

    def __init__(self, attempts: Attempts, max_runs: int, pool: SharedPool | None = None, fan_in: int = FAN_IN) -> None:
        super().__init__(attempts, pool, fan_in)
        self._max_runs = max_runs

    def extract_output(self, accumulator: list[RunRef]) -> tuple[RunRef, ...]:
        return tuple(self._reduce(accumulator, self._max_runs))


class _WriteTable(beam.DoFn):
    def __init__(self, attempts: Attempts, pool: SharedPool | None, result_key: str) -> None:
        self._attempts = attempts
        self._pool = pool
        self._result_key = result_key

    def process(self, element: tuple[str, Iterable[RunRef]]) -> Iterator[TableRef]:
        lang, runs = element
        ordered = tuple(sorted(runs, key=order_runs))
        yield run_in_worker(self._pool, write_count_table, self._attempts, lang, ordered, self._result_key)


def _drop_partition(key: tuple[str, int], runs: Iterable[RunRef]) -> Iterator[tuple[str, RunRef]]:
    return ((key[0], run) for run in runs)
