"""The graph of a step, one shape for all stages: names of files of pieces to pieces of work, done in workers.

    names -> ReadPieces -> Spread -> RunTask

Two branches may follow, where the step says so:

    number -> ItsGroup -> GroupRecords -> CollectRecords
    ((name, partition), run) -> MergeToFew -> Regroup -> (name, runs) -> Finish

What tasks give lies in their records, from which the driver takes it. So only numbers and references to runs travel.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam

from tokcore_pipelines.run.engines.across import run_here
from tokcore_pipelines.run.engines.coders import import_in_workers
from tokcore_pipelines.run.engines.measure import count_in_metrics
from tokcore_pipelines.run.engines.merge_graph import AddUpRuns, KeyedRun
from tokcore_pipelines.run.engines.spread_items import Spread, rank_piece
from tokcore_pipelines.store import urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.work.collected_results import collect_results, find_group
from tokcore_pipelines.work.combining import Combining
from tokcore_pipelines.work.plan_parts import read_pieces, read_plan_part
from tokcore_pipelines.work.worker_notes import note_item
from tokcore_schemas.plan import Assignment

_Left = tuple[int, Iterable[KeyedRun]]  # the number of a piece, and what it left for AddUpRuns
_GroupedNumber = tuple[int, int]


@dataclasses.dataclass
class RunTasks(beam.PTransform):
    """PBegin -> PDone: function(*shared, piece) for every piece of the named files, the large ones first.

    A repeated piece finds its record, or makes the same bytes again.
    """

    name: str  # of the step
    attempts: Attempts
    function: Callable[..., Any]
    shared: tuple[Any, ...]
    names: list[str]  # as write_plan_parts or write_pieces give them
    kind: type[Any]  # of the pieces
    measure: Callable[[Any], Mapping[str, int]] | None = None
    combining: Combining = dataclasses.field(default_factory=Combining)

    def expand(self, begin: beam.pvalue.PBegin) -> beam.pvalue.PDone:
        import_in_workers(begin.pipeline)
        run = _RunTask(self.name, self.attempts, self.function, self.shared, self.measure, self.combining)
        done = (
            begin
            | "Names" >> beam.Create(self.names, reshuffle=False).with_output_types(str)
            | "ReadPieces" >> beam.ParDo(_ReadPieces(self.attempts, self.kind)).with_output_types(_ranked(self.kind))
            | "Spread" >> Spread(self.kind)
            | "RunTask" >> beam.ParDo(run).with_output_types(_Left)
        )
        if self.combining.make_key is not None and not urls.is_local(self.attempts.output):
            collect = _CollectRecords(self.attempts, self.combining.make_key)
            _ = (
                done
                | "ItsGroup" >> beam.MapTuple(_find_group).with_output_types(_GroupedNumber)
                | "GroupRecords" >> beam.GroupByKey()
                | "CollectRecords" >> beam.ParDo(collect).with_output_types(int)
            )
        if self.combining.adding is not None:
            runs = done | "ItsRuns" >> beam.FlatMapTuple(_list_runs).with_output_types(KeyedRun)
            _ = runs | "AddUpRuns" >> AddUpRuns(self.attempts, self.combining.adding)
        return beam.pvalue.PDone(begin.pipeline)


def _ranked(kind: type[Any]) -> Any:
    return types.GenericAlias(tuple, (bytes, kind))


@dataclasses.dataclass
class _ReadPieces(beam.DoFn):
    attempts: Attempts
    kind: type[Any]

    def process(self, name: str) -> Iterator[tuple[bytes, Any]]:
        if self.kind is Assignment:
            found = read_plan_part(self.attempts, name)
        else:
            found = read_pieces(self.attempts, name, self.kind)
        for rank, piece in found:
            yield rank_piece(rank, piece)


@dataclasses.dataclass
class _RunTask(beam.DoFn):
    step: str
    attempts: Attempts
    function: Callable[..., Any]
    shared: tuple[Any, ...]
    measure: Callable[[Any], Mapping[str, int]] | None
    combining: Combining

    def process(self, piece: Any) -> Iterator[tuple[int, list[Any]]]:
        result = run_here(lambda: self.function(*self.shared, piece))
        number = getattr(piece, "number", 0)
        amounts = {} if self.measure is None else self.measure(result)
        count_in_metrics(self.step, amounts)
        if not amounts.get("cache_hits"):
            note_item(self.attempts, number)
        adding = self.combining.adding
        yield number, [] if adding is None else list(adding.list_runs(result))


def _list_runs(_number: int, runs: Iterable[Any]) -> Iterable[Any]:
    return runs


def _find_group(number: int, _runs: Iterable[Any]) -> _GroupedNumber:
    return find_group(number), number


@dataclasses.dataclass
class _CollectRecords(beam.DoFn):
    attempts: Attempts
    make_key: Callable[[int], str]

    def process(self, group: tuple[int, Iterable[int]]) -> Iterator[int]:
        yield run_here(lambda: collect_results(self.attempts, self.make_key, sorted(group[1])))
