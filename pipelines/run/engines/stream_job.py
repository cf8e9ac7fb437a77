"""The job of a stream: the one of an output that still runs, or a new one, which goes on where a checkpoint ends."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from tokcore_pipelines.local.run_options import RunOptions
from tokcore_pipelines.run.engines.across import find_error
from tokcore_pipelines.run.engines.beam_warnings import tell_warnings
from tokcore_pipelines.run.engines.bind import bind_to_loopback
from tokcore_pipelines.run.engines.driver_options import ask_for_greetings
from tokcore_pipelines.run.engines.engine_jobs import (
    choose_job,
    find_alive,
    find_endpoint,
    find_job_page,
    give_slots_processes,
    watch_workers,
)
from tokcore_pipelines.run.engines.flink_jobs import find_flink_job
from tokcore_pipelines.run.engines.jobs import ENDED, NamedRunner, make_job_name, submit_job
from tokcore_pipelines.run.engines.recorded import Pieces
from tokcore_pipelines.run.engines.stage_on_beam import StageOnBeam
from tokcore_pipelines.run.engines.stream_graph import FollowSources
from tokcore_pipelines.run.engines.watch_job import JobWorkers, RemoteJob
from tokcore_pipelines.store import storage, urls
from tokcore_pipelines.store.attempts import Attempts
from tokcore_pipelines.store.redaction import redact
from tokcore_pipelines.work.worker_notes import get_greetings

# Folders of savepoints below that of a run's checkpoints: people put one into `stopped` to go on from it later. A run
# that has drained is over.
DRAINED = "drained"
# One stream follows the sources of an output, whatever its settings.
_IDENTITY = "0" * 64
_CHECKPOINT_MS = 3_600_000  # a checkpoint waits until the batches that are being read are done
_ENDED_WELL = ("DONE", "DRAINED")
_CHECKPOINT = re.compile(r"(\d{6})/(?:[0-9a-f]{32}/chk-(\d+)|(stopped|drained)/[^/]+)/_metadata")


class Kept(NamedTuple):
    """What earlier runs of a stream left."""

    runs: int  # the number of the last one
    restore: str  # path of the checkpoint or savepoint to go on with; empty: none


class StreamJob:
    """The job that follows the sources of one output."""

    def __init__(
        self, options: RunOptions, output: str, checkpoints: str, interval_s: float, say: Callable[[str], None]
    ) -> None:
        """checkpoints: URL of the folder for those of all outputs, empty for an engine without; one each interval_s."""
        self._options = options
        self._say = say
        self._as_stage = StageOnBeam(
            "stream", Attempts(output, "stream", _IDENTITY), Pieces(0, dict), options, None, say
        )
        self.name = make_job_name(self._as_stage.attempts, "stream")
        self._endpoint = find_endpoint(PipelineOptions([*options.runner])) or ""
        self._interval_ms = round(interval_s * 1000)
        self._folder = urls.join(checkpoints, self.name) if checkpoints else ""
        self._run = ""  # URL of the folder of this run's checkpoints
        self._page: str | None = None
        self._num_warnings = 0
        self._is_own = False  # whether this process submitted the job
        self._job: RemoteJob
        self._workers: JobWorkers

    def start(self, follow: FollowSources) -> None:
        """Go on with the job that an earlier driver left, or submit a new one. Raises as find_alive does."""
        paths = storage.list_tree(self._folder) if self._folder else []
        kept = find_kept(paths)
        job = self._find()
        self._is_own = job is None
        if job is not None:
            self._run = self._name_run(kept.runs)
            self._say(f"stream: goes on with job {job.id} ({self.name}), which runs at {job.endpoint}")
        else:
            self._run = self._name_run(kept.runs + 1)
            job = self._submit(follow, kept.restore and urls.join(self._folder, kept.restore))
            needed = kept.restore[:6] or f"{kept.runs:06d}"
            for run in {path.partition("/")[0] for path in paths if path[:6] < needed}:
                storage.remove_tree(urls.join(self._folder, run))  # nothing goes on from there any more
        self._job = job
        self._workers = self._watch_workers(job)

    def look(self) -> bool:
        """Whether the job still runs. Says where its page is, and what the engine warns of.

        Raises what ended the job, if it did not end well; StageError if nobody answers.
        """
        state = self._job.read_state()
        if self._page is None and (page := self._find_page(self._job)) is not None:
            self._page = page
            self._say(f"job {self._job.id}: {page}")
        warnings = self._job.read_warnings()
        for text in warnings[self._num_warnings :]:
            self._say(f"warning: job {self._job.id}: {redact(text)}")
        self._num_warnings = len(warnings)
        if state not in ENDED:
            self._workers.check()
            return True
        if state in _ENDED_WELL:
            return False
        failure = self._job.read_failure()
        raise find_error(failure) or self._workers.explain(state, redact(failure))

    @property
    def keeps_every_look(self) -> bool:
        """Whether each look leaves a state in the job, which only ends with it.

        On Flink it does, at least until release 2.56 of Beam's job server (github.com/apache/beam/issues/27648): a
        step that waits gets a state with a new name each time. Flink writes all of them into each checkpoint, and has
        room for 32,767.
        """
        return bool(self._folder)

    @property
    def at_work_s(self) -> float:
        """Seconds since the first worker was seen; 0 without one, or if an earlier driver submitted the job."""
        started = self._workers.started_at if self._is_own else None
        return 0.0 if started is None else time.monotonic() - started

    def drain(self) -> bool:
        """Have the engine finish what it has begun, once the stream is told to end; whether it was asked to.

        An engine that keeps checkpoints calls a step that waits again at once, and ends when none does any more.
        """
        if not self._folder:
            return True
        if (job := find_flink_job(self._options.web, self.name)) is None:
            return False
        job.drain(spell_for_engine(urls.join(self._run, DRAINED)))
        return True

    def give_up(self) -> None:
        """End a job that does nothing any more; the next one begins without its checkpoints."""
        self.cancel()
        if self._folder:
            with storage.write_attempt(urls.join(self._run, DRAINED, "stalled", "_metadata")) as file:
                file.write(b"no savepoint: the stream did not go on\n")

    def cancel(self) -> None:
        """End the job at once. What it has not committed is found again by the next one."""
        self._say(f"cancels job {self._job.id} at {self._job.endpoint}")
        self._job.cancel()

    def _submit(self, follow: FollowSources, restore: str) -> RemoteJob:
        options = PipelineOptions(["--streaming", *self._list_checkpoint_options(restore), *self._options.runner])
        greetings = get_greetings(self._as_stage.attempts)
        storage.remove_tree(greetings)  # of workers of an earlier job
        ask_for_greetings(options, greetings)
        with bind_to_loopback(), tell_warnings(self._say):
            job = self._run_pipeline(options, follow)
        where = f", from {redact(restore)}" if restore else ""
        self._say(f"stream: job {job.id} ({self.name}) at {job.endpoint}{where}")
        return job

    # Engines without Beam's job API replace these.

    def _find(self) -> RemoteJob | None:
        """The job that is alive."""
        return find_alive(self._as_stage, self._endpoint, self.name)

    def _find_page(self, job: RemoteJob) -> str | None:
        """Where people see the job; None while that is not known."""
        return find_job_page(self._options, job, self.name)

    def _watch_workers(self, job: RemoteJob) -> JobWorkers:
        """What becomes known of its workers."""
        return watch_workers(self._as_stage, job)

    def _run_pipeline(self, options: PipelineOptions, follow: FollowSources) -> RemoteJob:
        """Submit the pipeline."""
        if self._options.engine == "flink":
            give_slots_processes(self._options, options, self._say)
        pipeline = beam.Pipeline(runner=NamedRunner(self.name), options=options)
        _ = pipeline | "FollowSources" >> dataclasses.replace(follow)  # Beam ties a transform to one pipeline
        job = submit_job(pipeline, self._endpoint, self.name, choose_job(self._options))
        job.listen()
        return job

    def _list_checkpoint_options(self, restore: str) -> list[str]:
        if not self._folder:
            return []
        return [
            f"--checkpointing_interval={self._interval_ms}",
            f"--checkpoint_timeout_millis={_CHECKPOINT_MS}",
            # Otherwise Flink holds the output of a bundle that ends in a checkpoint until the step's next bundle. The
            # step that prepares the source has only one bundle, so an early checkpoint would keep the job from looking.
            "--finish_bundle_before_checkpointing",
            "--externalized_checkpoints_enabled",
            "--retain_externalized_checkpoints_on_cancellation",
            "--state_backend=filesystem",
            f"--state_backend_storage_path={spell_for_engine(self._run)}",
            *([f"--savepoint_path={spell_for_engine(restore)}"] if restore else []),
        ]

    def _name_run(self, number: int) -> str:
        return urls.join(self._folder, f"{number:06d}") if self._folder else ""


def find_kept(paths: Iterable[str]) -> Kept:
    """What runs left, by the paths of files below the stream's folder of checkpoints.

    >>> job = "0" * 32
    >>> find_kept([f"000001/{job}/chk-9/_metadata", f"000001/{job}/chk-10/_metadata", "000002/other"])
    Kept(runs=2, restore='000001/00000000000000000000000000000000/chk-10')
    >>> find_kept([f"000001/{job}/chk-9/_metadata", "000001/drained/savepoint-1/_metadata"])
    Kept(runs=1, restore='')
    """
    newest = (0, 0, "")
    runs = 0
    for path in paths:
        number = path.partition("/")[0]
        runs = max(runs, int(number) if number.isdigit() else 0)
        if (found := _CHECKPOINT.fullmatch(path)) is not None:
            last = 1 << 62 if found[3] else int(found[2])
            restore = "" if found[3] == DRAINED else path.removesuffix("/_metadata")
            newest = max(newest, (int(found[1]), last, restore))
    return Kept(runs, newest[2])


def spell_for_engine(url: str) -> str:
    """A URL as engines in Java spell it.

    >>> spell_for_engine("/data/checkpoints"), spell_for_engine("s3://bucket/checkpoints")
    ('file:///data/checkpoints', 's3://bucket/checkpoints')
    """
    return f"file://{urls.get_local_path(url)}" if urls.is_local(url) else url
