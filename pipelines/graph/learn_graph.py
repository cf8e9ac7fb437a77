"""The learn stage on an engine: one element, and one worker that learns. pipelines.work.learn_on_worker does it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import apache_beam as beam

from pipelines.graph.across import run_here
from pipelines.graph.coders import import_in_workers
from pipelines.work.learn_on_worker import LEARNED_KEY, LearnJob, learn_on_worker
from pipelines.work.worker_notes import note_item


@dataclasses.dataclass
class LearnTokenizers(beam.PTransform):
    """PBegin -> PCollection[str], the key of the record that says what was learned."""

    job: LearnJob

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        import_in_workers(begin.pipeline)
        key = begin | "What" >> beam.Create([LEARNED_KEY], reshuffle=False).with_output_types(str)
        return key | "Learn" >> beam.ParDo(_Learn(self.job)).with_output_types(str)


class _Learn(beam.DoFn):
    def __init__(self, job: LearnJob) -> None:
        self._job = job

    def process(self, key: str) -> Iterator[str]:
        run_here(lambda: learn_on_worker(self._job))
        note_item(self._job.attempts, 0)
        yield key
