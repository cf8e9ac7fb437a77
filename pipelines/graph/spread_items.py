"""The first step of both stages: names of plan files to work items, spread over all workers, large ones first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import apache_beam as beam

from pipelines.graph.coders import import_in_workers
from pipelines.store.attempts import Attempts
from pipelines.work.plan_parts import read_plan_part
from schemas.plan import Assignment

_RankedItem = tuple[bytes, Assignment]


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
            | "ReadPart" >> beam.ParDo(_ReadPart(self.attempts)).with_output_types(_RankedItem)
            | "Spread" >> beam.GroupByKey()
            | "OneByOne" >> beam.FlatMap(_drop_rank).with_output_types(Assignment)
        )


class _ReadPart(beam.DoFn):
    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def process(self, name: str) -> Iterator[_RankedItem]:
        for rank, assignment in read_plan_part(self._attempts, name):
            yield rank.to_bytes(8, "big"), assignment


def _drop_rank(group: tuple[bytes, Iterable[Assignment]]) -> Iterable[Assignment]:
    return group[1]
