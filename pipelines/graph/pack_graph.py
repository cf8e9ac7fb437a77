"""The pack stage: groups of documents to shards of rows. The work itself is in pipelines.work.pack_group."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import apache_beam as beam

from pipelines.graph.across import run_in_worker
from pipelines.graph.coders import import_in_workers
from pipelines.graph.local_pool import SharedPool
from pipelines.work.pack_group import PackJob, pack_group
from schemas.refs import GroupPacked, PackGroup


@dataclasses.dataclass
class PackGroups(beam.PTransform):
    """PCollection[PackGroup] -> PCollection[GroupPacked]; all is recorded, too. A repeated group repeats its bytes."""

    job: PackJob
    pool: SharedPool | None = None

    def expand(self, groups: beam.PCollection[PackGroup]) -> beam.PCollection[GroupPacked]:
        import_in_workers(groups.pipeline)
        return groups | "PackGroup" >> beam.ParDo(_PackGroup(self.job, self.pool)).with_output_types(GroupPacked)


class _PackGroup(beam.DoFn):
    def __init__(self, job: PackJob, pool: SharedPool | None) -> None:
        self._job = job
        self._pool = pool

    def process(self, group: PackGroup) -> Iterator[GroupPacked]:
        yield run_in_worker(self._pool, pack_group, self._job, group)
