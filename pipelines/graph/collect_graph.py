"""The last step of a pass over work items, where the output is in a store: their records, many in one object."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import apache_beam as beam

from pipelines.graph.across import run_in_worker
from pipelines.graph.local_pool import SharedPool
from pipelines.store import urls
from pipelines.store.attempts import Attempts
from pipelines.work.collected_results import collect_results, find_group
from schemas.refs import ItemCounted, ItemEncoded, ItemScattered, PartGathered

Finished = ItemCounted | ItemEncoded | ItemScattered | PartGathered
_GroupedNumber = tuple[int, int]


@dataclasses.dataclass
class CollectResults(beam.PTransform):
    """PCollection of finished work -> PCollection[int], how many records each object got; none on local disks.

    Only numbers are shuffled; a worker reads the records that they name. make_key: the record key of a number.
    """

    attempts: Attempts
    make_key: Callable[[int], str]
    pool: SharedPool | None = None

    def expand(self, finished: beam.PCollection[Finished]) -> beam.PCollection[int]:
        if urls.is_local(self.attempts.output):
            return finished | "NoneOnDisks" >> beam.FlatMap(_drop).with_output_types(int)
        return (
            finished
            | "ItsGroup" >> beam.Map(_find_group).with_output_types(_GroupedNumber)
            | "GroupRecords" >> beam.GroupByKey()
            | "CollectRecords"
            >> beam.ParDo(_CollectRecords(self.attempts, self.make_key, self.pool)).with_output_types(int)
        )


def _drop(finished: Finished) -> Iterator[int]:
    return iter(())


def _find_group(finished: Finished) -> _GroupedNumber:
    number = finished.number if isinstance(finished, PartGathered) else finished.item
    return find_group(number), number


class _CollectRecords(beam.DoFn):
    def __init__(self, attempts: Attempts, make_key: Callable[[int], str], pool: SharedPool | None) -> None:
        self._attempts = attempts
        self._make_key = make_key
        self._pool = pool

    def process(self, element: tuple[int, Iterable[int]]) -> Iterator[int]:
        _, numbers = element
        yield run_in_worker(self._pool, collect_results, self._attempts, self._make_key, sorted(numbers))
