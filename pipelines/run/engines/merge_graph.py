"""Sorted runs of counts, added up in workers.

    ((name, partition), run) -> MergeToFew -> Regroup -> (name, runs) -> Finish

The merges themselves are in tokcore_pipelines.work.runs, range_tables and token_count_runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam import coders

from tokcore_pipelines.run.engines.across import run_here
from tokcore_pipelines.run.engines.coders import JsonCoder
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.combining import Adding
from tokcore_pipelines.work.merge_tree import FAN_IN, bound_runs, order_runs, reduce_runs
from tokcore_pipelines.work.runs import merge_runs
from tokcore_schemas.refs import RunRef

# Key: (name, partition). Named so that Beam finds our coders; it falls back to pickle where it cannot tell.
KeyedRun = tuple[tuple[str, int], RunRef]
KeyedRuns = tuple[tuple[str, int], Iterable[RunRef]]


@dataclasses.dataclass
class AddUpRuns(beam.PTransform):
    """PCollection[tuple[(name, partition), RunRef]] -> PCollection[T]: what adding.finish gives, one for each name."""

    attempts: Attempts
    adding: Adding
    kind: type[Any] = RunRef  # T

    def expand(self, runs: beam.PCollection[KeyedRun]) -> beam.PCollection[Any]:
        combine = MergeToFew(self.attempts, self.adding.max_runs, self.adding.merge)
        regroup = _Regroup(self.attempts, self.adding.regroup)
        finish = _Finish(self.attempts, self.adding.finish)
        return (
            runs
            | "MergeToFew" >> beam.CombinePerKey(combine).with_output_types(KeyedRuns)
            | "Regroup" >> beam.ParDo(regroup).with_output_types(tuple[str, self.adding.regrouped])  # type: ignore[name-defined]
            | "GroupPartitions" >> beam.GroupByKey()
            | "Finish" >> beam.ParDo(finish).with_output_types(self.kind)
        )


@beam.typehints.with_input_types(RunRef)
@beam.typehints.with_output_types(Iterable[RunRef])
class MergeToFew(beam.CombineFn):
    """Adds up sorted runs to at most max_runs; an accumulator is a bounded list of references to files, never a table.

    tokcore_pipelines.work.merge_tree says which are merged.
    """

    def __init__(
        self,
        attempts: Attempts,
        max_runs: int,
        merge: Callable[[Attempts, tuple[RunRef, ...]], RunRef] = merge_runs,
        fan_in: int = FAN_IN,
    ) -> None:
        """merge: several runs to one with the same sum."""
        if fan_in < 2:
            raise ValueError(f"fan_in = {fan_in}: a merge needs at least 2 runs")
        self._attempts = attempts
        self._max_runs = max_runs
        self._merge_runs = merge
        self._fan_in = fan_in

    def create_accumulator(self) -> list[RunRef]:
        return []

    def add_input(self, accumulator: list[RunRef], run: RunRef) -> list[RunRef]:
        return self._bounded([*accumulator, run])

    def merge_accumulators(self, accumulators: Iterable[list[RunRef]]) -> list[RunRef]:
        return self._bounded([run for accumulator in accumulators for run in accumulator])

    def compact(self, accumulator: list[RunRef]) -> list[RunRef]:
        return accumulator

    def extract_output(self, accumulator: list[RunRef]) -> tuple[RunRef, ...]:
        return tuple(reduce_runs(accumulator, self._max_runs, self._merge, self._fan_in))

    def get_accumulator_coder(self) -> coders.Coder:
        return coders.IterableCoder(JsonCoder(RunRef))

    def _bounded(self, runs: Sequence[RunRef]) -> list[RunRef]:
        """The runs, with fewer than fan_in of each tier."""
        return bound_runs(runs, self._merge, self._fan_in)

    def _merge(self, runs: list[RunRef]) -> RunRef:
        return run_here(lambda: self._merge_runs(self._attempts, tuple(sorted(runs, key=order_runs))))


@dataclasses.dataclass
class _Regroup(beam.DoFn):
    attempts: Attempts
    regroup: Callable[[Attempts, tuple[str, int], tuple[RunRef, ...]], Iterable[tuple[str, Any]]]

    def process(self, element: KeyedRuns) -> Iterator[tuple[str, Any]]:
        key, runs = element
        yield from run_here(lambda: self.regroup(self.attempts, key, tuple(sorted(runs, key=order_runs))))


@dataclasses.dataclass
class _Finish(beam.DoFn):
    attempts: Attempts
    finish: Callable[[Attempts, str, tuple[Any, ...]], Any]

    def process(self, element: tuple[str, Iterable[Any]]) -> Iterator[Any]:
        name, runs = element
        yield run_here(lambda: self.finish(self.attempts, name, tuple(runs)))
