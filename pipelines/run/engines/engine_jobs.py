"""A stage as a job of an engine: go on with the one that still runs, or submit it; and watch it to its end."""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apache_beam as beam
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions, PortableOptions

from tokcore.errors import ConfigError, StageError, TokError
from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.engines.driver_options import ask_for_greetings
from tokcore_pipelines.run.engines.flink_jobs import SubmittedJob, count_slots, find_flink_job, find_page
from tokcore_pipelines.run.engines.jobs import Job, MakeJob, NamedRunner, find_job, make_job_name, submit_job
from tokcore_pipelines.run.engines.recorded import Recorded
from tokcore_pipelines.run.engines.shorten_failure import shorten_failure
from tokcore_pipelines.run.engines.stage_on_beam import StageOnBeam
from tokcore_pipelines.run.engines.watch_job import JobWorkers, RemoteJob, watch_job
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.worker_notes import get_greetings, read_greetings

# So long a worker may take to start. Prism waits for ever for one that does not.
SILENCE_S = 120.0
_HINT = "engine.worker names the program that starts workers on its hosts"
_LOOK_S = 2.0


def find_endpoint(options: PipelineOptions) -> str | None:
    """Where the job server of a portable runner is; None for runners without one."""
    endpoint = options.view_as(PortableOptions).job_endpoint
    return endpoint if endpoint and endpoint != "embed" else None


@contextmanager
def run_job(run: StageOnBeam, endpoint: str, options: PipelineOptions) -> Iterator[beam.Pipeline]:
    """A pipeline that runs as a job when the block ends; the stage's metrics get what was measured.

    If the engine has a job that does this stage of this output already, that one is waited for instead. Raises what a
    worker raised, ConfigError if workers refuse to start, StageError for any other failure.
    """
    greetings = get_greetings(run.attempts)
    ask_for_greetings(options, greetings)
    if run.options.engine == "flink":
        give_slots_processes(run.options, options, run.say)
    name = make_job_name(run.attempts, run.stage)
    pipeline = beam.Pipeline(runner=NamedRunner(name), options=options)
    yield pipeline
    job: RemoteJob
    if (found := find_alive(run, endpoint, name)) is not None:
        job = found
        opening = f"{run.stage}: goes on with job {job.id} ({name}), which runs at {job.endpoint}"
    else:
        storage.remove_tree(greetings)  # of workers of an earlier job
        job = submitted = submit_job(pipeline, endpoint, name, choose_job(run.options))
        submitted.listen()
        opening = f"{run.stage}: job {job.id} ({name}) at {endpoint}"
    follow_job(run, job, opening, lambda: find_job_page(run.options, job, name))


def follow_job(
    run: StageOnBeam,
    job: RemoteJob,
    opening: str,
    find_page: Callable[[], str | None],
    hint: str = _HINT,
    silence_s: float | None = None,
) -> None:
    """Watch a job to its end; the stage's metrics get what was measured.

    opening: to say at first. find_page: where people see the job. hint: what to look at if no worker starts.
    silence_s: how long one may take. Raises as run_job does.
    """
    run.metrics |= watch_job(
        job,
        opening,
        Recorded(run.attempts, run.pieces),
        run.pieces.num,
        find_page,
        _Workers(run, job, hint, SILENCE_S if silence_s is None else silence_s),
        run.options.detach,
        run.on_progress,
        run.say,
    )


def give_slots_processes(run: RunOptions, options: PipelineOptions, say: Callable[[str], None]) -> None:
    """Have as many workers start on each TaskManager as it has slots that the job may use; Beam would start one."""
    if any(option.startswith("--sdk_worker_parallelism") for option in run.runner):
        return
    try:
        num_slots = count_slots(run.web)
    except StageError as error:
        say(f"warning: engine.web: {error}. Slots share a worker process unless engine.processes says more")
        return
    parallelism = options.view_as(FlinkRunnerOptions).parallelism
    num = min(num_slots, parallelism) if parallelism > 0 else num_slots
    options.view_as(PortableOptions).sdk_worker_parallelism = str(num)


def find_alive(run: StageOnBeam, endpoint: str, name: str) -> RemoteJob | None:
    """The job that an earlier driver left, as the job server knows it, or else the engine itself."""
    if (job := find_job(endpoint, name, choose_job(run.options))) is not None:
        job.listen()
        return job
    if run.options.engine != "flink":
        return None
    try:
        return find_flink_job(run.options.web, name)
    except StageError as error:
        run.say(f"warning: engine.web: {error}. A job that outlived its job server would not be found")
        return None


def choose_job(options: RunOptions) -> MakeJob:
    """What makes a job of that engine."""
    return functools.partial(SubmittedJob, options.web) if options.engine == "flink" else Job


def find_job_page(options: RunOptions, job: RemoteJob, name: str) -> str | None:
    """Where people see a job; None while that is not known."""
    if options.engine == "flink":
        return find_page(options.web, name)
    return f"http://{options.web}/job/{job.id}" if options.web else None


class _Workers:
    """Ends a job whose workers do not start, and says why a job failed."""

    def __init__(self, run: StageOnBeam, job: RemoteJob, hint: str, silence_s: float) -> None:
        self._engine = run.options.engine
        self._attempts = run.attempts
        self._greetings = get_greetings(run.attempts)
        self._job = job
        self._hint = f"Look into the log of {self._engine}; {hint}"
        self._silence_s = silence_s
        self._say = run.say
        self._began = self._next = time.monotonic()
        self._is_settled = False
        self.started_at: float | None = None

    def check(self) -> None:
        """Raise ConfigError if workers refuse to start, or do not. Asks until one has started."""
        now = time.monotonic()
        if self._is_settled or now < self._next:
            return
        self._next = now + _LOOK_S
        num_started, refusal = read_greetings(self._greetings)
        if num_started:
            self._is_settled, self.started_at = True, now
        if refusal and not num_started:
            self._job.cancel()
            raise _refused(refusal)
        if num_started or now - self._began < self._silence_s:
            return
        text = f"{self._name_job()}: no worker has started for {self._silence_s:.0f} s. {self._hint}"
        if self._engine == "prism":  # it has all its hosts already
            self._job.cancel()
            raise ConfigError(text)
        self._is_settled = True
        self._say(f"warning: {text}")

    def explain(self, state: str, failure: str) -> TokError:
        """ConfigError if workers refused to start, or Prism could not start any; else StageError.

        It names a file with all of failure.
        """
        num_started, refusal = read_greetings(self._greetings)
        if refusal:
            return _refused(refusal)
        why = shorten_failure(failure)
        if why != failure.strip():
            why = f"{why} (all of it: {redact(self._keep(failure))})"
        text = f"{self._name_job()} ended {state}: {why}. "
        if state == "FAILED" and not num_started:
            text += f"No worker had started. {self._hint}. "
            if self._engine == "prism":  # another one may have lost a host
                return ConfigError(text.removesuffix(". "))
        return StageError(f"{text}Finished work is kept: run the same command again")

    def _keep(self, failure: str) -> str:
        """URL of a new file of the stage's working folder, with all that the engine said."""
        url = urls.join(self._attempts.folder, f"failure-{uuid.uuid4().hex[:12]}.txt")
        with storage.write_attempt(url) as file:
            file.write(redact(failure).encode())
        return url

    def _name_job(self) -> str:
        return f"job {self._job.id} at {self._job.endpoint}"


def _refused(refusal: str) -> ConfigError:
    return ConfigError(f"a worker refused to start on host {refusal}")


def watch_workers(run: StageOnBeam, job: RemoteJob, hint: str = "", silence_s: float = 0) -> JobWorkers:
    """What becomes known of the workers of a job. hint, silence_s: as for follow_job; neither: as it has them."""
    return _Workers(run, job, hint or _HINT, silence_s or SILENCE_S)
