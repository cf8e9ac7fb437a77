"""The encode stage: input ranges to token shards, and the counts of token ids.

    assignments -> EncodeItem -> (group, token counts) -> MergeTokenCounts -> KeepTokenCounts

With a shuffle there are two passes. The driver reads what the first one recorded, and cuts the second one into parts:

    assignments -> ScatterItem
    parts -> GatherPart -> as after EncodeItem

The work itself is in pipelines.work.encode_item, scatter_item and gather_part, which worker processes import without
Beam.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import apache_beam as beam

from pipelines.graph.across import run_in_worker
from pipelines.graph.coders import import_in_workers
from pipelines.graph.collect_graph import CollectResults
from pipelines.graph.count_graph import KeyedRun, Merging
from pipelines.graph.local_pool import SharedPool
from pipelines.graph.measure import measure_item
from pipelines.store.attempts import Attempts
from pipelines.work.count_item import make_item_key
from pipelines.work.encode_item import find_or_encode_item
from pipelines.work.encode_job import EncodeJob
from pipelines.work.gather_part import gather_part, make_part_key
from pipelines.work.merge_tree import order_runs
from pipelines.work.scatter_item import make_scatter_key, scatter_item
from pipelines.work.token_count_runs import make_token_counts_key, merge_id_runs
from pipelines.work.worker_notes import note_item
from schemas.plan import Assignment
from schemas.refs import ItemEncoded, ItemScattered, PartGathered, RunRef, ShufflePart


@dataclasses.dataclass
class EncodeItems(beam.PTransform):
    """PCollection[Assignment] -> PCollection[ItemEncoded], which the attempt folder records, too.

    A repeated assignment repeats the same bytes.
    """

    job: EncodeJob
    pool: SharedPool | None = None

    def expand(self, assignments: beam.PCollection[Assignment]) -> beam.PCollection[ItemEncoded]:
        import_in_workers(assignments.pipeline)
        encode = _EncodeItem(self.job, self.pool)
        encoded = assignments | "EncodeItem" >> beam.ParDo(encode).with_output_types(ItemEncoded)
        _ = encoded | "CollectResults" >> CollectResults(self.job.attempts, make_item_key, self.pool)
        return encoded


@dataclasses.dataclass
class ScatterItems(beam.PTransform):
    """PCollection[Assignment] -> PCollection[ItemScattered], the first pass of a shuffle; recorded, too."""

    job: EncodeJob
    num_buckets: int
    pool: SharedPool | None = None

    def expand(self, assignments: beam.PCollection[Assignment]) -> beam.PCollection[ItemScattered]:
        import_in_workers(assignments.pipeline)
        scatter = _ScatterItem(self.job, self.num_buckets, self.pool)
        scattered = assignments | "ScatterItem" >> beam.ParDo(scatter).with_output_types(ItemScattered)
        _ = scattered | "CollectResults" >> CollectResults(self.job.attempts, make_scatter_key, self.pool)
        return scattered


@dataclasses.dataclass
class GatherParts(beam.PTransform):
    """PCollection[ShufflePart] -> PCollection[PartGathered], the second pass; recorded, too."""

    job: EncodeJob
    pool: SharedPool | None = None

    def expand(self, parts: beam.PCollection[ShufflePart]) -> beam.PCollection[PartGathered]:
        import_in_workers(parts.pipeline)
        gather = _GatherPart(self.job, self.pool)
        gathered = parts | "GatherPart" >> beam.ParDo(gather).with_output_types(PartGathered)
        _ = gathered | "CollectResults" >> CollectResults(self.job.attempts, make_part_key, self.pool)
        return gathered


@dataclasses.dataclass
class AddUpTokenCounts(beam.PTransform):
    """PCollection[ItemEncoded or PartGathered] -> PCollection[RunRef], counts of token ids: a run for each group.

    They are recorded, too.
    """

    attempts: Attempts
    pool: SharedPool | None
    num_groups: int  # of counts of ids; each group is added up by itself

    def expand(self, written: beam.PCollection[ItemEncoded | PartGathered]) -> beam.PCollection[RunRef]:
        return (
            written
            | "ItsTokenCounts" >> beam.ParDo(_KeyTokenCounts(self.num_groups)).with_output_types(KeyedRun)
            | "MergeTokenCounts"
            >> beam.CombinePerKey(MergeTokenCounts(self.attempts, self.pool)).with_output_types(KeyedRun)
            | "KeepTokenCounts" >> beam.ParDo(_KeepTokenCounts(self.attempts)).with_output_types(RunRef)
        )


class _EncodeItem(beam.DoFn):
    def __init__(self, job: EncodeJob, pool: SharedPool | None) -> None:
        self._job = job
        self._pool = pool

    def process(self, assignment: Assignment) -> Iterator[ItemEncoded]:
        item, was_done = run_in_worker(self._pool, find_or_encode_item, self._job, assignment)
        measure_item("encode", item, was_done)
        if self._pool is None and not was_done:
            note_item(self._job.attempts, item.item)
        yield item


class _ScatterItem(beam.DoFn):
    def __init__(self, job: EncodeJob, num_buckets: int, pool: SharedPool | None) -> None:
        self._job = job
        self._num_buckets = num_buckets
        self._pool = pool

    def process(self, assignment: Assignment) -> Iterator[ItemScattered]:
        item = run_in_worker(self._pool, scatter_item, self._job, self._num_buckets, assignment)
        measure_item("encode", item, False)
        if self._pool is None:
            note_item(self._job.attempts, item.item)
        yield item


class _GatherPart(beam.DoFn):
    def __init__(self, job: EncodeJob, pool: SharedPool | None) -> None:
        self._job = job
        self._pool = pool

    def process(self, part: ShufflePart) -> Iterator[PartGathered]:
        yield run_in_worker(self._pool, gather_part, self._job, part)


class _KeyTokenCounts(beam.DoFn):
    def __init__(self, num_groups: int) -> None:
        self._num_groups = num_groups

    def process(self, written: ItemEncoded | PartGathered) -> Iterator[tuple[tuple[str, int], RunRef]]:
        number = written.item if isinstance(written, ItemEncoded) else written.number
        yield ("", number % self._num_groups), written.token_counts


@beam.typehints.with_input_types(RunRef)
@beam.typehints.with_output_types(RunRef)
class MergeTokenCounts(Merging, beam.CombineFn):
    """Adds up counts of token ids; an accumulator is a bounded list of references to files."""

    def extract_output(self, accumulator: list[RunRef]) -> RunRef:
        assert accumulator, "a key without a run"
        return self._reduce(accumulator, 1)[0]

    def _merge(self, runs: list[RunRef]) -> RunRef:
        return run_in_worker(self._pool, merge_id_runs, self._attempts, tuple(sorted(runs, key=order_runs)))


class _KeepTokenCounts(beam.DoFn):
    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def process(self, element: tuple[tuple[str, int], RunRef]) -> Iterator[RunRef]:
        (_, group), run = element
        yield self._attempts.record(make_token_counts_key(group), run)
