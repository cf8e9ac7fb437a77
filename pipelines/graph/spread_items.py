"""The first step of each stage: names of plan files to pieces of work, spread over all workers, large ones first."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam

from pipelines.graph.coders import import_in_workers
from pipelines.store.attempts import Attempts
from pipelines.work.plan_parts import read_pieces, read_plan_part
from schemas.plan import Assignment

RankedItem = tuple[bytes, Assignment]  # as rank_item spells the key


@dataclasses.dataclass
class Spread(beam.PTransform):
    """PCollection[tuple[key, T]] -> PCollection[T], spread over all workers. Each element has a key of its own."""

    kind: type  # T

    def expand(self, keyed: beam.PCollection[Any]) -> beam.PCollection[Any]:
        return (
            keyed
            | "GroupByKey" >> beam.GroupByKey()
            | "DropKey" >> beam.FlatMap(_drop_key).with_output_types(self.kind)
        )


@dataclasses.dataclass
class SpreadItems(beam.PTransform):
    """PBegin -> PCollection[Assignment]: every work item of the named parts of a plan, once.

    It does what Reshuffle does. But Reshuffle draws its keys, so large items may come last, and all cores wait for one.
    Here an item's key is its rank by size, spelled so that engines that sort keys, as Flink does in batch mode, and
    engines that keep the order of arrival, as the local one does, both begin with the large ones. Beam would also
    pickle what passes through Reshuffle.
    """

    attempts: Attempts
    parts: list[str]  # as write_plan_parts names them

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Assignment]:
        import_in_workers(begin.pipeline)
        return (
            begin
            | "PlanParts" >> beam.Create(self.parts, reshuffle=False).with_output_types(str)
            | "ReadPart" >> beam.ParDo(_ReadPart(self.attempts)).with_output_types(RankedItem)
            | "Spread" >> Spread(Assignment)
        )


@dataclasses.dataclass
class SpreadPieces(beam.PTransform):
    """PBegin -> PCollection[T]: what write_pieces wrote into the named files, in the order of numbers."""

    attempts: Attempts
    names: list[str]
    kind: type[Any]  # T: ShufflePart or PackGroup

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Any]:
        import_in_workers(begin.pipeline)
        numbered = types.GenericAlias(tuple, (int, self.kind))
        return (
            begin
            | "Names" >> beam.Create(self.names, reshuffle=False).with_output_types(str)
            | "ReadPieces" >> beam.ParDo(_ReadPieces(self.attempts, self.kind)).with_output_types(numbered)
            | "Spread" >> Spread(self.kind)
        )


class _ReadPart(beam.DoFn):
    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def process(self, name: str) -> Iterator[RankedItem]:
        for rank, assignment in read_plan_part(self._attempts, name):
            yield rank_item(rank, assignment)


class _ReadPieces(beam.DoFn):
    def __init__(self, attempts: Attempts, kind: type[Any]) -> None:
        self._attempts = attempts
        self._kind = kind

    def process(self, name: str) -> Iterator[tuple[int, Any]]:
        for piece in read_pieces(self._attempts, name, self._kind):
            yield piece.number, piece


def rank_item(rank: int, assignment: Assignment) -> RankedItem:
    """A work item after its rank, spelled so that keys sort as ranks do."""
    return rank.to_bytes(8, "big"), assignment


def _drop_key(group: tuple[Any, Iterable[Any]]) -> Iterable[Any]:
    return group[1]
