"""A stage as a job of Dataflow: go on with the one that still runs, or submit it, and watch it to its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.runners.dataflow.internal.apiclient import DataflowJobAlreadyExistsError

from tokcore.errors import StageError, TokError
from tokcore_pipelines.local.dataflow import JOB_LABEL
from tokcore_pipelines.run.engines.dataflow_jobs import DataflowJob, Service, ask
from tokcore_pipelines.run.engines.driver_options import ask_for_greetings
from tokcore_pipelines.run.engines.engine_jobs import follow_job
from tokcore_pipelines.run.engines.jobs import make_job_name
from tokcore_pipelines.run.engines.stage_on_beam import StageOnBeam
from tokcore_pipelines.store import storage
from tokcore_pipelines.work.worker_notes import get_greetings

# Hosts take minutes to start and to fetch the image.
SILENCE_S = 900.0
HINT = (
    "the job's page says more. engine.image must be there for engine.service_account, and the subnetwork must reach "
    "Google's interfaces (Private Google Access)"
)


class TemplateWritten(TokError):  # noqa: N818 - it is what was asked for
    """The graph of a stage lies where --template_location says, and nothing was started. The launcher expects it."""


@contextmanager
def run_dataflow_job(run: StageOnBeam, options: PipelineOptions) -> Iterator[beam.Pipeline]:
    """A pipeline that runs as a job when the block ends; the stage's metrics get what was measured.

    If Dataflow has a job that does this stage of this output already, that one is waited for instead. With
    --template_location, writes the graph there and raises TemplateWritten. Raises else what engine_jobs.run_job does.
    """
    greetings = get_greetings(run.attempts)
    ask_for_greetings(options, greetings)
    name = make_job_name(run.attempts, run.stage)
    cloud = options.view_as(GoogleCloudOptions)
    if cloud.template_location is not None:
        cloud.labels = [*(cloud.labels or ()), f"{JOB_LABEL}={name}"]
    where = f"Dataflow ({cloud.project}, {cloud.region})"
    pipeline = ask(where, lambda: beam.Pipeline(runner="DataflowRunner", options=options))
    yield pipeline
    if cloud.template_location is not None:
        ask("the store of --template_location", pipeline.run)
        raise TemplateWritten(f"{run.stage}: wrote {cloud.template_location}; nothing was started")
    service = Service(options)
    if (job := service.find_job(name, run.say)) is not None:
        opening = f"{run.stage}: goes on with job {job.id} ({job.name}), which runs at {job.endpoint}"
    else:
        storage.remove_tree(greetings)  # of workers of an earlier job
        job, is_ours = _submit(pipeline, service, name, run)
        opening = f"{run.stage}: {'' if is_ours else 'goes on with '}job {job.id} ({name}) at {job.endpoint}"
    follow_job(run, job, opening, lambda: service.find_page(job.id), HINT, SILENCE_S)


def _submit(pipeline: beam.Pipeline, service: Service, name: str, run: StageOnBeam) -> tuple[DataflowJob, bool]:
    """The job that runs under the name now, and whether it is this pipeline's: another driver may have been faster."""
    pipeline.options.view_as(GoogleCloudOptions).job_name = name
    try:
        result = ask(service.describe(), pipeline.run)
        return DataflowJob(service, result.job_id(), name), True
    except DataflowJobAlreadyExistsError as error:
        if (job := service.find_job(name, run.say)) is None:
            raise StageError(f"{service.describe()}: {error}. Run the same command again") from error
        return job, False
