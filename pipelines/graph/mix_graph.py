"""The mixture stage: parts of the shuffle to counts, parts of the mixture to shards.

The driver reads the counts before it decides what is written. The work itself is in pipelines.work.mix_part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import apache_beam as beam

from pipelines.graph.across import run_in_worker
from pipelines.graph.coders import import_in_workers
from pipelines.graph.local_pool import SharedPool
from pipelines.work.mix_part import MixJob, measure_part, mix_part
from schemas.refs import MixPart, PartMeasured, PartMixed


@dataclasses.dataclass
class MeasureParts(beam.PTransform):
    """PCollection[MixPart] -> PCollection[PartMeasured]; all is recorded, too."""

    job: MixJob
    pool: SharedPool | None = None

    def expand(self, parts: beam.PCollection[MixPart]) -> beam.PCollection[PartMeasured]:
        import_in_workers(parts.pipeline)
        return parts | "MeasurePart" >> beam.ParDo(_MeasurePart(self.job, self.pool)).with_output_types(PartMeasured)


@dataclasses.dataclass
class MixParts(beam.PTransform):
    """PCollection[MixPart] -> PCollection[PartMixed]; all is recorded, too. A repeated part repeats its bytes."""

    job: MixJob
    pool: SharedPool | None = None

    def expand(self, parts: beam.PCollection[MixPart]) -> beam.PCollection[PartMixed]:
        import_in_workers(parts.pipeline)
        return parts | "MixPart" >> beam.ParDo(_MixPart(self.job, self.pool)).with_output_types(PartMixed)


class _MeasurePart(beam.DoFn):
    def __init__(self, job: MixJob, pool: SharedPool | None) -> None:
        self._job = job
        self._pool = pool

    def process(self, part: MixPart) -> Iterator[PartMeasured]:
        yield run_in_worker(self._pool, measure_part, self._job, part)


class _MixPart(beam.DoFn):
    def __init__(self, job: MixJob, pool: SharedPool | None) -> None:
        self._job = job
        self._pool = pool

    def process(self, part: MixPart) -> Iterator[PartMixed]:
        yield run_in_worker(self._pool, mix_part, self._job, part)
