"""The job of a stream on Dataflow: found again by its name or label, drained as Dataflow drains."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions

from tokcore_pipelines.local.dataflow import JOB_LABEL
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.engines.dataflow_engine import HINT, SILENCE_S, TemplateWritten
from tokcore_pipelines.run.engines.dataflow_jobs import DataflowJob, Service, ask
from tokcore_pipelines.run.engines.engine_jobs import watch_workers
from tokcore_pipelines.run.engines.stream_graph import FollowSources
from tokcore_pipelines.run.engines.stream_job import StreamJob
from tokcore_pipelines.run.engines.watch_job import JobWorkers, RemoteJob


class DataflowStreamJob(StreamJob):
    """As StreamJob. Dataflow keeps the state itself, and moves it to a new job if told to update one in place."""

    def __init__(self, options: RunOptions, output: str, say: Callable[[str], None]) -> None:
        super().__init__(options, output, "", 0, say)
        self._service: Service | None = None

    def drain(self) -> bool:
        """Have Dataflow drain the job: the source is truncated, windows close, and what they hold is committed."""
        service = self._open(PipelineOptions([*self._options.runner]))
        ask(service.describe(), lambda: service.client.modify_job_state(self._job.id, "JOB_STATE_DRAINING"))
        return True

    def _open(self, options: PipelineOptions) -> Service:
        if self._service is None:
            self._service = Service(options)
        return self._service

    def _find(self) -> RemoteJob | None:
        options = PipelineOptions([*self._options.runner])
        if options.view_as(GoogleCloudOptions).template_location is not None:
            return None  # nothing is started, so nothing stands in the way
        return self._open(options).find_job(self.name, self._say)

    def _find_page(self, job: RemoteJob) -> str | None:
        return self._open(PipelineOptions([*self._options.runner])).find_page(job.id)

    def _watch_workers(self, job: RemoteJob) -> JobWorkers:
        return watch_workers(self._as_stage, job, HINT, SILENCE_S)

    def _run_pipeline(self, options: PipelineOptions, follow: FollowSources) -> RemoteJob:
        """Submit the pipeline; with --template_location, write it there and raise TemplateWritten."""
        cloud = options.view_as(GoogleCloudOptions)
        cloud.enable_streaming_engine = True  # what Dataflow keeps state in; without it, each host keeps its own
        where = f"Dataflow ({cloud.project}, {cloud.region})"
        if cloud.template_location is not None:
            cloud.labels = [*(cloud.labels or ()), f"{JOB_LABEL}={self.name}"]
        else:
            cloud.job_name = self.name
        pipeline = ask(where, lambda: beam.Pipeline(runner="DataflowRunner", options=options))
        _ = pipeline | "FollowSources" >> dataclasses.replace(follow)  # Beam ties a transform to one pipeline
        if cloud.template_location is not None:
            ask("the store of --template_location", pipeline.run)
            raise TemplateWritten(f"stream: wrote {cloud.template_location}; nothing was started")
        result = ask(where, pipeline.run)
        return DataflowJob(self._open(options), result.job_id(), self.name)
